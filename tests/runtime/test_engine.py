"""The engine with real threads: submit, cancel, drain, close; bounds and limits while busy."""

from concurrent.futures import CancelledError, ThreadPoolExecutor

import numpy as np
import pytest

from headrace.compiler.plan import Batching, EachStep, Queueing
from headrace.runtime.forecast import START
from headrace.runtime.request import (
    Code,
    Dropped,
    Fault,
    Request,
)
from tests.runtime.gates import GATED, Gate, asking, gated, number, opened
from tests.runtime.plans import block, call, fields, kind, place


def test_rows_of_different_requests_meet_and_everyone_gets_his_own() -> None:
    maker = gated()
    spread = maker.python(
        "spread", GATED.replace("import gate", ""), fields(n="i64"), fields(x="f32[N]")
    )
    each = EachStep(
        (1,), block([0], [call(1, [0], [1])], [1]), False, (2,), (kind("f32[N]"),), place(4)
    )
    maker.segments[0] = maker.segments[spread]
    maker.pipelines.clear()
    maker.pipeline(
        "fan", fields(n="i64"), fields(y="f32[N]"), block([0], [call(spread, [0], [1]), each], [2])
    )
    engine = opened(maker, workers=3)
    sizes = [int(size) for size in np.random.default_rng(0).integers(0, 20, 300)]

    def ask(size: int) -> None:
        response = engine.submit(Request("fan", {"n": size})).result(20)  # type: ignore[dict-item]
        expected = np.arange(size, dtype=np.float32) + 1
        np.testing.assert_array_equal(response.outputs["y"], expected)

    with ThreadPoolExecutor(16) as callers:
        list(callers.map(ask, sizes))
    stage = engine.metrics.stage("add")
    assert stage.rows == sum(sizes)
    assert max(stage.sizes) <= 8
    assert stage.mixed > 0
    assert engine.metrics.pipeline("fan").successes == 300
    engine.close()


def test_batches_of_one_request_run_on_all_free_workers(gate: Gate) -> None:
    maker = gated()
    stage = maker.python(
        "gated", GATED, fields(x="f32"), fields(y="f32"), batching=Batching(1, 0.0, ())
    )
    maker.pipeline(
        "rows", fields(x="f32"), fields(y="f32"), block([0], [call(stage, [0], [1])], [1]), batch=3
    )
    engine = opened(maker, workers=3)
    future = engine.submit(Request("rows", {"x": np.ones(3, np.float32)}))
    for _ in range(3):
        assert gate.entered.acquire(timeout=10)
    gate.opened.set()
    assert np.asarray(future.result(10).outputs["y"]).tolist() == [1, 1, 1]
    engine.close()


def test_b14_a_poisoned_request_fails_alone_with_real_threads(gate: Gate) -> None:
    maker = gated()
    gate.opened.set()
    fails = (
        "import numpy as np\n\ndef check(xs):\n    assert (xs != 3).all(), 'three'\n    return xs\n"
    )
    stage = maker.python(
        "check",
        fails,
        fields(x="f32"),
        fields(y="f32"),
        batched=True,
        batching=Batching(8, 5.0, ()),
    )
    maker.pipeline(
        "all", fields(x="f32"), fields(y="f32"), block([0], [call(stage, [0], [1])], [1])
    )
    engine = opened(maker, workers=2)
    futures = [engine.submit(Request("all", {"x": float(i)})) for i in range(8)]  # type: ignore[dict-item]
    errors = [future.exception(10) for future in futures]
    assert [error is None for error in errors] == [i != 3 for i in range(8)]
    assert "AssertionError: three" in str(errors[3])
    assert [number(futures[i].result()) for i in (0, 7)] == [0, 7]
    engine.close()


def test_b21_the_bound_is_exact_while_the_only_worker_is_busy(gate: Gate) -> None:
    engine = opened(gated(queueing=Queueing(4, None, "reject")))
    busy = engine.submit(asking(1.0))
    assert gate.entered.acquire(timeout=10)
    futures = []
    refused: list[Code] = []
    for _ in range(20):
        try:
            futures.append(engine.submit(asking(0.0)))
        except Fault as fault:
            refused.append(fault.code)
    assert len(futures) == 4
    assert refused == [Code.OVERLOADED] * 16
    assert engine.metrics.pipeline("p").pending == 4
    gate.opened.set()
    assert [number(future.result(10)) for future in (busy, *futures)] == [2, 1, 1, 1, 1]
    assert engine.metrics.pipeline("p").failures == {"overloaded": 16}
    engine.close()


