"""Blocks that run at once: they overlap, end together, and leave nothing behind when one fails."""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from headrace.compiler.literal_codec import Malformed
from headrace.compiler.plan import (
    Batching,
    Block,
    BranchStep,
    EachStep,
    EmitStep,
    LoopStep,
    Queueing,
    Step,
    TogetherStep,
    TryStep,
)
from headrace.compiler.verify_plan import verify_plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.flow import Fork, Work
from headrace.runtime.prune import prune
from headrace.runtime.request import Code, Fault, Request
from headrace.runtime.rows import Rows
from headrace.runtime.simulate import Outcome, Simulation
from tests.runtime.plans import PlanMaker, block, call, fields, kind, place

TOYS = """
def left(x):
    if x == 13:
        raise ValueError("left")
    return x + 1

def right(x):
    if x == 13 or x == 14:
        raise ValueError("right")
    return x * 2

def both(x, y):
    return x * 100 + y

def last(x):
    return x - 1
"""
MEETING = """
import meeting

def left(x):
    meeting.barrier.wait(20)
    return x + 1

def right(x):
    meeting.barrier.wait(20)
    return x * 2
"""
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
CLOCK = """
import meeting

def left(x):
    meeting.now += 1.0
    return x

right = left
"""
F32 = fields(x="f32")
PAIR = fields(x="f32", y="f32")
Y32 = fields(y="f32")


def arm(*steps: Step, result: int, captured: Sequence[int] = (0,)) -> Block:
    """A block that sees the slots `captured` of the block around it as 0, 1, ..."""
    return block([], steps, [result], captures=[(one, i) for i, one in enumerate(captured)])


def together(*blocks: Block, outputs: Sequence[int], line: int = 4) -> TogetherStep:
    return TogetherStep(blocks, tuple(outputs), place(line))


class Toys(PlanMaker):
    """`left` and `right`, 0 and 1, with queues if so wished; `both` of what they give; `last`."""

    def __init__(
        self,
        source: str = TOYS,
        batching: Batching | None = None,
        queueing: Queueing | None = None,
    ) -> None:
        super().__init__()
        for name in ("left", "right"):
            self.python(name, source, F32, Y32, batching=batching, queueing=queueing)
        self.python("both", TOYS, PAIR, Y32)
        self.python("last", TOYS, F32, Y32)

    def fork(self, *outputs: int) -> TogetherStep:
        """Left and right of slot 0."""
        left = arm(call(0, [0], [1], 5), result=1)
        right = arm(call(1, [0], [1], 6), result=1)
        return together(left, right, outputs=outputs)

    def joined(self, **more: object) -> "Toys":
        """A pipeline that puts the two together."""
        body = block([0], [self.fork(1, 2), call(2, [1, 2], [3])], [3])
        self.pipeline("p", F32, Y32, body, **more)  # type: ignore[arg-type]
        return self

    def tried(self, within: float | None) -> "Toys":
        """The same under a `try` whose `else` is `last`."""
        body = block([], [self.fork(1, 2), call(2, [1, 2], [3])], [3], captures=[(0, 0)])
        orelse = block([], [call(3, [0], [1])], [1], captures=[(0, 0)])
        step = TryStep(body, orelse, within, (1,), place(7))
        self.pipeline("p", F32, Y32, block([0], [step], [1]))
        return self


@pytest.fixture
def meeting() -> Iterator[ModuleType]:
    made = ModuleType("meeting")
    made.barrier = threading.Barrier(2)  # type: ignore[attr-defined]
    made.now = 0.0  # type: ignore[attr-defined]
    sys.modules["meeting"] = made
    yield made
    del sys.modules["meeting"]


@pytest.fixture
def simulate() -> "Iterator[type[_Simulated]]":
    yield _Simulated
    while _Simulated.opened:
        _Simulated.opened.pop().close()


class _Simulated(Simulation):
    opened: "list[Simulation]" = []  # noqa: RUF012 closed by the fixture

    def __init__(
        self,
        maker: PlanMaker,
        workers: int = 1,
        seed: int = 0,
        cost: Callable[[str, int], float] = lambda _name, _rows: 0.001,
    ) -> None:
        plan = maker.plan()
        verify_plan(plan)
        super().__init__(plan, workers=workers, seed=seed, cost=cost)
        self.opened.append(self)

    def ask(self, x: object, **more: object) -> Outcome:
        return self.submit(Request("p", {"x": x}, **more))  # type: ignore[arg-type, dict-item]

    def ran(self) -> dict[str, int]:
        found = {name: self.metrics.stage(name).rows for name in ("left", "right", "both", "last")}
        return {name: rows for name, rows in found.items() if rows}


