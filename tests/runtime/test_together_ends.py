"""Blocks that run at once and do not end well: they end together and leave nothing behind."""

import threading
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from headrace.compiler.plan import (
    Batching,
    Queueing,
    TryStep,
)
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.flow import Fork, Work
from headrace.runtime.request import Code, Fault, Request
from headrace.runtime.rows import Rows
from tests.runtime.forks import F32, TOYS, Y32, Simulated, Toys, arm, number, together
from tests.runtime.plans import block, call, place

LATCH = """
import meeting

def left(x):
    meeting.barrier.wait(20)
    assert meeting.opened.wait(20)
    meeting.left.set()
    return x

def right(x):
    meeting.barrier.wait(20)
    raise ValueError("right")

def held(x):
    meeting.entered.set()
    assert meeting.left.wait(20)
    return x
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_a_fault_in_one_branch_ends_the_request_and_takes_the_other_out_of_its_queue(
    workers: int, simulate: type[Simulated]
) -> None:
    maker = Toys()
    maker.python(
        "slow", TOYS.replace("def last", "def slow"), F32, Y32, batching=Batching(8, 9, ())
    )
    fork = together(
        arm(call(1, [0], [1], 5), result=1), arm(call(4, [0], [1], 6), result=1), outputs=(1, 2)
    )
    maker.pipeline("p", F32, Y32, block([0], [fork, call(2, [1, 2], [3])], [3]))
    simulation = simulate(maker, workers=workers)
    outcome = simulation.ask(14.0)
    simulation.run(until=1.0)
    assert outcome.fault is not None
    assert (outcome.fault.code, outcome.fault.stage) == (Code.FAILED, "right")
    assert simulation.in_flight == 0
    simulation.run()
    assert simulation.now < 9
    assert "slow" not in [name for _, name, _ in simulation.runs]


@pytest.mark.parametrize("seed", range(10))
def test_when_both_branches_fail_there_is_one_answer(seed: int, simulate: type[Simulated]) -> None:
    simulation = simulate(Toys().joined(), workers=2, seed=seed)
    outcome = simulation.ask(13.0)
    simulation.run()
    assert outcome.answers == 1
    assert outcome.fault is not None
    assert outcome.fault.stage in ("left", "right")
    assert simulation.in_flight == 0


@pytest.mark.parametrize("x", [13.0, 14.0])
def test_a_try_around_catches_the_fault_of_a_branch_once(
    x: float, simulate: type[Simulated]
) -> None:
    for seed in range(10):
        simulation = simulate(Toys().tried(None), workers=2, seed=seed)
        outcome = simulation.ask(x)
        simulation.run()
        assert number(outcome) == x - 1
        assert simulation.ran()["last"] == 1
        assert sum(simulation.metrics.pipeline("p").fallbacks.values()) == 1


def test_the_limit_of_a_try_takes_all_branches_out_of_their_queues(
    simulate: type[Simulated],
) -> None:
    maker = Toys(batching=Batching(8, 9.0, ()))
    simulation = simulate(maker.tried(0.25), workers=2, cost=lambda _name, _rows: 0.0)
    outcome = simulation.ask(3.0)
    simulation.run()
    assert number(outcome) == 2
    assert outcome.at == 0.25
    assert simulation.ran() == {"last": 1}


def test_what_a_try_gives_up_leaves_its_place_in_the_queues_to_others(
    simulate: type[Simulated],
) -> None:
    maker = Toys(batching=Batching(8, 9.0, ()), queueing=Queueing(1, None, "reject")).tried(0.25)
    held = maker.python("held", TOYS.replace("def last", "def held"), F32, Y32)
    steps = [call(held, [0], [1]), maker.fork(2, 3), call(2, [2, 3], [4])]
    maker.pipeline("slow", F32, Y32, block([0], steps, [4]))
    simulation = simulate(maker, workers=3, cost=lambda name, _rows: 5.0 * (name == "held"))
    simulation.submit(Request("slow", {"x": 1.0}))  # type: ignore[dict-item] all wait for this one
    first = [simulation.ask(float(x)) for x in range(6)]
    simulation.run(until=0.5)
    second = [simulation.ask(float(x)) for x in range(6)]
    simulation.run(until=1.0)
    for begun, outcomes in ((0.0, first), (0.5, second)):
        assert [number(one) for one in outcomes] == [x - 1 for x in range(6)]
        at_once = [one for one in outcomes if one.at == begun]
        given_up = [one for one in outcomes if one.at == begun + 0.25]
        assert len(at_once) + len(given_up) == 6
        assert len(given_up) >= 1  # these had a place in both queues
    assert simulation.ran() == {"last": 12}


def test_the_limit_of_a_try_drops_what_branches_run(simulate: type[Simulated]) -> None:
    simulation = simulate(
        Toys().tried(0.25), workers=3, cost=lambda name, _rows: 5.0 * (name == "left")
    )
    outcome = simulation.ask(3.0)
    simulation.run()
    assert number(outcome) == 2
    assert outcome.at == 0.25
    assert simulation.ran() == {"left": 1, "right": 1, "last": 1}


def test_a_deadline_is_told_on_time_whatever_the_branches_do(simulate: type[Simulated]) -> None:
    maker = Toys(batching=Batching(8, 9.0, ())).tried(None)
    simulation = simulate(maker, workers=2, cost=lambda _name, _rows: 0.0)
    outcome = simulation.ask(3.0, deadline=0.5)
    simulation.run()
    assert outcome.fault is not None
    assert (outcome.fault.code, outcome.fault.stage) == (Code.DEADLINE, "left")
    assert outcome.at == 0.5
    assert simulation.ran() == {}


SLOW_LEFT = TOYS.replace("def left(x):", "import meeting\n\ndef left(x):\n    meeting.now += 1.0")


def test_a_deadline_that_a_branch_finds_over_is_not_for_a_try(
    simulate: type[Simulated], meeting: ModuleType
) -> None:
    maker = Toys(SLOW_LEFT)
    two = arm(call(0, [0], [1], 5), call(3, [1], [2], 6), result=2)
    fork = together(two, two, outputs=(1, 2))
    body = block([], [fork], [1], captures=[(0, 0)])
    orelse = block([], [], [0], captures=[(0, 0)])
    maker.pipeline(
        "p", F32, Y32, block([0], [TryStep(body, orelse, None, (1,), place(7))], [1]), deadline=0.5
    )
    simulation = simulate(maker, workers=2, cost=lambda _name, _rows: 1.0)
    outcome = simulation.ask(1.0)
    simulation.run()
    assert outcome.fault is not None
    assert outcome.fault.code is Code.DEADLINE

    meeting.now = 0.0  # type: ignore[attr-defined]
    engine = Engine(maker.plan(), EngineConfig(workers=1, clock=lambda: meeting.now))
    with pytest.raises(Fault) as caught:
        engine.call(Request("p", {"x": 1.0}))  # type: ignore[dict-item]
    assert caught.value.code is Code.DEADLINE
    assert meeting.now == 1.0  # one branch has begun, and nothing ran behind its first stage
    engine.close()


def test_cancelled_while_both_branches_are_queued_it_leaves_both_queues(
    simulate: type[Simulated],
) -> None:
    maker = Toys(batching=Batching(8, 9.0, ()), queueing=Queueing(1, None, "reject")).joined()
    steps = [call(3, [0], [1]), maker.fork(2, 3), call(2, [2, 3], [4])]
    maker.pipeline("slow", F32, Y32, block([0], steps, [4]))
    simulation = simulate(maker, workers=2, cost=lambda name, _rows: 5.0 * (name == "last"))
    other = simulation.submit(Request("slow", {"x": 1.0}))  # type: ignore[dict-item] for which the first one waits
    first = simulation.ask(1.0)
    simulation.run(until=1.0)
    assert simulation.ran() == {"last": 1}
    simulation.cancel(other)
    simulation.cancel(first)
    assert first.fault is not None
    assert first.fault.code is Code.CANCELLED
    assert simulation.in_flight == 0
    second = simulation.ask(2.0)  # there is room for one
    simulation.run()
    assert number(second) == 304
    assert simulation.ran() == {"last": 1, "left": 1, "right": 1, "both": 1}


def test_a_queue_that_is_full_for_one_branch_ends_the_request(simulate: type[Simulated]) -> None:
    maker = Toys(batching=Batching(8, 9.0, ()), queueing=Queueing(1, None, "reject")).joined()
    simulation = simulate(maker, workers=1, cost=lambda _name, _rows: 0.0)
    outcomes = [simulation.ask(float(x)) for x in range(4)]
    simulation.run()
    refused = [one for one in outcomes if one.fault is not None]
    assert refused
    assert all(one.fault and one.fault.code is Code.OVERLOADED for one in refused)
    answered = [one for one in outcomes if one.outputs is not None]
    assert simulation.ran() == dict.fromkeys(("left", "right", "both"), len(answered))


def test_a_request_that_is_cancelled_just_before_it_forks_runs_no_branch(
    simulate: type[Simulated],
) -> None:
    maker = Toys()
    steps = [call(3, [0], [1]), maker.fork(2, 3), call(2, [2, 3], [4])]
    maker.pipeline("p", F32, Y32, block([0], steps, [4]))
    # the first stage of a branch has run when the other begins; this one is seen before both
    simulation = simulate(maker, workers=2, cost=lambda name, _rows: float(name == "last"))
    outcome = simulation.ask(3.0)
    simulation.run(until=0.5)
    simulation.cancel(outcome)
    simulation.run()
    assert simulation.ran() == {"last": 1}
    assert simulation.in_flight == 0


def test_a_branch_that_is_not_needed_any_more_ends_after_the_stage_that_it_is_at(
    meeting: ModuleType,
) -> None:
    """`right` fails while `left` runs, and the request goes on with an `else` that is held until
    `left` has returned: what would follow that in its arm must not run."""
    for name in ("entered", "opened", "left"):
        setattr(meeting, name, threading.Event())
    maker = Toys(LATCH)
    held = maker.python("held", LATCH, F32, Y32)
    left = arm(call(0, [0], [1]), call(3, [1], [2]), result=2)
    right = arm(call(1, [0], [1]), result=1)
    fork = together(left, right, outputs=(1, 2))
    body = block([], [fork, call(2, [1, 2], [3])], [3], captures=[(0, 0)])
    orelse = block([], [call(held, [0], [1])], [1], captures=[(0, 0)])
    step = TryStep(body, orelse, None, (1,), place(7))
    maker.pipeline("p", F32, Y32, block([0], [step], [1]))
    engine = Engine(maker.plan(), EngineConfig(workers=2, intra_op_threads=1))
    future = engine.submit(Request("p", {"x": 3.0}))  # type: ignore[dict-item]
    assert meeting.entered.wait(20)
    meeting.opened.set()  # type: ignore[attr-defined]
    assert float(np.asarray(future.result(20).outputs["y"])) == 3
    engine.close()
    ran = {name: engine.metrics.stage(name).executions for name in ("left", "last")}
    assert ran == {"left": 1, "last": 0}


def test_a_branch_that_begins_too_late_still_sees_what_it_was_given() -> None:
    maker = Toys().tried(None)
    maker.pipelines[0] = replace(
        maker.pipelines[0], body=replace(maker.pipelines[0].body, last_uses=((0,),))
    )
    engine = Engine(maker.plan(), EngineConfig(workers=1))
    flow = engine.pipeline("p").start([Rows.one(np.float32(3.0))], engine.pipeline("p").whole[0])
    fork = next(flow)
    assert isinstance(fork, Fork)
    work = flow.throw(Fault(Code.FAILED, "another branch has failed"))
    while not isinstance(work, Work):
        work = next(flow)
    with pytest.raises(StopIteration):
        flow.send([Rows.one(np.float32(2.0))])
    late = next(fork.flows[1])
    assert isinstance(late, Work)
    assert late.columns[0].item(0) == 3.0
    engine.close()
