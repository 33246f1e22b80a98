"""Threads that count come and go, and their counts stay."""

import gc
import threading
from collections.abc import Callable

from headrace.runtime.metrics import Metrics, Tally
from headrace.runtime.request import Dropped


def in_a_thread(do: Callable[[], object]) -> None:
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


def count_once(metrics: Metrics) -> None:
    tally = metrics.tally()
    cell = tally.pipelines[0]
    cell.successes += 1
    cell.duration += 0.5
    cell.queue += 0.25
    cell.count_rows(3, 0.125)
    cell.fail("failed")
    cell.fall_back("a.pipe:1:2", "deadline")
    cell.end(Dropped("no time", pipeline="read", stage="dense"))
    tally.stages[0].record(4, 0.5)
    tally.stages[0].queue += 0.25
    tally.stages[0].mixed += 1
    tally.stages[0].padded += 2


def test_what_an_ended_thread_has_counted_stays() -> None:
    metrics = Metrics(["read"], ["dense"])
    for _ in range(3):
        in_a_thread(lambda: count_once(metrics))
    count_once(metrics)
    for _ in range(2):  # asking twice counts nothing twice
        pipeline = metrics.snapshot([5], [{1: 2}]).pipeline("read")
        assert (pipeline.successes, pipeline.duration_seconds, pipeline.queue_seconds) == (4, 2, 1)
        assert (pipeline.rows, pipeline.row_seconds) == ({3: 4}, {3: 0.5})
        assert pipeline.failures == {"failed": 4, "deadline": 4}
        assert pipeline.failed_at == {("dense", "deadline"): 4}
        assert pipeline.fallbacks == {("a.pipe:1:2", "deadline"): 4}
        assert pipeline.dropped == {"dense": 4}
        assert (pipeline.pending, pipeline.levels) == (5, {1: 2})
        stage = metrics.snapshot().stage("dense")
        assert (stage.executions, stage.rows, stage.sizes) == (4, 16, {4: 4})
        assert (stage.compute_seconds, stage.queue_seconds) == (2, 1)
        assert (stage.mixed, stage.padded) == (4, 8)
        assert stage.recent == (0.5,) * 4


def test_of_the_times_of_a_thread_the_latest_are_known() -> None:
    metrics = Metrics(["read"], ["dense"])
    cell = metrics.tally().stages[0]
    for seconds in range(100):
        cell.record(1, seconds)
    in_a_thread(lambda: metrics.tally().stages[0].record(1, 1000))
    metrics.tally()
    assert set(metrics.snapshot([], [], [7]).stage("dense").recent) == {*range(36, 100), 1000}
    assert metrics.snapshot([], [], [7]).stage("dense").waiting == 7


def test_nothing_else_is_kept_of_a_thread_that_has_ended() -> None:
    metrics = Metrics(["read"], [])
    before = tallies()
    for _ in range(20):
        in_a_thread(lambda: metrics.tally().pipelines[0].count_nothing())
    metrics.tally()  # nobody need ask for the counts: whoever comes next clears up
    assert tallies() == before + 1
    assert metrics.snapshot().pipeline("read").successes == 20


def tallies() -> int:
    return sum(type(one) is Tally for one in gc.get_objects())


def test_a_thread_that_goes_on_counts_where_it_did() -> None:
    metrics = Metrics(["read"], [])
    tally = metrics.tally()
    in_a_thread(metrics.tally)
    metrics.snapshot()
    assert metrics.tally() is tally
    tally.inside += 1
    assert metrics.inside() == 1
