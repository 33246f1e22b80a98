"""Checks of sizes that occur only in arithmetic: computed back where that has one outcome."""

from pathlib import Path

import pytest

from headrace.compiler.graph import Check, Graph
from headrace.compiler.plan import CheckStep
from headrace.compiler.planner import plan_pipeline
from headrace.compiler.segments import Segments
from headrace.dsl.types import Dim, DimArith, DimVar, DType, TensorType
from headrace.runtime.shapes import Bindings, evaluate
from tests.compiler.make_graphs import GraphMaker

F32 = TensorType(DType.F32, (3,))
K, L, M, N = (DimVar(name) for name in "KLMN")
TWICE = DimArith("*", 2, L)


def checked(make: GraphMaker, sizes: tuple[Dim, ...], size: Dim) -> Graph:
    """Return a graph of `x: f32[sizes]` in which it is checked that `size` is 0."""
    make.param("x", TensorType(DType.F32, sizes))
    check = Check(size, "==", 0, "as written")
    return make.graph(make.op("core.a", make.param("y", F32), type=F32, checks=[check]))


@pytest.mark.parametrize(
    ("sizes", "size"),
    [
        ((TWICE,), DimArith("%", L, 4)),
        ((DimArith("-", TWICE, 1),), L),
        ((N, DimArith("+", N, DimArith("*", 3, L))), L),
        ((DimArith("-", 7, L),), DimArith("+", L, 1)),
        ((K, TWICE, DimArith("+", DimArith("+", K, L), M)), M),
        ((DimArith("+", DimArith("*", L, 1), N), N), L),
    ],
    ids=str,
)
def test_a_size_is_computed_back(make: GraphMaker, sizes: tuple[Dim, ...], size: Dim) -> None:
    planned = plan_pipeline(checked(make, sizes, size), Segments(), Path())
    assert planned.declined == ()
    (step,) = [one for one in planned.pipeline.body.steps if isinstance(one, CheckStep)]
    real: Bindings = {K: 11, L: 5, M: 3, N: 2}
    shape = [evaluate(one, real) for one in sizes]
    read = {name: length for name, _, axis in step.sizes if (length := shape[axis]) is not None}
    assert evaluate(step.check.left, read) == evaluate(size, real)
    assert step.check.text == "as written"


@pytest.mark.parametrize(
    "size",
    [DimArith("/", L, 2), DimArith("*", N, L), DimArith("*", L, L), DimArith("+", L, M)],
    ids=str,
)
def test_a_size_that_may_be_several_is_not_compared_and_that_is_said(
    make: GraphMaker, size: Dim
) -> None:
    (declined,) = plan_pipeline(checked(make, (N, size), L), Segments(), Path()).declined
    assert declined.reason.startswith("`as written` is not compared")
