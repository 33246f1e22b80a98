"""Whether somebody waits for ever: runs that hold units of resources, and wait themselves.

A run that asks for another request waits for it, and that may wait for units. It ends when none of
those that it waits for is held up. What can end is let end, in thought, until nothing more can:
what is held up then stays so.
"""

from collections.abc import Hashable, Mapping, Sequence, Set
from typing import TypeVar

Run = TypeVar("Run", bound=Hashable)
Claim = TypeVar("Claim", bound=Hashable)


def standing_still(
    free: Mapping[str, int],
    runs: Mapping[Run, Sequence[tuple[str, int]]],
    claims: Mapping[Claim, tuple[Sequence[tuple[str, int]], Set[Run]]],
) -> set[Claim]:
    """Return the claims that can never be had: of each what it needs, and which of the `runs`, of
    each what it holds, wait for it."""
    left, at_work, there = dict(claims), dict(runs), dict(free)
    while True:
        for claim, (needs, _) in list(left.items()):
            if all(there.get(name, 0) >= units for name, units in needs):
                del left[claim]
        held_up = set[Run]().union(*(waiting for _, waiting in left.values()))
        ending = [run for run in at_work if run not in held_up]
        if not ending:
            return set(left)
        for run in ending:
            for name, units in at_work.pop(run):
                there[name] = there.get(name, 0) + units
