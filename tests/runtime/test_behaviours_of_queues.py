"""Behaviours of batches, queues and time that other servers are known to get wrong, by name.

Each is shown for whole requests; `test_batcher.py` has the decisions alone, `wire/` the front ends.
"""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from headrace.compiler.plan import Batching, PythonSegment, Queueing, Service
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Fault, Request, Response
from headrace.runtime.simulate import Outcome, Simulation
from tests.runtime.plans import PlanMaker, block, call, fields
from tests.runtime.wire.conftest import eventually

STAGE = "def {name}(x):\n    return x\n"
GATED = """
import gate_of_queues as gate

def {name}(x):
    gate.entered.release()
    assert gate.opened.wait(20)
    return x
"""
F32, Y32 = fields(x="f32"), fields(y="f32")


class Gate(ModuleType):
    """Holds a stage until the test opens it; `entered` counts who has come."""

    def __init__(self) -> None:
        super().__init__("gate_of_queues")
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = sys.modules["gate_of_queues"] = Gate()
    yield made
    made.opened.set()
    del sys.modules["gate_of_queues"]


def two(
    first: str = STAGE,
    *,
    batching: Batching | None = None,
    queueing: Queueing | None = None,
    at_stage: Queueing | None = None,
    rows: int | None = None,
    single: bool = False,
) -> PlanMaker:
    """Stages `one` and `two`, one after the other; `single` lets one batch of `two` run."""
    maker = PlanMaker()
    maker.python("one", first.format(name="one"), F32, Y32)
    maker.python("two", STAGE.format(name="two"), F32, Y32, batching=batching, queueing=at_stage)
    if single:
        segment = maker.segments[1]
        assert isinstance(segment, PythonSegment)
        maker.segments[1] = replace(segment, service=Service(resources=(("place", 1),)))
    body = block([0], [call(0, [0], [1]), call(1, [1], [2])], [2])
    maker.pipeline("p", F32, Y32, body, batch=rows, queueing=queueing)
    return maker


@pytest.fixture
def simulations() -> Iterator[list[Simulation]]:
    opened: list[Simulation] = []
    yield opened
    for one in opened:
        one.close()


def ask(simulation: Simulation, rows: int | None = None, **more: object) -> Outcome:
    x = np.float32(1) if rows is None else np.ones(rows, np.float32)
    return simulation.submit(Request("p", {"x": x}, **more))  # type: ignore[arg-type]


def runs(simulation: Simulation, stage: str) -> list[int]:
    return [rows for _, name, rows in simulation.runs if name == stage]


def test_b18_rows_not_requests(simulations: list[Simulation]) -> None:
    simulation = Simulation(two(batching=Batching(8, 1.0), rows=8).plan(), workers=2)
    simulations.append(simulation)
    outcomes = [ask(simulation, 5), ask(simulation, 5)]
    simulation.run()
    assert runs(simulation, "two") == [5, 5]
    assert [one.fault for one in outcomes] == [None, None]


def test_b19_preferred_sizes(simulations: list[Simulation]) -> None:
    simulation = Simulation(
        two(batching=Batching(8, 1.0, (4, 8)), single=True).plan(),
        workers=12,
        cost=lambda name, _rows: 1.0 if name == "two" else 0.0,
    )
    simulations.append(simulation)
    busy = [ask(simulation) for _ in range(4)]
    simulation.run(until=0.5)
    waiting = [ask(simulation) for _ in range(9)]
    simulation.run()
    assert runs(simulation, "two") == [4, 8, 1]
    assert all(one.fault is None for one in (*busy, *waiting))


