"""Named resources, of which there are so many units, and stages that need some to run.

They go round in the order in which batches became ready, by priority. What cannot have its units
yet keeps them for itself: nobody behind it takes of a resource that it names, or it might wait for
ever while smaller ones come and go. Resources that it does not name are free to others.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

Needs: TypeAlias = Sequence[tuple[str, int]]


def totals(declared: Iterable[tuple[str, int]], needs: Iterable[Needs]) -> dict[str, int]:
    """Return how many units there are: as declared, else the most that one stage takes."""
    found: dict[str, int] = {}
    for stage in needs:
        for name, units in stage:
            found[name] = max(found.get(name, 0), units)
    return found | {name: units for name, units in declared if name in found}


class Units:
    """The units that are free."""

    __slots__ = ("_free", "_total")

    def __init__(self, totals: Mapping[str, int]) -> None:
        self._free = dict(totals)
        self._total = sum(totals.values())

    @property
    def taken(self) -> int:
        """How many units are not free."""
        return self._total - sum(self._free.values())

    def fit(self, needs: Needs) -> bool:
        """Whether there are so many."""
        return all(self._free[name] >= units for name, units in needs)

    def take(self, needs: Needs) -> None:
        for name, units in needs:
            self._free[name] -= units

    def give(self, needs: Needs) -> None:
        for name, units in needs:
            self._free[name] += units


class Turn:
    """One look along those that are ready, the most urgent first, for who may run."""

    __slots__ = ("_kept", "_units")

    def __init__(self, units: Units) -> None:
        self._units = units
        self._kept: set[str] = set()

    def comes(self, needs: Needs) -> bool:
        """Whether the next one may run; if not it keeps what it names from those behind it."""
        if not any(name in self._kept for name, _ in needs) and self._units.fit(needs):
            return True
        self._kept.update(name for name, _ in needs)
        return False
