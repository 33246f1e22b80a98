"""Dimensions: equality of named dimensions, by unification over the whole pipeline.

Three kinds of variable: *rigid* ones belong to a signature being defined (a pipeline's own `N`
and `M` may differ, so treating them as equal is a mistake); *flexible* ones come from
instantiating a callee's signature and take whatever value the arguments give; *fresh* ones
appear in results and are known only when the stage has run (equating them is allowed and
becomes a check at run time).
"""

from dataclasses import dataclass

from .types import Dim, DimVar


@dataclass(frozen=True, slots=True)
class Assumption:
    """`left == right` could be neither proved nor refuted; it is checked when the stage runs."""

    left: Dim
    right: Dim


class Dims:
    """The dimension variables of one pipeline and what is known of them."""

    def rigid(self, name: str) -> DimVar:
        """Make a variable that stands for one unknown but fixed size."""
        raise NotImplementedError

    def flexible(self, name: str) -> DimVar:
        """Make a variable that unification may bind."""
        raise NotImplementedError

    def fresh(self, name: str) -> DimVar:
        """Make a variable whose value is known only at run time."""
        raise NotImplementedError

    def unify(self, left: Dim, right: Dim) -> bool:
        """Make two dimensions equal; False when they cannot be (3 and 4, rigid N and rigid M)."""
        raise NotImplementedError

    def broadcast(self, left: Dim, right: Dim) -> Dim | None:
        """Return the dimension NumPy broadcasting gives, None when it cannot."""
        raise NotImplementedError

    def resolve(self, dim: Dim) -> Dim:
        """Return the simplified dimension with everything that is known put in."""
        raise NotImplementedError

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What was let through and must be checked at run time."""
        raise NotImplementedError
