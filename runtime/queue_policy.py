"""How many may wait in a queue and for how long, by priority level.

A level with a policy of its own is bounded by that alone; the others share the queue's. A bound
counts requests, exactly, and not those that could be served at this moment.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..compiler.policies import Priorities, Queueing

LOWEST: Final = 64
"""The lowest level where none are declared: callers cannot make more of them."""


def level_of(given: int, priorities: Priorities | None) -> int:
    """Return the level of a request: 1 is the highest, 0 says nothing.

    What is not one of the declared levels is the default one, as Triton has it. Where none are
    declared the highest is the default, and from `LOWEST` on all are one.
    """
    if priorities is None:
        return min(max(given, 1), LOWEST)
    return given if 1 <= given <= priorities.levels else priorities.default


class Bound:
    """One policy, and how many wait under it."""

    __slots__ = ("_override", "_timeout", "delays", "size", "waiting")

    def __init__(self, queueing: Queueing | None) -> None:
        self.waiting = 0
        self.size = queueing.size if queueing is not None else None
        self.delays = queueing is not None and queueing.on_timeout == "delay"
        self._timeout = queueing.timeout if queueing is not None else None
        self._override = queueing is not None and queueing.override

    def timeout(self, limited: bool) -> float | None:
        """Return how long one may wait. `limited` says that its caller has set a limit himself,
        which stands in for the queue's where that may be overridden."""
        return None if limited and self._override else self._timeout


class QueuePolicy:
    """The bounds of a queue's levels."""

    __slots__ = ("_common", "_levels", "waiting")

    def __init__(self, queueing: Queueing | None) -> None:
        self.waiting = 0
        self._common = Bound(queueing)
        levels = queueing.levels if queueing is not None else ()
        self._levels: Mapping[int, Bound] = MappingProxyType(
            {level: Bound(own) for level, own in levels}
        )

    def bound(self, level: int) -> Bound:
        """Return what holds for a level."""
        return self._levels.get(level, self._common)

    def admits(self, level: int, idle: int) -> bool:
        """Whether one more may wait. The next `idle` to be served do not count: first those under
        other bounds, so that no bound is exceeded on account of them."""
        bound = self.bound(level)
        if bound.size is None or bound.waiting < bound.size:
            return True
        return bound.waiting < bound.size + max(0, idle - self.waiting + bound.waiting)

    def enter(self, level: int) -> None:
        """Note that one more waits."""
        self.waiting += 1
        self.bound(level).waiting += 1

    def leave(self, level: int) -> None:
        """Note that one waits no more."""
        self.waiting -= 1
        self.bound(level).waiting -= 1
