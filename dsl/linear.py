"""The normal form of dimensions: a sum of whole multiples of atoms and a constant.

An atom is a variable, or arithmetic that is not linear (`H / 4`, `H % 32`, `H * W`) over operands
in normal form. Two dimensions with the same normal form are equal for all values of the
variables. Dimensions are sizes, so variables are never negative; `/` rounds down.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, inf
from typing import TypeAlias

from .types import Dim, DimAny, DimArith, DimVar

Atom: TypeAlias = DimVar | DimArith


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum(coefficient * atom) + constant`; coefficients are not zero, atoms are sorted."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int

    @property
    def is_constant(self) -> bool:
        return not self.terms


def linear(dim: Dim, value_of: Callable[[DimVar], Dim]) -> Linear | None:
    """Return the normal form of `dim` with variables replaced; None when it holds a `_`."""
    match dim:
        case int():
            return Linear((), dim)
        case DimVar():
            value = value_of(dim)
            return Linear(((dim, 1),), 0) if value == dim else linear(value, value_of)
        case DimAny():
            return None
        case DimArith():
            left, right = linear(dim.left, value_of), linear(dim.right, value_of)
            if left is None or right is None:
                return None
            return _combine(dim.op, left, right)


def subtract(left: Linear, right: Linear) -> Linear:
    return _sum(left, right, -1)


def to_dim(form: Linear) -> Dim:
    """Write a normal form as a dimension; equal forms give equal dimensions."""
    positive = [(atom, factor) for atom, factor in form.terms if factor > 0]
    negative = [(atom, factor) for atom, factor in form.terms if factor < 0]
    if not positive:
        total: Dim = form.constant
    else:
        total = _scaled(*positive[0])
        for atom, factor in positive[1:]:
            total = DimArith("+", total, _scaled(atom, factor))
        if form.constant > 0:
            total = DimArith("+", total, form.constant)
    for atom, factor in negative:
        total = DimArith("-", total, _scaled(atom, -factor))
    if positive and form.constant < 0:
        total = DimArith("-", total, -form.constant)
    return total


def bounds(form: Linear) -> tuple[float, float]:
    """Return a least and a greatest value that hold for all sizes of the variables."""
    low: float = form.constant
    high: float = form.constant
    for atom, factor in form.terms:
        least, greatest = _atom_bounds(atom)
        ends = (least * factor, greatest * factor)
        low, high = low + min(ends), high + max(ends)
    return low, high


def can_be_zero(form: Linear) -> bool:
    """Tell whether sizes may exist for which the form is zero; False is certain."""
    low, high = bounds(form)
    if low > 0 or high < 0:
        return False
    # every atom is a whole number, so 2 * a + 4 * b is never odd
    return form.constant % (gcd(*(factor for _, factor in form.terms)) or 1) == 0


def variables(dim: Dim) -> frozenset[DimVar]:
    """Return the variables that a dimension mentions."""
    match dim:
        case DimVar():
            return frozenset((dim,))
        case DimArith():
            return variables(dim.left) | variables(dim.right)
        case _:
            return frozenset()


def _scaled(atom: Atom, factor: int) -> Dim:
    return atom if factor == 1 else DimArith("*", factor, atom)


def _atom_bounds(atom: Atom) -> tuple[float, float]:
    if isinstance(atom, DimVar):
        return 0, inf
    if atom.op == "%" and isinstance(atom.right, int) and atom.right > 0:
        return 0, atom.right - 1
    if isinstance(atom.left, DimVar) and isinstance(atom.right, int | DimVar):
        return (0, inf) if not isinstance(atom.right, int) or atom.right > 0 else (-inf, inf)
    return -inf, inf


def _sum(left: Linear, right: Linear, sign: int) -> Linear:
    factors = dict(left.terms)
    for atom, factor in right.terms:
        factors[atom] = factors.get(atom, 0) + sign * factor
    return _form(factors, left.constant + sign * right.constant)


def _form(factors: dict[Atom, int], constant: int) -> Linear:
    kept = [(atom, factor) for atom, factor in factors.items() if factor]
    return Linear(tuple(sorted(kept, key=_order)), constant)


def _order(term: tuple[Atom, int]) -> tuple[str, tuple[int, ...]]:
    atom = term[0]
    return str(atom), tuple(sorted(variable.uid for variable in variables(atom)))


def _combine(op: str, left: Linear, right: Linear) -> Linear:
    match op:
        case "+":
            return _sum(left, right, 1)
        case "-":
            return _sum(left, right, -1)
        case "*":
            return _product(left, right)
        case "/":
            return _quotient(left, right)
        case _:
            return _remainder(left, right)


def _product(left: Linear, right: Linear) -> Linear:
    if left.is_constant:
        left, right = right, left
    if right.is_constant:
        by = right.constant
        return _form({atom: factor * by for atom, factor in left.terms}, left.constant * by)
    first, second = sorted((to_dim(left), to_dim(right)), key=str)
    return Linear(((DimArith("*", first, second), 1),), 0)


def _quotient(left: Linear, right: Linear) -> Linear:
    if left == right and bounds(left)[0] > 0:
        return Linear((), 1)
    if not right.is_constant or right.constant <= 0:
        return Linear(((DimArith("/", to_dim(left), to_dim(right)), 1),), 0)
    by = right.constant
    whole, rest = _divide(left, by)
    if rest.is_constant:
        return Linear(whole.terms, whole.constant + rest.constant // by)
    match rest:
        case Linear(((DimArith("/", inner, int(first)), 1),), 0) if first > 0:
            # (H / 4) / 2 is H / 8, because both round down
            return _sum(whole, Linear(((DimArith("/", inner, first * by), 1),), 0), 1)
        case _:
            pass
    return _sum(whole, Linear(((DimArith("/", to_dim(rest), by), 1),), 0), 1)


def _remainder(left: Linear, right: Linear) -> Linear:
    if left == right and bounds(left)[0] > 0:
        return Linear((), 0)
    if not right.is_constant or right.constant <= 0:
        return Linear(((DimArith("%", to_dim(left), to_dim(right)), 1),), 0)
    _, rest = _divide(left, right.constant)
    if rest.is_constant:
        return Linear((), rest.constant % right.constant)
    return Linear(((DimArith("%", to_dim(rest), right.constant), 1),), 0)


def _divide(form: Linear, by: int) -> tuple[Linear, Linear]:
    """Split `form` into `whole * by + rest`, the rest holding what `by` does not divide."""
    whole = {atom: factor // by for atom, factor in form.terms if factor % by == 0}
    rest = {atom: factor for atom, factor in form.terms if factor % by}
    return _form(whole, form.constant // by), _form(rest, form.constant % by)
