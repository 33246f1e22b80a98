"""Blocks that run at once: they overlap, join in order, and stand wherever blocks do."""

from types import ModuleType

import numpy as np
import pytest

from headrace.compiler.literal_codec import Malformed
from headrace.compiler.plan import (
    Batching,
    BranchStep,
    EachStep,
    EmitStep,
    LoopStep,
    TogetherStep,
)
from headrace.compiler.verify_plan import verify_plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.prune import prune
from headrace.runtime.request import Fault, Request
from tests.runtime.forks import F32, Y32, Simulated, Toys, arm, number, ten_each, together
from tests.runtime.plans import block, call, fields, kind, place

MEETING = """
import meeting

def left(x):
    meeting.barrier.wait(20)
    return x + 1

def right(x):
    meeting.barrier.wait(20)
    return x * 2
"""


CLOCK = """
import meeting

def left(x):
    meeting.now += 1.0
    return x

right = left
"""


@pytest.mark.usefixtures("meeting")
def test_stages_that_wait_for_each_other_end_because_they_overlap() -> None:
    engine = Engine(Toys(MEETING).joined().plan(), EngineConfig(workers=2, intra_op_threads=1))
    response = engine.submit(Request("p", {"x": 3.0})).result(30)  # type: ignore[dict-item]
    assert float(np.asarray(response.outputs["y"])) == 406
    engine.close()


@pytest.mark.parametrize(("workers", "seconds"), [(2, 0.010), (1, 0.020)])
def test_two_stages_of_ten_milliseconds_take_ten_with_two_workers(
    workers: int, seconds: float, simulate: type[Simulated]
) -> None:
    simulation = simulate(Toys().joined(), workers=workers, cost=ten_each)
    outcome = simulation.ask(3.0)
    simulation.run()
    assert number(outcome) == 406
    assert outcome.at == pytest.approx(seconds)


def test_branches_wait_in_queues_at_the_same_time(simulate: type[Simulated]) -> None:
    simulation = simulate(
        Toys(batching=Batching(8, 0.5, ())).joined(), workers=1, cost=lambda _name, _rows: 0.0
    )
    outcomes = [simulation.ask(float(x)) for x in range(4)]
    simulation.run()
    assert [number(one) for one in outcomes] == [100, 202, 304, 406]
    assert {one.at for one in outcomes} == {0.0}  # nobody else could come
    assert simulation.metrics.stage("left").sizes == {4: 1}
    assert simulation.metrics.stage("right").sizes == {4: 1}


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
def test_forks_within_forks_join_in_order(seed: int, simulate: type[Simulated]) -> None:
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


def test_branches_run_for_the_rows_of_a_group(simulate: type[Simulated]) -> None:
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


def test_branches_run_in_the_arm_of_an_if_for_its_rows_only(simulate: type[Simulated]) -> None:
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


def test_branches_run_in_every_turn_of_a_loop(simulate: type[Simulated]) -> None:
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


def test_a_caller_who_wants_one_result_runs_one_branch(simulate: type[Simulated]) -> None:
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
    simulate: type[Simulated],
) -> None:
    simulation = simulate(Toys().joined())
    simulation.ask(3.0)
    simulation.run()
    assert [name for _, name, _ in simulation.runs] == ["left", "right", "both"]


def test_blocks_that_give_nothing_wanted_are_cut_off() -> None:
    body = block([0], [Toys().fork(1, 2)], [1, 2])
    (step,) = prune(body, (1,)).steps
    assert isinstance(step, TogetherStep)
    assert [one.results for one in step.blocks] == [(1,)]
    assert step.outputs == (2,)
