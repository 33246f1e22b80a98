"""Two threads at one request: who ends it, who closes, who reads. Threads change all the time."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Fault, InSequence, Request, Response
from tests.runtime.behaviour_pipes import MEETING, compiled
from tests.runtime.drivers import LONG, Meeting, switching

FUNCTIONS = """
import meeting_of_behaviours as meeting

def met(x):
    meeting.meet()
    return x

def quick(xs):
    return xs + 1
"""
PIPE = """
fn met(x: f32) -> (y: f32) = python "functions.py:met"
fn quick(x: f32) -> (y: f32) = python "functions.py:quick" batched

pipeline raced(x: f32) -> (y: f32) { return y = quick(met(x)) }
pipeline short(x: f32) -> (y: f32) { return y = quick(x) }
pipeline total(x: f32) -> (y: f32) per sequence idle 30s {
    state sum: f32 = 0
    next sum = sum + x
    return y = quick(sum + x)
}
pipeline sent(x: f32) -> stream (y: f32) {
    _ = loop (v: f32 = x) max 40 {
        emit y = v
        next v = quick(v)
    }
}
schedule raced on "server" { quick { batch { max = 4, wait = 1ms } } }
schedule short on "server" { quick { batch { max = 4, wait = 1ms } }, queue { size = 8 } }
schedule total on "server" { quick { batch { max = 4, wait = 1ms } } }
schedule sent on "server"  { quick { batch { max = 4 } } }
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder: Path = tmp_path_factory.mktemp("races")
    return compiled(folder, PIPE, FUNCTIONS)


@pytest.fixture(autouse=True)
def meeting() -> Iterator[Meeting]:
    made = sys.modules[MEETING] = Meeting(MEETING, together=True)
    with switching():
        yield made
    del sys.modules[MEETING]


@pytest.fixture
def engine(plan: Plan) -> Iterator[Engine]:
    engine = Engine(plan, EngineConfig(workers=4, intra_op_threads=1))
    yield engine
    engine.close()


def asking(pipeline: str, x: float, **more: object) -> Request:
    return Request(pipeline, {"x": np.float32(x)}, **more)  # type: ignore[arg-type]


def number(response: Response) -> float:
    return float(np.asarray(response.outputs["y"]))


def left(engine: Engine) -> dict[str, int]:
    assert engine.drain(LONG)
    workers = engine._crew.workers  # pyright: ignore[reportPrivateUsage] what is left is told nowhere
    if workers is None:
        return {}
    workers.close()  # which waits for a batch that still runs for who has cancelled
    return workers._scheduler.leftovers()  # pyright: ignore[reportPrivateUsage] likewise


def at_once(*works: Callable[[], object]) -> list[object]:
    """Run all of them, each in a thread of its own that waits for the others to be there."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> object:
        barrier.wait(LONG)
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [one.result(LONG) for one in [pool.submit(run, work) for work in works]]


def test_b23_who_cancels_at_the_moment_of_the_end_leaves_one_answer(
    engine: Engine, meeting: Meeting
) -> None:
    cancelled = 0
    for turn in range(200):
        meeting.expect(2)  # the stage, and who cancels
        future = engine.submit(asking("raced", turn))
        meeting.meet()
        cancelled += future.cancel()
        try:
            assert number(future.result(LONG)) == turn + 1
            assert not future.cancelled()
        except CancelledError:
            assert future.cancelled()
    assert left(engine) == {}
    counted = engine.metrics.pipeline("raced")
    assert counted.failures.get(Code.CANCELLED.value, 0) == cancelled
    assert counted.successes == 200 - cancelled


def test_b26_who_asks_while_the_engine_drains_is_answered_or_told(plan: Plan) -> None:
    for _ in range(20):
        engine = Engine(plan, EngineConfig(workers=2, intra_op_threads=1))
        asks = [partial(_ask_ten, engine)] * 3
        *counts, drained = at_once(*asks, partial(engine.drain, LONG))
        assert counts == [10, 10, 10]
        assert drained
        assert left(engine) == {}
        engine.close()


def _ask_ten(engine: Engine) -> int:
    """Return how many of ten requests are answered, or told that nothing is served any more."""
    told = 0
    for x in range(10):
        try:
            told += number(engine.submit(asking("short", x)).result(LONG)) == x + 1
        except Fault as fault:
            told += fault.code is Code.UNAVAILABLE
    return told


def test_b21_bounds_are_exact_whoever_asks_at_once(engine: Engine) -> None:
    counts = at_once(*[partial(_ask_hundred, engine)] * 6)
    assert counts == [100] * 6
    counted = engine.metrics.pipeline("short")
    assert counted.successes + sum(counted.failures.values()) == 600
    assert left(engine) == {}


def _ask_hundred(engine: Engine) -> int:
    """Return how many of a hundred requests are answered, or refused for want of room."""
    futures: list[Future[Response]] = []
    refused = 0
    for x in range(100):
        try:
            futures.append(engine.submit(asking("short", x)))
        except Fault as fault:
            refused += fault.code is Code.OVERLOADED
        # those for which one of the four workers is free do not count
        assert engine.metrics.pipeline("short").pending <= 8 + 4
    return refused + sum(bool(one.result(LONG)) for one in futures)


def test_b24_sequences_at_once_are_each_as_alone(engine: Engine) -> None:
    def ask(id: int) -> None:
        last = [
            engine.submit(asking("total", x, sequence=InSequence(id, x == 1, x == 30)))
            for x in range(1, 31)
        ]
        sums = [number(one.result(LONG)) for one in last]
        assert sums == [sum(range(x + 1)) + 1 for x in range(1, 31)]

    at_once(*[lambda id=id: ask(id) for id in range(8)])
    assert len(engine.sequences["total"]) == 0
    assert left(engine) == {}


def test_b23_a_stream_that_is_given_up_while_it_runs_ends(engine: Engine) -> None:
    for turn in range(20):
        come = threading.Semaphore(0)
        stream = engine.open_stream(
            engine.pipeline("sent"), {"x": np.float32(0)}, dict, come.release
        )
        for _ in range(turn):
            assert come.acquire(timeout=LONG)
            stream.take()
            if stream.over:
                break
        at_once(stream.cancel, stream.take)
        stream.take()  # what it has emitted, if it came to its end before
        assert stream.over
    assert left(engine) == {}
