"""Who may still come to a stage: by the plan alone, and by where requests are."""

from collections.abc import Sequence

from headrace.compiler.plan import (
    Block,
    BranchStep,
    EachStep,
    LoopStep,
    Step,
    SwitchStep,
    TogetherStep,
    TryStep,
)
from headrace.runtime.company import Company, reaches
from headrace.runtime.forecast import START
from tests.runtime.plans import block, call, place


def calls(*stages: int, then: Sequence[Step] = ()) -> Block:
    return block([], [*(call(stage, [], []) for stage in stages), *then], [])


def after(body: Block, at: int) -> set[int]:
    return set(reaches(body)[at])


def test_what_is_behind_a_stage_is_reached_and_what_is_before_it_is_not() -> None:
    body = calls(0, 1, 2)
    assert after(body, START) == {0, 1, 2}
    assert [after(body, at) for at in (0, 1, 2)] == [{1, 2}, {2}, set()]


def test_a_stage_called_twice_reaches_what_is_behind_either() -> None:
    assert after(calls(0, 1, 0, 2), 0) == {0, 1, 2}


def test_one_arm_does_not_reach_the_other() -> None:
    branch = BranchStep(0, calls(0, 1), calls(2), (), place(1))
    body = calls(then=[branch, call(3, [], [])])
    assert after(body, START) == {0, 1, 2, 3}
    assert [after(body, at) for at in (0, 1, 2)] == [{1, 3}, {3}, {3}]
    switch = SwitchStep(0, (((1,), calls(0)), ((2,), calls(1))), calls(2), (), place(1))
    assert [after(calls(then=[switch]), at) for at in (0, 1, 2)] == [set(), set(), set()]


def test_the_next_turn_of_a_loop_reaches_all_of_its_stages() -> None:
    loop = LoopStep(0, (), calls(0, 1), False, (), place(1))
    body = calls(then=[loop, call(2, [], [])])
    assert [after(body, at) for at in (0, 1, 2)] == [{0, 1, 2}, {0, 1, 2}, set()]


def test_the_items_of_a_walk_come_to_a_stage_together() -> None:
    each = EachStep((0,), calls(0, 1), False, (), (), place(1))
    assert [after(calls(then=[each]), at) for at in (0, 1)] == [{1}, set()]


def test_a_body_that_fails_reaches_its_else() -> None:
    attempt = TryStep(calls(0), calls(1), None, (), place(1))
    assert [after(calls(then=[attempt]), at) for at in (0,)] == [{0, 1}]


def test_a_walk_of_a_fork_does_not_reach_what_the_others_run() -> None:
    together = TogetherStep((calls(0), calls(1, 2)), (), place(1))
    body = calls(then=[together, call(3, [], [])])
    assert after(body, START) == {0, 1, 2, 3}
    assert [after(body, at) for at in (0, 1, 2)] == [{3}, {2, 3}, {3}]


def test_somebody_is_expected_until_all_have_passed_or_wait() -> None:
    company = Company([reaches(calls(0, 1)), reaches(calls(2))])
    assert not company.expected(1)
    company.come(0)
    company.come(0)
    company.wait(0, START, 0)
    company.pass_by(0, 0)
    company.wait(0, 0, 1)
    assert company.expected(1)  # the other has not come yet
    company.wait(0, START, 0)
    assert company.expected(1)
    assert not company.expected(0)
    company.pass_by(0, 0)
    company.go(0, 0)
    assert not company.expected(1)
    company.come(1)
    assert not company.expected(1)  # it goes elsewhere
    assert company.expected(2)


def test_who_waits_for_a_stage_in_a_loop_does_not_wait_for_himself() -> None:
    loop = LoopStep(0, (), calls(0), False, (), place(1))
    company = Company([reaches(calls(then=[loop]))])
    company.come(0)
    company.wait(0, START, 0)
    assert not company.expected(0)
    company.pass_by(0, 0)
    assert company.expected(0)  # by who may come now
