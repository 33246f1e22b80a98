"""`and` and `or` run a model or function on their right only where the left does not decide."""

import sys
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.compiler.plan import BranchStep, Plan

SOURCE = """\
fn slow(x: i64) -> (y: bool) = python "slow.py:slow"
fn many(x: i64) -> (y: bool[2]) = python "slow.py:many"

pipeline p(a: bool, x: i64) -> (y: bool) batch 8 {{
    return y = {0}
}}
"""

SLOW = """\
SEEN = []
def slow(x):
    SEEN.append(int(x))
    return x > 2
def many(x):
    return [x > 2, x < 2]
"""


def compiled(folder: Path, expr: str) -> Plan:
    (folder / "slow.py").write_text(SLOW)
    (folder / "p.pipe").write_text(SOURCE.format(expr))
    return headrace.compile(folder / "p.pipe").plan


def branches(plan: Plan) -> int:
    return sum(isinstance(step, BranchStep) for step in plan.pipeline("p").body.steps)


A = np.array([True, False, True, False])
X = np.array([1, 2, 3, 4])


@pytest.mark.parametrize(
    ("expr", "expected", "runs"),
    [
        ("a and slow(x)", A & (X > 2), [1, 3]),
        ("a or slow(x)", A | (X > 2), [2, 4]),
        ("x > 1 and (a or slow(x))", (X > 1) & (A | (X > 2)), [2, 4]),
        ("slow(x) and a", (X > 2) & A, [1, 2, 3, 4]),
        ("not a and not slow(x + 1)", ~A & ~(X + 1 > 2), [3, 5]),
    ],
)
def test_a_function_on_the_right_runs_for_the_rows_that_the_left_leaves_open(
    tmp_path: Path, expr: str, expected: np.ndarray, runs: list[int]
) -> None:
    before = set(sys.modules)
    with headrace.load(compiled(tmp_path, expr)) as app:
        np.testing.assert_array_equal(app.p(a=A, x=X).y, expected)
        new = sys.modules.keys() - before
        (module,) = [sys.modules[name] for name in new if "headrace_source" in name]
        assert sorted(module.SEEN) == runs


@pytest.mark.parametrize("expr", ["a and x > 2", "a or not a", "a and any(many(x) and many(x))"])
def test_ops_and_tensors_are_computed_on_both_sides(tmp_path: Path, expr: str) -> None:
    plan = compiled(tmp_path, expr)
    assert branches(plan) == ("many" in expr)  # the outer one, which calls


def test_a_side_of_another_type_is_still_the_mistake_that_it_was(tmp_path: Path) -> None:
    with pytest.raises(headrace.CompileError, match="HR226"):
        compiled(tmp_path, "x and slow(x)")
