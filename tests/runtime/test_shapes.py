"""Named dimensions: bound from real shapes, evaluated as the compiler means them."""

import pytest

from headrace.compiler.plan import Check
from headrace.dsl.types import ANY_DIM, Dim, DimArith, DimVar
from headrace.runtime.shapes import bind, evaluate, failed, solve

H, W = DimVar("H"), DimVar("W")


@pytest.mark.parametrize(
    ("dim", "size"),
    [
        (7, 7),
        (H, 10),
        (W, None),
        (ANY_DIM, None),
        (DimArith("+", H, 1), 11),
        (DimArith("-", H, 1), 9),
        (DimArith("*", 2, H), 20),
        (DimArith("/", H, 4), 2),
        (DimArith("%", H, 4), 2),
        (DimArith("/", H, 0), None),
        (DimArith("+", H, W), None),
    ],
)
def test_a_dimension_has_a_size_when_its_names_have(dim: Dim, size: int | None) -> None:
    found = evaluate(dim, {H: 10})
    assert found == size
    assert isinstance(found, int | None)


def test_names_take_the_first_size_and_hold_the_others_to_it() -> None:
    bindings: dict[DimVar, int] = {}
    assert bind((H, W, 3), (4, 5, 3), bindings) is None
    assert bindings == {H: 4, W: 5}
    assert bind((DimArith("/", H, 2), ANY_DIM), (2, 99), bindings) is None
    assert bind((H,), (5,), bindings) == "has 5 in dimension 0, but `H` is 4 here"
    assert bind((3,), (5,), bindings) == "has 5 in dimension 0, but 3 is fixed"
    assert bind((H,), (4, 1), bindings) == "has 2 dimensions, not 1"


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
def test_a_check_says_what_does_not_hold(op: str) -> None:
    holds = {"==": 4, "!=": 5, "<": 5, "<=": 4, ">": 3, ">=": 4}[op]
    fails = {"==": 5, "!=": 4, "<": 4, "<=": 3, ">": 4, ">=": 5}[op]
    assert failed(Check(H, op, holds, "c"), {H: 4}) is None
    assert failed(Check(H, op, fails, "c"), {H: 4}) == f"`c` does not hold: 4 {op} {fails}"


def test_a_check_of_an_unknown_size_is_a_bug() -> None:
    with pytest.raises(KeyError, match="no shape of its stage gives"):
        failed(Check(H, "==", W, "H == W"), {H: 4})


@pytest.mark.parametrize(
    ("dim", "size", "width"),
    [
        (DimArith("+", W, 1), 4, 3),
        (DimArith("+", H, W), 14, 4),
        (DimArith("-", W, 2), 4, 6),
        (DimArith("-", H, W), 4, 6),
        (DimArith("*", 2, DimArith("+", W, 1)), 8, 3),
        (DimArith("*", W, H), 20, 2),
    ],
)
def test_a_name_in_a_computed_dimension_is_solved_for(dim: Dim, size: int, width: int) -> None:
    bindings = {H: 10}
    assert solve(dim, size, bindings)
    assert bindings == {H: 10, W: width}
    assert evaluate(dim, bindings) == size


@pytest.mark.parametrize(
    ("dim", "size"),
    [(DimArith("*", 2, W), 3), (DimArith("+", W, 5), 4), (DimArith("-", H, W), 11)],
)
def test_a_computed_dimension_that_no_name_gives_is_refused(dim: Dim, size: int) -> None:
    assert bind((dim,), (size,), {H: 10}) == f"has {size} in dimension 0, which `{dim}` cannot be"


@pytest.mark.parametrize(
    "dim", [DimArith("/", W, 4), DimArith("+", W, DimVar("V")), DimArith("*", 0, W), ANY_DIM]
)
def test_what_rounds_or_has_two_unknown_names_is_not_solved(dim: Dim) -> None:
    bindings: dict[DimVar, int] = {}
    assert bind((dim,), (3,), bindings) is None
    assert bindings == {}