def test_b20_a_time_out_is_told_while_the_worker_is_busy(gate: Gate) -> None:
    engine = opened(gated(queueing=Queueing(4, 0.02, "reject")))
    busy = engine.submit(asking(1.0))
    assert gate.entered.acquire(timeout=10)
    waiting = engine.submit(asking(1.0))
    error = waiting.exception(10)
    assert isinstance(error, Fault)
    assert error.code is Code.OVERLOADED
    assert not busy.done()
    gate.opened.set()
    assert number(busy.result(10)) == 2
    assert engine.metrics.stage("gated").executions == 1
    engine.close()


def test_a_deadline_is_told_while_its_own_stage_runs(gate: Gate) -> None:
    engine = opened(gated(deadline=0.02))
    running = engine.submit(asking(1.0))
    error = running.exception(10)
    assert isinstance(error, Fault)
    assert error.code is Code.DEADLINE
    gate.opened.set()
    assert engine.drain(10)
    assert engine.metrics.stage("add").executions == 0
    engine.close()


def test_a_cancelled_future_gives_its_place_back_and_does_not_run(gate: Gate) -> None:
    engine = opened(gated(queueing=Queueing(1, None, "reject")))
    busy = engine.submit(asking(1.0))
    assert gate.entered.acquire(timeout=10)
    waiting = engine.submit(asking(1.0))
    assert waiting.cancel()
    with pytest.raises(CancelledError):
        waiting.result(1)
    third = engine.submit(asking(0.0))
    gate.opened.set()
    assert [number(busy.result(10)), number(third.result(10))] == [2, 1]
    assert engine.metrics.stage("gated").executions == 2
    assert engine.metrics.pipeline("p").failures == {"cancelled": 1}
    engine.close()


def test_a_request_cancelled_while_it_runs_starts_nothing_more(gate: Gate) -> None:
    engine = opened(gated())
    running = engine.submit(asking(1.0))
    assert gate.entered.acquire(timeout=10)
    assert running.cancel()
    gate.opened.set()
    assert engine.drain(10)
    assert engine.metrics.stage("add").executions == 0
    engine.close()


def test_a_request_cancelled_while_it_runs_runs_no_other_stage(gate: Gate) -> None:
    maker = gated()
    after = maker.python("after", "def after(x):\n    return x\n", fields(x="f32"), fields(y="f32"))
    maker.pipeline(
        "two", fields(x="f32"), fields(y="f32"),
        block([0], [call(0, [0], [1]), call(after, [1], [2])], [2]),
    )  # fmt: skip
    engine = opened(maker)
    running = engine.submit(Request("two", {"x": 1.0}))  # type: ignore[dict-item]
    assert gate.entered.acquire(timeout=10)
    assert running.cancel()
    gate.opened.set()
    engine.close()
    assert engine.metrics.stage("gated").executions == 1
    assert engine.metrics.stage("after").executions == 0


def test_a_shorter_limit_that_comes_later_is_told_in_time(gate: Gate) -> None:
    engine = opened(gated())
    busy = engine.submit(asking(1.0, deadline=engine.config.clock() + 60))
    assert gate.entered.acquire(timeout=10)
    waiting = engine.submit(asking(1.0, deadline=engine.config.clock() + 0.02))
    error = waiting.exception(10)
    assert isinstance(error, Fault)
    assert error.code is Code.DEADLINE
    gate.opened.set()
    assert number(busy.result(10)) == 2
    engine.close()


def test_what_cannot_finish_is_dropped_and_counted(gate: Gate) -> None:
    gate.opened.set()
    engine = opened(gated())
    now = engine.config.clock
    assert number(engine.submit(asking(1.0, deadline=now() + 60)).result(10)) == 2
    forecast = engine._crew.started()._scheduler._foresight._forecasts[0]  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType] no clock to wait by
    assert forecast is not None
    for _ in range(64):
        forecast.answered({START: 0.0}, 30.0)
    for _ in range(64):
        forecast.answered({START: 0.0}, 30.0)
    with pytest.raises(Dropped, match="takes 30 s at the least"):
        engine.submit(asking(1.0, deadline=now() + 20))
    counts = engine.metrics.pipeline("p")
    assert (counts.dropped, counts.failures) == ({"": 1}, {"deadline": 1})
    engine.close()