@pytest.mark.parametrize(
    ("batching", "rows", "asked", "sizes"),
    [
        (Batching(8, 1.0), 8, [5, 5], {1: 1, 5: 2}),
        (Batching(8, 1.0, (4, 8)), None, [None] * 9, {1: 2, 8: 1}),
    ],
    ids=["b18 rows not requests", "b19 preferred sizes"],
)
def test_what_waits_for_a_busy_stage_meets_on_threads_too(
    gate: Gate,
    batching: Batching,
    rows: int | None,
    asked: list[int | None],
    sizes: dict[int, int],
) -> None:
    maker = two(batching=batching, rows=rows, single=True)
    segment = maker.segments[1]
    assert isinstance(segment, PythonSegment)
    gated = maker.blob(GATED.format(name="two").encode())
    maker.segments[1] = replace(segment, source=gated, batched=True)
    engine = Engine(maker.plan(), EngineConfig(workers=4))

    def submit(count: int | None) -> "Future[Response]":
        x = np.float32(1) if count is None else np.ones(count, np.float32)
        return engine.submit(Request("p", {"x": x}))

    busy = submit(1 if rows else None)
    assert gate.entered.acquire(timeout=10)
    futures = [submit(count) for count in asked]
    workers = engine._crew.workers  # pyright: ignore[reportPrivateUsage] what waits at a stage is told
    assert workers is not None
    scheduler = workers._scheduler  # pyright: ignore[reportPrivateUsage] nowhere else
    eventually(lambda: scheduler.leftovers().get("works in queues") == len(asked))
    gate.opened.set()
    for future in (busy, *futures):
        assert future.result(10)
    assert engine.metrics.stage("two").sizes == sizes
    engine.close()


def test_b20_time_out_on_time(simulations: list[Simulation]) -> None:
    maker = two(queueing=Queueing(8, 0.2))
    simulation = Simulation(maker.plan(), cost=lambda name, _rows: 5.0 * (name == "one"))
    simulations.append(simulation)
    busy, waiting = ask(simulation), ask(simulation)
    simulation.run()
    assert busy.at == 5.0
    assert waiting.fault is not None
    assert waiting.fault.code is Code.OVERLOADED
    assert waiting.at == pytest.approx(0.2)
    assert runs(simulation, "one") == [1]


def test_b21_exact_queue_bound(simulations: list[Simulation]) -> None:
    maker = two(queueing=Queueing(4))
    simulation = Simulation(maker.plan(), cost=lambda _name, _rows: 1.0)
    simulations.append(simulation)
    busy = ask(simulation)
    simulation.run(until=0.5)
    outcomes = [ask(simulation) for _ in range(20)]
    refused = [one for one in outcomes if one.done]
    assert len(refused) == 16
    assert {one.fault.code for one in refused if one.fault} == {Code.OVERLOADED}
    simulation.run()
    assert sum(one.fault is None for one in (busy, *outcomes)) == 5


def test_b21_a_refusal_inside_ends_the_whole_request(simulations: list[Simulation]) -> None:
    maker = two(at_stage=Queueing(2), single=True)
    simulation = Simulation(
        maker.plan(), workers=6, cost=lambda name, _rows: 1.0 if name == "two" else 0.0
    )
    simulations.append(simulation)
    ask(simulation)
    simulation.run(until=0.5)
    outcomes = [ask(simulation) for _ in range(5)]
    simulation.run(until=0.6)
    refused = [one.fault for one in outcomes if one.fault is not None]
    assert [(fault.code, fault.stage) for fault in refused] == [(Code.OVERLOADED, "two")] * 3
    simulation.run()
    assert simulation.leftovers == {}


def test_b22_inheritance_of_priority(simulations: list[Simulation]) -> None:
    """The second stage serves by the priority that the request came with."""
    simulation = Simulation(
        two(single=True).plan(), workers=8, cost=lambda name, _rows: 1.0 if name == "two" else 0.0
    )
    simulations.append(simulation)
    ask(simulation)
    simulation.run(until=0.5)
    low, high = ask(simulation, priority=3), ask(simulation, priority=1)
    simulation.run()
    assert low.at is not None
    assert high.at is not None
    assert high.at < low.at


