"""B24, idle and broken clients: sequences that fall silent, never end, or end without a start."""

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Fault, InSequence, Request
from headrace.runtime.rows import Rows
from headrace.runtime.simulate import Outcome, Simulation

SOURCE = """
pipeline total(x: f32) -> (sum: f32) per sequence idle 30s {
    state sum: f32 = 0
    next sum = sum + x
    return sum = sum + x
}

schedule total {
    sequences { strategy = oldest, max = 2, backlog = 2 }
}
"""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return headrace.compile(SOURCE).plan


@pytest.fixture
def simulation(plan: Plan) -> Iterator[Simulation]:
    simulation = Simulation(plan)
    yield simulation
    simulation.close()


def asked(x: float, id: int | str, *, start: bool = False, end: bool = False) -> Request:
    return Request("total", {"x": np.float32(x)}, sequence=InSequence(id, start, end))


def total(outcome: Outcome) -> float:
    assert outcome.outputs is not None, outcome.fault
    return float(np.asarray(outcome.outputs["sum"]))


def answered(simulation: Simulation, request: Request) -> float:
    outcome = simulation.submit(request)
    simulation.run(until=simulation.now + 1)
    return total(outcome)


def test_b24_a_silent_sequence_is_dropped_once_and_its_place_begins_with_zeros(
    simulation: Simulation,
) -> None:
    assert answered(simulation, asked(5, "silent", start=True)) == 5
    assert answered(simulation, asked(5, "busy", start=True)) == 5
    for _ in range(4):
        simulation.run(until=simulation.now + 15)
        answered(simulation, asked(1, "busy"))
    with pytest.raises(Fault, match=r"nothing is kept of sequence 'silent': .* silent for 30 s"):
        simulation.submit(asked(1, "silent"))
    assert answered(simulation, asked(1, "new", start=True)) == 1
    assert answered(simulation, asked(1, "busy")) == 10


def test_b24_those_that_never_end_give_their_places_to_those_that_wait_in_order(
    simulation: Simulation,
) -> None:
    for id in range(2):
        simulation.submit(asked(9, id, start=True))
        simulation.run(until=simulation.now + 1)
    waiting = [simulation.submit(asked(id, id, start=True)) for id in (2, 3)]
    with pytest.raises(Fault, match="2 sequences are open already") as error:
        simulation.submit(asked(4, 4, start=True))
    assert error.value.code is Code.OVERLOADED
    simulation.run(until=20)
    assert not any(one.done for one in waiting)
    simulation.run(until=40)
    assert [total(one) for one in waiting] == [2, 3]
    first, second = (one.at for one in waiting)
    assert first is not None
    assert second is not None
    assert (30 <= first < 31, 31 <= second < 32) == (True, True)


def test_b24_who_waits_for_a_place_can_be_late_or_go_away(simulation: Simulation) -> None:
    for id in range(2):
        simulation.submit(asked(9, id, start=True))
    simulation.run(until=1)
    late = simulation.submit(asked(2, 2, start=True)._replace(deadline=5.0))
    gone = simulation.submit(asked(3, 3, start=True))
    simulation.run(until=4)
    simulation.cancel(gone)
    last = simulation.submit(asked(4, 4, start=True))
    simulation.run(until=10)
    assert late.fault is not None
    assert late.fault.code is Code.DEADLINE
    assert not last.done
    simulation.submit(asked(0, 0, end=True))
    simulation.run(until=11)
    assert total(last) == 4
    assert simulation.in_flight == 0


def test_b24_an_end_without_a_start_is_told_so_and_changes_nothing(simulation: Simulation) -> None:
    answered(simulation, asked(1, 1, start=True))
    with pytest.raises(Fault, match=r"nothing is kept of sequence '1'") as error:
        simulation.submit(asked(1, "1", end=True))
    assert error.value.code is Code.INVALID
    assert answered(simulation, asked(1, 1)) == 2
    assert answered(simulation, asked(7, "1", start=True, end=True)) == 7


def test_b24_a_start_in_the_middle_begins_anew_in_the_same_place(simulation: Simulation) -> None:
    for id in range(2):
        answered(simulation, asked(5, id, start=True))
    assert answered(simulation, asked(1, 0, start=True)) == 1
    assert [answered(simulation, asked(1, id)) for id in range(2)] == [2, 6]


def test_b24_nobody_looks_after_silent_sequences_before_their_time(plan: Plan) -> None:
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        return time.monotonic()

    engine = Engine(plan, EngineConfig(workers=2, intra_op_threads=1, clock=clock))
    for id in range(2):
        engine.submit(asked(1, id, start=True)).result()
    settled = threading.Event()
    settled.wait(0.05)
    before = looks
    settled.wait(0.2)
    assert looks == before
    engine.close()


def test_b24_closing_an_engine_answers_those_that_wait_for_a_place(plan: Plan) -> None:
    engine = Engine(plan, EngineConfig(workers=1, intra_op_threads=1))
    for id in range(2):
        engine.call(asked(1, id, start=True))
    parked = engine.submit(asked(1, 2, start=True))
    told: list[Fault] = []

    def call() -> None:
        try:
            engine.call(asked(1, 3, start=True))
        except Fault as fault:
            told.append(fault)

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    sequences = engine.sequences["total"]
    while sequences.waiting < 2:
        caller.join(0.001)
    engine.close()
    caller.join(5)
    assert [fault.code for fault in told] == [Code.UNAVAILABLE]
    with pytest.raises(Fault, match="closed"):
        parked.result()


def test_b24_a_call_in_its_own_thread_gets_its_place_without_any_worker() -> None:
    quick = headrace.compile(SOURCE.replace("idle 30s", "idle 20ms")).plan
    engine = Engine(quick, EngineConfig(workers=1, intra_op_threads=1))
    for id in range(5):
        assert float(np.asarray(engine.call(asked(id, id, start=True)).outputs["sum"])) == id
    engine.close()


def test_b24_what_waits_among_workers_gets_the_place_of_what_a_caller_left_silent() -> None:
    quick = headrace.compile(SOURCE.replace("idle 30s", "idle 50ms")).plan
    engine = Engine(quick, EngineConfig(workers=1, intra_op_threads=1))
    sequences = engine.sequences["total"]
    first = sequences.ask(InSequence(0, start=True))
    engine.call(asked(1, 1, start=True))
    waiting = [engine.submit(asked(id, id, start=True)) for id in (2, 3)]
    sequences.finish(first, [Rows.one(np.float32(0))])
    assert [float(np.asarray(one.result(10).outputs["sum"])) for one in waiting] == [2, 3]
    engine.close()
