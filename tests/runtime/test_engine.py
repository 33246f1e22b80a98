"""The engine with real threads: submit, cancel, drain, close; bounds and limits while busy."""

import gc
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from types import ModuleType

import numpy as np
import pytest
from onnxruntime import InferenceSession

from headrace.compiler.plan import Batching, EachStep, Queueing
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.forecast import START
from headrace.runtime.request import (
    Code,
    Dropped,
    EngineClosed,
    Fault,
    Request,
    RequestError,
    Response,
)
from tests.runtime.plans import PlanMaker, add_model, block, call, fields, kind, place

GATED = """
import gate

def gated(x):
    if x > 0:
        gate.entered.release()
        assert gate.opened.wait(20)
    return x

def spread(n):
    import numpy as np
    return np.arange(int(n), dtype=np.float32)
"""


class Gate(ModuleType):
    """Holds a stage until the test opens it; `entered` counts who has come."""

    def __init__(self) -> None:
        super().__init__("gate")
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = sys.modules["gate"] = Gate()
    yield made
    made.opened.set()
    del sys.modules["gate"]


def gated(*, queueing: Queueing | None = None, deadline: float | None = None) -> PlanMaker:
    """Waits at the gate when x > 0; then x + 1, where rows of requests meet."""
    maker = PlanMaker()
    first = maker.python("gated", GATED, fields(x="f32"), fields(y="f32"))
    second = maker.onnx(
        "add",
        add_model(1.0),
        fields(x="f32"),
        fields(y="f32"),
        batching=Batching(8, 0.002, ()),
    )
    body = block([0], [call(first, [0], [1]), call(second, [1], [2])], [2])
    maker.pipeline(
        "p", fields(x="f32"), fields(y="f32"), body, queueing=queueing, deadline=deadline
    )
    return maker


def opened(maker: PlanMaker, workers: int = 1) -> Engine:
    return Engine(maker.plan(), EngineConfig(workers=workers, intra_op_threads=1))


def asking(x: float, **more: object) -> Request:
    return Request("p", {"x": x}, **more)  # type: ignore[arg-type, dict-item]


def number(response: Response) -> float:
    return float(np.asarray(response.outputs["y"]))


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


def test_draining_refuses_new_requests_and_finishes_the_old(gate: Gate) -> None:
    engine = opened(gated())
    running = engine.submit(asking(1.0))
    assert gate.entered.acquire(timeout=10)
    assert not engine.drain(0.01)
    for start in (engine.submit, engine.call):
        with pytest.raises(Fault) as caught:
            start(asking(0.0))
        assert caught.value.code is Code.UNAVAILABLE
    gate.opened.set()
    assert engine.drain(10)
    assert number(running.result(0)) == 2
    engine.close()


def test_closing_fails_what_waits(gate: Gate) -> None:
    engine = opened(gated())
    running = engine.submit(asking(1.0))
    assert gate.entered.acquire(timeout=10)
    waiting = [engine.submit(asking(1.0)) for _ in range(3)]
    closing = threading.Thread(target=engine.close)
    closing.start()
    wait(waiting, 10)
    gate.opened.set()
    closing.join(10)
    for future in waiting:
        error = future.exception(0)
        assert isinstance(error, Fault)
        assert error.code is Code.UNAVAILABLE
    assert number(running.result(0)) == 2  # nobody was left for it to wait for


def test_a_request_that_does_not_fit_is_refused_at_once(gate: Gate) -> None:
    engine = opened(gated())
    with pytest.raises(RequestError, match="the input `x` is missing"):
        engine.submit(Request("p", {}))
    with pytest.raises(Fault, match="no pipeline `q`"):
        engine.submit(Request("q", {}))
    assert engine.metrics.pipeline("p").failures == {"invalid": 1}
    del gate
    engine.close()


def test_a_cheap_pipeline_runs_in_the_thread_that_submits_it() -> None:
    maker = PlanMaker()
    who = "import threading\n\ndef who(x):\n    return threading.current_thread().name\n"
    stage = maker.python("who", who, fields(x="f32"), fields(y="string"))
    maker.pipeline(
        "p", fields(x="f32"), fields(y="string"), block([0], [call(stage, [0], [1])], [1])
    )
    engine = opened(maker)
    assert not engine.cheap("p")
    assert str(engine.submit(asking(1.0)).result(10).outputs["y"]).startswith("headrace-")
    for _ in range(50):
        engine.call(asking(1.0))
    assert engine.cheap("p")
    assert engine.submit(asking(1.0)).result(0).outputs["y"] == threading.current_thread().name
    engine.close()


