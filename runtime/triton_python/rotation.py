"""Requests that a decoupled model schedules anew, and that meet in each of its executions.

They go round: the oldest of one form that a batch has room for run, and those that the model wants
again go first the next time; what comes meanwhile joins where there is room.
"""

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence

from ..pump import Pump
from .asked import Asked


class Rotation:
    """Those of one stage. `execute` runs some in `thread` and returns which of them run again; of
    the rows of a batch there are `most`, where requests have such (None: each runs alone)."""

    def __init__(
        self,
        thread: Pump,
        most: int | None,
        execute: Callable[[Sequence[Asked]], Sequence[Asked]],
    ) -> None:
        self._thread, self._most, self._execute = thread, most, execute
        self._lock = threading.Lock()
        self._waiting: deque[Asked] = deque()
        self._turns = False

    def add(self, one: Asked) -> None:
        """Let a request run, until it is not to run again."""
        with self._lock:
            self._waiting.append(one)
            begins, self._turns = not self._turns, True
        if begins:
            self._thread.do(self._turn)

    def _turn(self) -> None:
        while batch := self._next():
            again = self._execute(batch)
            with self._lock:
                self._waiting.extendleft(reversed(again))
            del batch, again  # while it waits it holds on to no one's values

    def _next(self) -> list[Asked]:
        """Take the oldest and those that can run with it; none when nobody waits."""
        with self._lock:
            if not self._waiting:
                self._turns = False
                return []
            taken = [self._waiting.popleft()]
            if self._most is None:
                return taken
            form, room = _form(taken[0]), self._most - _rows(taken[0])
            others: deque[Asked] = deque()
            for one in self._waiting:
                if _form(one) == form and _rows(one) <= room:
                    taken.append(one)
                    room -= _rows(one)
                else:
                    others.append(one)
            self._waiting = others
            return taken


def _form(one: Asked) -> Hashable:
    """Return what requests that run together have in common."""
    return tuple((name, kind, array.shape[1:]) for name, kind, array in one.inputs)


def _rows(one: Asked) -> int:
    return one.inputs[0][2].shape[0] if one.inputs else 1
