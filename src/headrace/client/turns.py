"""Whose turn it is among the requests of one sequence: one is sent when that before it has ended.

A server would take them in the order in which they come; on the way they could overtake each other.
"""

import threading
from collections import deque
from collections.abc import Callable

from ..runtime.request import InSequence


class Life:
    """A sequence from a first request on; `over` when that has failed, or the last has ended."""

    def __init__(self) -> None:
        self.over = False


class Turn:
    """A place in the line; `point` is what the request tells the server of its sequence."""

    def __init__(self, line: "Line", point: InSequence, life: Life) -> None:
        self.point, self.life = point, life
        self._line = line
        self.calls: list[Callable[[], object]] = []

    def then(self, call: Callable[[], object]) -> None:
        """Call it when the turn has come, in whatever thread; at once if it has."""
        if self._line.has_come(self, call):
            call()

    def wait(self, seconds: float | None) -> bool:
        """Wait for the turn; whether it has come in time."""
        come = threading.Event()
        self.then(come.set)
        return come.wait(seconds)

    def end(self, *, failed: bool) -> None:
        """Let the next one go on; nothing happens the second time."""
        self._line.end(self, failed=failed)


class Line:
    """The requests of a sequence in the order in which they were made."""

    def __init__(self, id: int | str) -> None:
        self._id = id
        self._lock = threading.Lock()
        self._turns: deque[Turn] = deque()
        self._life: Life | None = None

    def take(self, *, last: bool = False) -> Turn:
        """Return the turn of a new request; the first of a life starts the sequence."""
        with self._lock:
            life = self._life
            point = InSequence(self._id, start=life is None, end=last)
            if life is None:
                life = self._life = Life()
            turn = Turn(self, point, life)
            self._turns.append(turn)
            return turn

    def restart(self) -> None:
        """Let the next request start the sequence anew."""
        with self._lock:
            self._life = None

    def has_come(self, turn: Turn, call: Callable[[], object]) -> bool:
        """Whether it is this one's turn; `call` is called when it is, if it is not now."""
        with self._lock:
            if self._turns and self._turns[0] is turn:
                return True
            turn.calls.append(call)
            return False

    def end(self, turn: Turn, *, failed: bool) -> None:
        """Take a turn out of the line."""
        going: list[Callable[[], object]] = []
        point, life = turn.point, turn.life
        with self._lock:
            if turn not in self._turns:
                return
            if (point.start and failed) or (point.end and not failed):
                life.over = True
                if self._life is life:
                    self._life = None
            first = self._turns[0] is turn
            self._turns.remove(turn)
            if first and self._turns:
                going = self._turns[0].calls
        for call in going:
            call()