def number(outcome: Outcome) -> float | None:
    return None if outcome.outputs is None else float(np.asarray(outcome.outputs["y"]))


def ten_each(stage: str, rows: int) -> float:
    return 0.010 * rows if stage in ("left", "right") else 0.0


@pytest.mark.usefixtures("meeting")
def test_stages_that_wait_for_each_other_end_because_they_overlap() -> None:
    engine = Engine(Toys(MEETING).joined().plan(), EngineConfig(workers=2, intra_op_threads=1))
    response = engine.submit(Request("p", {"x": 3.0})).result(30)  # type: ignore[dict-item]
    assert float(np.asarray(response.outputs["y"])) == 406
    engine.close()


@pytest.mark.parametrize(("workers", "seconds"), [(2, 0.010), (1, 0.020)])
def test_two_stages_of_ten_milliseconds_take_ten_with_two_workers(
    workers: int, seconds: float, simulate: type[_Simulated]
) -> None:
    simulation = simulate(Toys().joined(), workers=workers, cost=ten_each)
    outcome = simulation.ask(3.0)
    simulation.run()
    assert number(outcome) == 406
    assert outcome.at == pytest.approx(seconds)


def test_branches_wait_in_queues_at_the_same_time(simulate: type[_Simulated]) -> None:
    simulation = simulate(
        Toys(batching=Batching(8, 0.5, ())).joined(), workers=1, cost=lambda _name, _rows: 0.0
    )
    outcomes = [simulation.ask(float(x)) for x in range(4)]
    simulation.run()
    assert [number(one) for one in outcomes] == [100, 202, 304, 406]
    assert {one.at for one in outcomes} == {0.0}  # nobody else could come
    assert simulation.metrics.stage("left").sizes == {4: 1}
    assert simulation.metrics.stage("right").sizes == {4: 1}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_fault_in_one_branch_ends_the_request_and_takes_the_other_out_of_its_queue(
    workers: int, simulate: type[_Simulated]
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
def test_when_both_branches_fail_there_is_one_answer(seed: int, simulate: type[_Simulated]) -> None:
    simulation = simulate(Toys().joined(), workers=2, seed=seed)
    outcome = simulation.ask(13.0)
    simulation.run()
    assert outcome.answers == 1
    assert outcome.fault is not None
    assert outcome.fault.stage in ("left", "right")
    assert simulation.in_flight == 0


@pytest.mark.parametrize("x", [13.0, 14.0])
def test_a_try_around_catches_the_fault_of_a_branch_once(
    x: float, simulate: type[_Simulated]
) -> None:
    for seed in range(10):
        simulation = simulate(Toys().tried(None), workers=2, seed=seed)
        outcome = simulation.ask(x)
        simulation.run()
        assert number(outcome) == x - 1
        assert simulation.ran()["last"] == 1
        assert sum(simulation.metrics.pipeline("p").fallbacks.values()) == 1


def test_the_limit_of_a_try_takes_all_branches_out_of_their_queues(
    simulate: type[_Simulated],
) -> None:
    maker = Toys(batching=Batching(8, 9.0, ()))
    simulation = simulate(maker.tried(0.25), workers=2, cost=lambda _name, _rows: 0.0)
    outcome = simulation.ask(3.0)
    simulation.run()
    assert number(outcome) == 2
    assert outcome.at == 0.25
    assert simulation.ran() == {"last": 1}


def test_what_a_try_gives_up_leaves_its_place_in_the_queues_to_others(
    simulate: type[_Simulated],
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


def test_the_limit_of_a_try_drops_what_branches_run(simulate: type[_Simulated]) -> None:
    simulation = simulate(
        Toys().tried(0.25), workers=3, cost=lambda name, _rows: 5.0 * (name == "left")
    )
    outcome = simulation.ask(3.0)
    simulation.run()
    assert number(outcome) == 2
    assert outcome.at == 0.25
    assert simulation.ran() == {"left": 1, "right": 1, "last": 1}


def test_a_deadline_is_told_on_time_whatever_the_branches_do(simulate: type[_Simulated]) -> None:
    maker = Toys(batching=Batching(8, 9.0, ())).tried(None)
    simulation = simulate(maker, workers=2, cost=lambda _name, _rows: 0.0)
    outcome = simulation.ask(3.0, deadline=0.5)
    simulation.run()
    assert outcome.fault is not None
    assert (outcome.fault.code, outcome.fault.stage) == (Code.DEADLINE, "left")
    assert outcome.at == 0.5
    assert simulation.ran() == {}


def test_a_deadline_that_a_branch_finds_over_is_not_for_a_try(simulate: type[_Simulated]) -> None:
    maker = Toys()
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

    times = iter([0.0, 0.1, 0.6])
    engine = Engine(maker.plan(), EngineConfig(workers=1, clock=lambda: next(times)))
    with pytest.raises(Fault) as caught:
        engine.call(Request("p", {"x": 1.0}))  # type: ignore[dict-item]
    assert caught.value.code is Code.DEADLINE
    engine.close()


def test_cancelled_while_both_branches_are_queued_it_leaves_both_queues(
    simulate: type[_Simulated],
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


def test_a_queue_that_is_full_for_one_branch_ends_the_request(simulate: type[_Simulated]) -> None:
    maker = Toys(batching=Batching(8, 9.0, ()), queueing=Queueing(1, None, "reject")).joined()
    simulation = simulate(maker, workers=1, cost=lambda _name, _rows: 0.0)
    outcomes = [simulation.ask(float(x)) for x in range(4)]
    simulation.run()
    refused = [one for one in outcomes if one.fault is not None]
    assert refused
    assert all(one.fault and one.fault.code is Code.OVERLOADED for one in refused)
    answered = [one for one in outcomes if one.outputs is not None]
    assert simulation.ran() == dict.fromkeys(("left", "right", "both"), len(answered))


def nested() -> Toys:
    """((left, right), left), (right, (left, right)): each pair put together by `both`."""
    maker = Toys()
    inner = together(
        arm(call(0, [0], [1]), result=1), arm(call(1, [0], [1]), result=1), outputs=(1, 2)
    )
    first = arm(inner, call(2, [1, 2], [3]), result=3)
    outer = together(first, arm(call(0, [0], [1]), result=1), outputs=(1, 2))
    left = arm(outer, call(2, [1, 2], [3]), result=3)
    other = together(arm(call(1, [0], [1]), result=1), first, outputs=(1, 2))
    right = arm(other, call(2, [1, 2], [3]), result=3)
    maker.pipeline(
        "p",
        F32,
        Y32,
        block([0], [together(left, right, outputs=(1, 2)), call(2, [1, 2], [3])], [3]),
    )
    return maker


@pytest.mark.parametrize("seed", range(20))
def test_forks_within_forks_join_in_order(seed: int, simulate: type[_Simulated]) -> None:
    simulation = simulate(nested(), workers=1 + seed % 4, seed=seed)
    outcomes = [simulation.ask(float(x)) for x in (1, 2, 14, 3)]
    simulation.run()
    engine = Engine(nested().plan(), EngineConfig(workers=1))
    for x, outcome in zip((1, 2, 14, 3), outcomes, strict=True):
        if x == 14:
            assert outcome.fault is not None
            continue
        answer = engine.call(Request("p", {"x": float(x)})).outputs["y"]  # type: ignore[dict-item]
        assert number(outcome) == float(np.asarray(answer))
    assert simulation.in_flight == 0
    engine.close()


def test_branches_run_for_the_rows_of_a_group(simulate: type[_Simulated]) -> None:
    maker = Toys()
    body = block([0], [maker.fork(1, 2), call(2, [1, 2], [3])], [3])
    each = EachStep((0,), body, False, (1,), (kind("f32[N]"),), place(4))
    maker.pipeline("p", fields(x="f32[N]"), fields(y="f32[N]"), block([0], [each], [1]))
    simulation = simulate(maker, workers=2, cost=ten_each)
    outcome = simulation.ask(np.arange(3, dtype=np.float32))
    simulation.run()
    assert outcome.outputs is not None
    assert np.asarray(outcome.outputs["y"]).tolist() == [100, 202, 304]
    assert outcome.at == pytest.approx(0.030)


def test_branches_run_in_the_arm_of_an_if_for_its_rows_only(simulate: type[_Simulated]) -> None:
    maker = Toys()
    body = block([], [maker.fork(1, 2), call(2, [1, 2], [3])], [3], captures=[(0, 0)])
    orelse = block([], [], [0], captures=[(0, 0)])
    is_small = maker.python("small", "def small(x):\n    return x < 2\n", F32, fields(c="bool"))
    branch = BranchStep(1, body, orelse, (2,), place(4))
    maker.pipeline("p", F32, Y32, block([0], [call(is_small, [0], [1]), branch], [2]), batch=8)
    simulation = simulate(maker, workers=2)
    outcome = simulation.ask(np.arange(4, dtype=np.float32))
    simulation.run()
    assert outcome.outputs is not None
    assert np.asarray(outcome.outputs["y"]).tolist() == [100, 202, 2, 3]
    assert simulation.ran() == {"left": 2, "right": 2, "both": 2}


def test_branches_run_in_every_turn_of_a_loop(simulate: type[_Simulated]) -> None:
    maker = Toys()
    body = block([0], [maker.fork(1, 2), call(2, [1, 2], [3])], [3])
    loop = LoopStep(1, (0,), body, False, (2,), place(4))
    maker.pipeline("p", F32, Y32, block([0], [loop], [2], constants=[(1, 3, kind("i64"))]))
    simulation = simulate(maker, workers=2, cost=ten_each)
    outcome = simulation.ask(1.0)
    simulation.run()
    expected = 1.0
    for _ in range(3):
        expected = (expected + 1) * 100 + expected * 2
    assert number(outcome) == expected
    assert outcome.at == pytest.approx(0.030)


def test_a_caller_who_wants_one_result_runs_one_branch(simulate: type[_Simulated]) -> None:
    maker = Toys()
    maker.pipeline("p", F32, fields(y="f32", z="f32"), block([0], [maker.fork(1, 2)], [1, 2]))
    simulation = simulate(maker, workers=1)
    outcome = simulation.ask(3.0, outputs=("z",))
    simulation.run()
    assert outcome.outputs is not None
    assert {name: float(np.asarray(one)) for name, one in outcome.outputs.items()} == {"z": 6}
    assert simulation.ran() == {"right": 1}


def test_in_the_callers_thread_branches_run_one_after_the_other() -> None:
    engine = Engine(Toys().joined().plan(), EngineConfig(workers=1))
    assert float(np.asarray(engine.call(Request("p", {"x": 3.0})).outputs["y"])) == 406  # type: ignore[dict-item]
    with pytest.raises(Fault) as caught:
        engine.call(Request("p", {"x": 13.0}))  # type: ignore[dict-item]
    assert caught.value.stage == "left"
    assert engine.metrics.stage("right").executions == 1
    engine.close()
    tried = Engine(Toys().tried(None).plan(), EngineConfig(workers=1))
    assert float(np.asarray(tried.call(Request("p", {"x": 14.0})).outputs["y"])) == 13  # type: ignore[dict-item]
    tried.close()


def test_what_a_request_computes_adds_up_over_its_branches(meeting: ModuleType) -> None:
    clock = EngineConfig(workers=1, intra_op_threads=1, clock=lambda: meeting.now)
    engine = Engine(Toys(CLOCK).joined().plan(), clock)
    engine.submit(Request("p", {"x": 3.0})).result(30)  # type: ignore[dict-item]
    assert engine.pipeline("p").average == 2.0
    engine.close()


@pytest.mark.parametrize(
    ("fork", "why"),
    [
        (together(arm(call(0, [0], [1]), result=1), outputs=(1,)), "fewer than two"),
        (
            together(*[arm(call(0, [0], [1]), result=1)] * 2, outputs=(1,)),
            "another number of results",
        ),
        (together(arm(result=0), arm(result=0, captured=(5,)), outputs=(1, 2)), "capture"),
        (
            together(arm(result=0), block([0], [], [0]), outputs=(1, 2)),
            "an arm has parameters",
        ),
        (
            together(arm(result=0), arm(EmitStep((0,), place(5)), result=0), outputs=(1, 2)),
            "emits",
        ),
        (together(arm(result=0), arm(result=0), outputs=(1, 1)), "given a value twice"),
    ],
)
def test_a_plan_with_a_bad_fork_is_refused(fork: TogetherStep, why: str) -> None:
    maker = Toys()
    maker.pipeline("p", F32, Y32, block([0], [fork], [1]))
    with pytest.raises(Malformed, match=why):
        verify_plan(maker.plan())


def test_branches_begin_in_the_order_in_which_they_are_written(
    simulate: type[_Simulated],
) -> None:
    simulation = simulate(Toys().joined())
    simulation.ask(3.0)
    simulation.run()
    assert [name for _, name, _ in simulation.runs] == ["left", "right", "both"]


def test_a_request_that_is_cancelled_just_before_it_forks_runs_no_branch(
    simulate: type[_Simulated],
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


def test_blocks_that_give_nothing_wanted_are_cut_off() -> None:
    body = block([0], [Toys().fork(1, 2)], [1, 2])
    (step,) = prune(body, (1,)).steps
    assert isinstance(step, TogetherStep)
    assert [one.results for one in step.blocks] == [(1,)]
    assert step.outputs == (2,)