def test_b22_inheritance_of_the_time_that_is_left(simulations: list[Simulation]) -> None:
    """The second stage has what the first has left of the limit, not all of it again."""
    simulation = Simulation(
        two(single=True).plan(), workers=8, cost=lambda name, _rows: 1.0 if name == "two" else 0.6
    )
    simulations.append(simulation)
    first = ask(simulation)
    simulation.run(until=0.1)
    second = ask(simulation, deadline=1.5)
    simulation.run()
    assert first.at == pytest.approx(1.6)
    assert second.fault is not None
    assert (second.fault.code, second.fault.stage) == (Code.DEADLINE, "two")
    assert second.at == 1.5
    assert runs(simulation, "two") == [1]


TOLD = """
def {name}(x, context):
    return x, context.parameters["tenant"], context.priority, context.remaining()
"""


def test_b22_inheritance_of_what_the_request_says(simulations: list[Simulation]) -> None:
    """Each stage sees its parameters and priority, and what is left of its time by then."""
    maker = PlanMaker()
    for name in ("one", "two"):
        told = fields(y="f32", tenant="string", priority="i64", left="f64")
        maker.python(name, TOLD.format(name=name), F32, told)
        segment = maker.segments[-1]
        assert isinstance(segment, PythonSegment)
        queued = Service(resources=(("place", 1),)) if name == "two" else segment.service
        maker.segments[-1] = replace(segment, told=True, service=queued)
    steps = [call(0, [0], [1, 2, 3, 4]), call(1, [1], [5, 6, 7, 8])]
    given = fields(tenant="string", priority="i64", first="f64", second="f64")
    maker.pipeline("p", F32, given, block([0], steps, [6, 7, 4, 8]))
    simulation = Simulation(maker.plan(), cost=lambda _name, _rows: 0.5)
    simulations.append(simulation)
    outcome = ask(simulation, parameters={"tenant": "blue"}, priority=3, deadline=4.0)
    simulation.run()
    assert outcome.outputs is not None
    assert [*outcome.outputs.values()] == ["blue", 3, 4.0, 3.5]


def test_b23_cancelled_while_queued_for_the_first_stage(gate: Gate) -> None:
    engine = Engine(two(GATED).plan(), EngineConfig(workers=1))
    request = Request("p", {"x": np.float32(1)})
    running, queued = engine.submit(request), None
    assert gate.entered.acquire(timeout=10)
    queued = engine.submit(request)
    assert queued.cancel()
    assert engine.metrics.pipeline("p").pending == 0
    gate.opened.set()
    assert running.result(10)
    assert engine.metrics.stage("one").executions == 1
    engine.close()


def test_b23_cancelled_while_the_first_stage_runs(gate: Gate) -> None:
    engine = Engine(two(GATED).plan(), EngineConfig(workers=1))
    running = engine.submit(Request("p", {"x": np.float32(1)}))
    assert gate.entered.acquire(timeout=10)
    assert running.cancel()
    with pytest.raises(CancelledError):
        running.result(1)
    gate.opened.set()
    assert engine.drain(10)
    assert engine.metrics.stage("two").executions == 0
    engine.close()


def test_b23_cancelled_while_queued_for_the_second_stage(simulations: list[Simulation]) -> None:
    simulation = Simulation(
        two(at_stage=Queueing(1), single=True).plan(),
        workers=4,
        cost=lambda name, _rows: 1.0 if name == "two" else 0.0,
    )
    simulations.append(simulation)
    running = ask(simulation)
    simulation.run(until=0.1)
    queued = ask(simulation)
    simulation.run(until=0.5)
    simulation.cancel(queued)
    third = ask(simulation)  # whose place the cancelled one has given back
    simulation.run()
    assert (running.fault, third.fault) == (None, None)
    assert runs(simulation, "two") == [1, 1]
    assert simulation.leftovers == {}


def test_b23_a_deadline_that_passes_while_a_stage_runs_is_told_at_once(gate: Gate) -> None:
    engine = Engine(two(GATED).plan(), EngineConfig(workers=1))
    now = engine.config.clock
    running = engine.submit(Request("p", {"x": np.float32(1)}, deadline=now() + 0.02))
    error = running.exception(10)
    assert isinstance(error, Fault)
    assert error.code is Code.DEADLINE
    gate.opened.set()
    assert engine.drain(10)
    assert engine.metrics.stage("two").executions == 0
    engine.close()
