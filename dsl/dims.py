"""Dimensions: equality of named dimensions, by unification over the whole pipeline.

Three kinds of variable: *rigid* ones belong to a signature being defined (a pipeline's own `N`
and `M` may differ, so treating them as equal is a mistake); *flexible* ones come from
instantiating a callee's signature and take whatever value the arguments give; *fresh* ones
appear in results and are known only when the stage has run (equating them is allowed and
becomes a check at run time).

A fresh variable is never bound: what one arm of an `if` assumes of it need not hold in the other.
Linear equations in one flexible variable are solved (`2 * T + 1 == 7`); `H / 4` is equal to
`H / 4` and to nothing else that is known. A variable made by no `Dims` counts as rigid.
"""

from dataclasses import dataclass
from enum import Enum

from .linear import Linear, bounds, can_be_zero, linear, subtract, to_dim, variables
from .types import ANY_DIM, Dim, DimAny, DimVar


class _Kind(Enum):
    RIGID = "rigid"
    FLEXIBLE = "flexible"
    FRESH = "fresh"


@dataclass(frozen=True, slots=True)
class Assumption:
    """`left == right` could be neither proved nor refuted; it is checked when the stage runs."""

    left: Dim
    right: Dim


class Dims:
    """The dimension variables of one pipeline and what is known of them."""

    def __init__(self) -> None:
        self._kinds: dict[DimVar, _Kind] = {}
        self._values: dict[DimVar, Dim] = {}
        self._assumptions: list[Assumption] = []

    def rigid(self, name: str) -> DimVar:
        """Make a variable that stands for one unknown but fixed size."""
        return self._make(name, _Kind.RIGID)

    def flexible(self, name: str) -> DimVar:
        """Make a variable that unification may bind."""
        return self._make(name, _Kind.FLEXIBLE)

    def fresh(self, name: str) -> DimVar:
        """Make a variable whose value is known only at run time."""
        return self._make(name, _Kind.FRESH)

    def unify(self, left: Dim, right: Dim) -> bool:
        """Make two dimensions equal; False when they cannot be (3 and 4, rigid N and rigid M)."""
        one, other = self._linear(left), self._linear(right)
        if one is None or other is None or one == other:
            return True
        difference = subtract(one, other)
        if difference.is_constant:
            return False
        if not can_be_zero(difference):
            return False
        if self._solve(difference):
            return True
        kinds = {self._kind(variable) for variable in variables(to_dim(difference))}
        if kinds == {_Kind.RIGID}:
            return False
        if one.is_constant:
            one, other = other, one
        self._assumptions.append(Assumption(to_dim(one), to_dim(other)))
        return True

    def broadcast(self, left: Dim, right: Dim) -> Dim | None:
        """Return the dimension NumPy broadcasting gives, None when it cannot.

        A size known only at run time may be 1 there, so it is left to run time.
        """
        left, right = self.resolve(left), self.resolve(right)
        if left == 1 or isinstance(right, DimAny):
            return right
        if right == 1 or left == right or isinstance(left, DimAny):
            return left
        if isinstance(left, int) and isinstance(right, int):
            return None
        if self._has(left, _Kind.FLEXIBLE) or self._has(right, _Kind.FLEXIBLE):
            return self.resolve(left) if self.unify(left, right) else None
        if not (self._has(left, _Kind.FRESH) or self._has(right, _Kind.FRESH)):
            return None
        if isinstance(left, int) or isinstance(right, int):
            return left if isinstance(left, int) else right
        return self.fresh("_")

    def join(self, left: Dim, right: Dim) -> Dim | None:
        """Return a dimension that stands for either (two arms of an `if`), None for 3 and 4.

        Sizes of which one is known only at run time give a new one that is too. So does 0: one
        arm may give nothing.
        """
        left, right = self.resolve(left), self.resolve(right)
        if left == right:
            return left
        if isinstance(left, DimAny) or isinstance(right, DimAny):
            return self.fresh("_")
        if 0 in (left, right) or self._has(left, _Kind.FRESH) or self._has(right, _Kind.FRESH):
            name = left.name if isinstance(left, DimVar) else "_"
            return self.fresh(name)
        return self.resolve(left) if self.unify(left, right) else None

    def resolve(self, dim: Dim) -> Dim:
        """Return the simplified dimension with everything that is known put in."""
        if isinstance(dim, int):
            return dim
        form = self._linear(dim)
        return ANY_DIM if form is None else to_dim(form)

    def settle(self, dim: Dim) -> Dim:
        """Resolve `dim`; what no argument has determined becomes known at run time only."""
        resolved = self.resolve(dim)
        if isinstance(resolved, DimAny):
            return self.fresh("_")
        free = [v for v in variables(resolved) if self._kind(v) is _Kind.FLEXIBLE]
        for variable in free:
            self._values[variable] = self.fresh(variable.name)
        return self.resolve(resolved) if free else resolved

    def holds(self, left: Dim, op: str, right: Dim) -> bool | None:
        """Prove (True) or refute (False) a comparison for all sizes; None when neither is known."""
        one, other = self._linear(left), self._linear(right)
        if one is None or other is None:
            return None
        low, high = bounds(subtract(one, other))
        match op:
            case "==":
                return True if low == high == 0 else (False if low > 0 or high < 0 else None)
            case "!=":
                return False if low == high == 0 else (True if low > 0 or high < 0 else None)
            case "<":
                return True if high < 0 else (False if low >= 0 else None)
            case "<=":
                return True if high <= 0 else (False if low > 0 else None)
            case ">":
                return True if low > 0 else (False if high <= 0 else None)
            case ">=":
                return True if low >= 0 else (False if high < 0 else None)
            case _:
                raise ValueError(f"`{op}` does not compare dimensions")

    @property
    def mark(self) -> int:
        """A point in time: variables made from now on are new to it."""
        return len(self._kinds)

    def is_new(self, dim: Dim, mark: int) -> bool:
        """Tell whether a dimension mentions a variable made after `mark`."""
        return any(variable.uid > mark for variable in variables(self.resolve(dim)))

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What was let through and must be checked at run time."""
        return tuple(self._assumptions)

    def take_assumptions(self) -> tuple[Assumption, ...]:
        """Return the assumptions made since the last call of this, and forget them."""
        taken = tuple(dict.fromkeys(self._assumptions))
        self._assumptions.clear()
        return taken

    def _make(self, name: str, kind: _Kind) -> DimVar:
        variable = DimVar(name, len(self._kinds) + 1)
        self._kinds[variable] = kind
        return variable

    def _kind(self, variable: DimVar) -> _Kind:
        return self._kinds.get(variable, _Kind.RIGID)

    def _has(self, dim: Dim, kind: _Kind) -> bool:
        return any(self._kind(variable) is kind for variable in variables(dim))

    def _value(self, variable: DimVar) -> Dim:
        return self._values.get(variable, variable)

    def _linear(self, dim: Dim) -> Linear | None:
        return linear(dim, self._value)

    def _solve(self, difference: Linear) -> bool:
        """Bind one flexible variable so that `difference` is zero, if that is possible."""
        for variable, factor in sorted(difference.terms, key=lambda term: abs(term[1])):
            if not isinstance(variable, DimVar) or self._kind(variable) is not _Kind.FLEXIBLE:
                continue
            rest = tuple(term for term in difference.terms if term[0] != variable)
            if any(variable in variables(atom) for atom, _ in rest):
                continue
            if difference.constant % factor or any(by % factor for _, by in rest):
                continue
            value = Linear(
                tuple((atom, by // -factor) for atom, by in rest), difference.constant // -factor
            )
            if bounds(value)[1] < 0:
                return False
            self._values[variable] = to_dim(value)
            return True
        return False
