"""Engines that are drained and closed, what they keep, and pipelines that are cheap."""

import asyncio
import gc
import threading
import time
from concurrent.futures import wait

import pytest
from onnxruntime import InferenceSession

from headrace.compiler.plan import Batching
from headrace.runtime.engine import Engine
from headrace.runtime.request import (
    Code,
    EngineClosed,
    Fault,
    Request,
    RequestError,
)
from tests.runtime.gates import Gate, asking, gated, number, opened
from tests.runtime.plans import PlanMaker, add_model, block, call, fields


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


def test_a_function_runs_an_event_loop_wherever_it_is_called() -> None:
    maker = PlanMaker()
    more = (
        "import asyncio\n\nasync def more(x):\n    return x + 1\n\n"
        "def run(x):\n    return asyncio.run(more(x))\n"
    )
    stage = maker.python("run", more, fields(x="f32"), fields(y="f32"))
    maker.pipeline("p", fields(x="f32"), fields(y="f32"), block([0], [call(stage, [0], [1])], [1]))
    engine = opened(maker)

    async def ask() -> list[object]:
        here = asyncio.get_running_loop()
        lent = engine.submit(asking(1.0)).result(10).outputs["y"]
        called = engine.call(asking(1.0)).outputs["y"]
        assert asyncio.get_running_loop() is here
        return [lent, called]

    assert asyncio.run(ask()) == [2.0, 2.0]
    engine.close()


def test_who_does_nothing_else_until_the_answer_runs_the_request() -> None:
    maker = PlanMaker()
    who = "import threading\n\ndef who(x):\n    return threading.current_thread().name\n"
    stage = maker.python("who", who, fields(x="f32"), fields(y="string"))
    maker.pipeline(
        "p", fields(x="f32"), fields(y="string"), block([0], [call(stage, [0], [1])], [1])
    )
    engine, here = opened(maker), threading.current_thread().name
    due = time.monotonic() + 1000  # of which nobody could tell this thread
    late = engine.submit(asking(1.0, deadline=due), runs=True)
    assert str(late.result(10).outputs["y"]).startswith("headrace-")
    engine.pipeline("p").measured(1.0)  # else it would be cheap
    assert engine.submit(asking(1.0), runs=True).result(0).outputs["y"] == here
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
    return {id(one) for one in gc.get_objects() if type(one) is InferenceSession}


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
