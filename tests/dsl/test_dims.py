"""Unification, broadcasting and simplification of dimensions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.dsl.dims import Assumption, Dims
from headrace.dsl.types import ANY_DIM, Dim, DimArith, DimVar


def plus(left: Dim, right: Dim) -> Dim:
    return DimArith("+", left, right)


def times(left: Dim, right: Dim) -> Dim:
    return DimArith("*", left, right)


def over(left: Dim, right: Dim) -> Dim:
    return DimArith("/", left, right)


def test_equal_integers_unify_and_different_ones_do_not() -> None:
    dims = Dims()
    assert dims.unify(3, 3)
    assert not dims.unify(3, 4)


def test_two_rigid_names_of_one_signature_are_not_equal() -> None:
    dims = Dims()
    n, m = dims.rigid("N"), dims.rigid("M")
    assert dims.unify(n, n)
    assert not dims.unify(n, m)
    assert not dims.unify(n, 5)
    assert dims.assumptions == ()


def test_a_flexible_name_takes_the_value_of_its_first_argument() -> None:
    dims = Dims()
    h = dims.flexible("H")
    assert dims.unify(h, 64)
    assert dims.resolve(over(h, 4)) == 16
    assert not dims.unify(h, 65)


def test_equal_names_of_two_calls_are_different_variables() -> None:
    dims = Dims()
    first, second = dims.flexible("H"), dims.flexible("H")
    assert dims.unify(first, 3)
    assert dims.unify(second, 4)


def test_chains_of_flexible_names_are_followed() -> None:
    dims = Dims()
    a, b, c = (dims.flexible(name) for name in "abc")
    assert dims.unify(a, b)
    assert dims.unify(b, c)
    assert dims.unify(c, 7)
    assert dims.resolve(a) == 7


def test_equating_a_fresh_size_is_an_assumption_and_binds_nothing() -> None:
    dims = Dims()
    n = dims.fresh("n")
    assert dims.unify(n, 5)
    assert dims.unify(n, 6)  # the other arm of an `if`
    assert dims.take_assumptions() == (Assumption(n, 5), Assumption(n, 6))
    assert dims.assumptions == ()


def test_a_linear_equation_in_one_unknown_is_solved() -> None:
    dims = Dims()
    t = dims.flexible("T")
    assert dims.unify(plus(times(2, t), 1), 7)
    assert dims.resolve(t) == 3


def test_a_linear_equation_without_a_whole_solution_is_refused() -> None:
    dims = Dims()
    assert not dims.unify(plus(times(2, dims.flexible("T")), 1), 8)


def test_a_linear_equation_is_solved_over_other_names() -> None:
    dims = Dims()
    t, n = dims.flexible("T"), dims.rigid("N")
    assert dims.unify(plus(t, 1), times(2, n))
    assert dims.resolve(t) == DimArith("-", times(2, n), 1)


def test_a_negative_size_is_refused() -> None:
    dims = Dims()
    assert not dims.unify(plus(dims.flexible("T"), 4), 3)
    assert not dims.unify(plus(dims.fresh("n"), 4), 3)


def test_a_name_is_not_defined_by_itself() -> None:
    dims = Dims()
    h = dims.flexible("H")
    assert not dims.unify(h, plus(h, 1))
    assert dims.unify(h, over(h, 4))  # true of 0 only: not known before it runs
    assert dims.assumptions == (Assumption(h, over(h, 4)),)


def test_division_is_equal_to_the_same_division_only() -> None:
    dims = Dims()
    h, w = dims.rigid("H"), dims.rigid("W")
    assert dims.unify(over(h, 4), over(h, 4))
    assert not dims.unify(over(h, 4), over(w, 4))
    assert dims.assumptions == ()


def test_division_of_a_flexible_name_becomes_known_with_it() -> None:
    dims = Dims()
    h = dims.flexible("H")
    assert dims.unify(h, 30)
    assert dims.unify(over(h, 4), 7)
    assert not dims.unify(over(h, 4), 8)


def test_unknown_matches_anything() -> None:
    dims = Dims()
    assert dims.unify(ANY_DIM, 3)
    assert dims.unify(dims.rigid("N"), ANY_DIM)
    assert dims.resolve(plus(ANY_DIM, 1)) == ANY_DIM


@pytest.mark.parametrize(
    ("dim", "simple"),
    [
        (over(times(4, DimVar("H")), 4), DimVar("H")),
        (over(plus(times(4, DimVar("H")), 3), 4), DimVar("H")),
        (over(over(DimVar("H"), 4), 2), over(DimVar("H"), 8)),
        (DimArith("%", times(32, DimVar("H")), 32), 0),
        (plus(DimVar("H"), plus(1, DimVar("H"))), plus(times(2, DimVar("H")), 1)),
        (DimArith("-", DimVar("H"), DimVar("H")), 0),
    ],
)
def test_arithmetic_is_simplified(dim: Dim, simple: Dim) -> None:
    assert Dims().resolve(dim) == simple


def test_broadcasting_is_that_of_numpy_as_far_as_it_is_known() -> None:
    dims = Dims()
    n, fresh = dims.rigid("N"), dims.fresh("m")
    assert dims.broadcast(1, n) == n
    assert dims.broadcast(5, 5) == 5
    assert dims.broadcast(5, 6) is None
    assert dims.broadcast(n, dims.rigid("M")) is None
    assert dims.broadcast(fresh, 5) == 5
    assert isinstance(dims.broadcast(fresh, n), DimVar)
    assert dims.assumptions == ()


def test_joining_arms_gives_a_new_size_where_one_is_known_only_at_run_time() -> None:
    dims = Dims()
    n = dims.fresh("n")
    assert dims.join(n, n) == n
    assert dims.join(3, 4) is None
    joined = dims.join(n, 4)
    assert isinstance(joined, DimVar)
    assert joined != n
    assert dims.assumptions == ()


def test_what_no_argument_determines_is_settled_as_fresh() -> None:
    dims = Dims()
    h = dims.flexible("H")
    settled = dims.settle(over(h, 4))
    assert dims.resolve(over(h, 4)) == settled
    assert dims.unify(h, 8)
    assert len(dims.assumptions) == 1


@pytest.mark.parametrize(
    ("left", "op", "right", "known"),
    [
        (DimArith("%", 64, 32), "==", 0, True),
        (DimArith("%", 65, 32), "==", 0, False),
        (DimArith("%", DimVar("H"), 32), "==", 0, None),
        (DimArith("%", times(64, DimVar("H")), 32), "==", 0, True),
        (DimArith("%", DimVar("H"), 32), "<", 32, True),
        (DimVar("H"), ">=", 0, True),
        (plus(DimVar("H"), 1), ">", 0, True),
        (DimVar("H"), "<=", 8, None),
        (DimVar("H"), "!=", DimVar("H"), False),
        (3, "<", 2, False),
    ],
)
def test_comparisons_are_proved_or_refuted(
    left: Dim, op: str, right: Dim, known: bool | None
) -> None:
    assert Dims().holds(left, op, right) is known


def evaluate(dim: Dim, sizes: dict[DimVar, int]) -> int:
    match dim:
        case int():
            return dim
        case DimVar():
            return sizes[dim]
        case DimArith():
            left, right = evaluate(dim.left, sizes), evaluate(dim.right, sizes)
            return {
                "+": lambda: left + right,
                "-": lambda: left - right,
                "*": lambda: left * right,
                "/": lambda: left // right,
                "%": lambda: left % right,
            }[dim.op]()
        case _:
            raise AssertionError(dim)


X, Y = DimVar("x"), DimVar("y")
small = st.integers(1, 6)
expressions = st.recursive(
    st.one_of(st.integers(0, 9), st.sampled_from([X, Y])),
    lambda inner: st.one_of(
        st.builds(DimArith, st.sampled_from(["+", "-", "*"]), inner, inner),
        st.builds(DimArith, st.sampled_from(["/", "%"]), inner, small),
    ),
    max_leaves=8,
)


@given(expressions, st.integers(0, 20), st.integers(0, 20))
def test_simplifying_keeps_the_value(dim: Dim, x: int, y: int) -> None:
    sizes = {X: x, Y: y}
    assert evaluate(Dims().resolve(dim), sizes) == evaluate(dim, sizes)


@given(expressions, expressions, st.integers(0, 20), st.integers(0, 20))
def test_what_is_refuted_holds_for_no_size(left: Dim, right: Dim, x: int, y: int) -> None:
    dims = Dims()
    fresh = {X: dims.fresh("x"), Y: dims.fresh("y")}

    def rename(dim: Dim) -> Dim:
        if isinstance(dim, DimArith):
            return DimArith(dim.op, rename(dim.left), rename(dim.right))
        return fresh[dim] if isinstance(dim, DimVar) else dim

    if not dims.unify(rename(left), rename(right)):
        sizes = {X: x, Y: y}
        assert evaluate(left, sizes) != evaluate(right, sizes)