def test_a_cheap_pipeline_stays_so_where_its_requests_take_somewhat_longer() -> None:
    maker = PlanMaker()
    stage = maker.python("same", "def same(x):\n    return x\n", fields(x="f32"), fields(y="f32"))
    maker.pipeline("p", fields(x="f32"), fields(y="f32"), block([0], [call(stage, [0], [1])], [1]))
    engine = opened(maker)

    def cheap_at(micros: float) -> bool:
        for _ in range(50):
            engine.pipeline("p").measured(micros * 1e-6)
        return engine.cheap("p")

    found = [cheap_at(micros) for micros in (300, 100, 300, 500, 300, 100)]
    assert found == [False, True, True, False, False, True]
    engine.close()


def test_a_pipeline_with_a_queue_is_never_cheap(gate: Gate) -> None:
    gate.opened.set()
    engine = opened(gated())
    for _ in range(50):
        engine.call(asking(0.0))
    assert not engine.cheap("p")
    engine.close()


def test_results_that_are_not_wanted_are_not_made_when_submitted() -> None:
    maker = PlanMaker()
    left = maker.onnx("left", add_model(1.0), fields(x="f32"), fields(y="f32"))
    right = maker.onnx("right", add_model(2.0), fields(x="f32"), fields(y="f32"))
    maker.pipeline(
        "p",
        fields(x="f32"),
        fields(a="f32", b="f32"),
        block([0], [call(left, [0], [1]), call(right, [0], [2])], [1, 2]),
    )
    engine = opened(maker)
    response = engine.submit(asking(1.0, outputs=("b",), id="seven")).result(10)
    assert response.id == "seven"
    assert list(response.outputs) == ["b"]
    assert engine.metrics.stage("left").executions == 0
    engine.close()


def test_an_engine_settles_when_no_worker_holds_anything_even_of_who_has_gone(gate: Gate) -> None:
    engine = opened(gated())
    assert engine.settle(0)
    running = engine.submit(asking(1.0))
    assert gate.entered.acquire(timeout=10)
    assert running.cancel()  # it has its answer, and its stage runs on
    assert not engine.settle(0)
    gate.opened.set()
    assert engine.settle(10)
    assert number(engine.submit(asking(0.0)).result(10)) == 1
    engine.close()


def test_threads_end_with_the_engine(gate: Gate) -> None:
    gate.opened.set()
    before = set(threading.enumerate())
    engine = opened(gated(deadline=9.0), workers=3)
    assert not set(threading.enumerate()) - before
    engine.submit(asking(0.0)).result(10)
    assert set(threading.enumerate()) - before
    engine.close()
    assert not set(threading.enumerate()) - before


def test_a_closed_engine_that_is_still_held_lets_go_of_its_models(gate: Gate) -> None:
    gate.opened.set()
    before = models_in_memory()
    engine = opened(gated())
    pipeline = engine.pipeline("p")
    assert len(models_in_memory() - before) == 1
    engine.close()
    assert models_in_memory() <= before
    with pytest.raises(EngineClosed):
        engine.run(pipeline, {"x": 1.0})


def models_in_memory() -> set[int]:
    gc.collect()
    return {id(one) for one in gc.get_objects() if isinstance(one, InferenceSession)}


def test_loading_tells_its_progress() -> None:
    told: list[tuple[int, int, str]] = []
    maker = PlanMaker()
    maker.onnx("one", add_model(1.0), fields(x="f32"), fields(y="f32"))
    maker.onnx("two", add_model(2.0), fields(x="f32"), fields(y="f32"))

    def tell(done: int, of: int, stage: str) -> None:
        told.append((done, of, stage))

    Engine(maker.plan(), progress=tell).close()
    assert told == [(0, 2, "one"), (1, 2, "two"), (2, 2, "")]


def test_a_lone_request_runs_at_once_where_no_one_waits_for_company(gate: Gate) -> None:
    maker = gated()
    one = maker.onnx(
        "one",
        add_model(1.0),
        fields(x="f32"),
        fields(y="f32"),
        batching=Batching(2, 0.0, ()),
        instances=1,
    )
    maker.pipeline(
        "late", fields(x="f32"), fields(y="f32"),
        block([0], [call(one, [0], [1]), call(0, [1], [2])], [2]),
    )  # fmt: skip
    engine = opened(maker, workers=2)
    slow = [engine.submit(Request("late", {"x": 0.0})) for _ in range(2)]  # type: ignore[dict-item]
    for _ in slow:  # its instance is free again while what comes after it still runs
        assert gate.entered.acquire(timeout=10)
    gate.opened.set()
    assert [number(future.result(10)) for future in slow] == [1, 1]
    assert engine.metrics.stage("one").rows == 2
    engine.close()
