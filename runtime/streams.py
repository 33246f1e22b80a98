"""What a stream emits, on its way to the caller: all of it together, or one by one.

A stream that is read one by one has room for a few responses that nobody has read yet. When that
is full the request is parked, which costs no thread, and goes on when half of it has been read.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from ..stdlib.op import Item
from .request import Code, Fault, RequestError
from .task import Task

Result = TypeVar("Result")

ROOM: Final = 16
"""Responses of one stream that may wait for their reader, of whatever size."""

MANY: Final = 128
SMALL: Final = 1 << 16
"""So many may wait while they are encoded and have fewer bytes than that together: each time that a
stream is parked and goes on takes two threads a turn, as much as several small responses do."""


def gathered(names: Sequence[str], emitted: Sequence[dict[str, Item]]) -> dict[str, Item]:
    """Return what a stream has emitted as a list for each result, in the order sent."""
    return {name: [one[name] for one in emitted] for name in names}


class Stream(Generic[Result]):
    """The receiver of a stream's responses: `emit`, `give` and `fail` are the engine's side.

    `notify` is called, by whatever thread, when there is something to take again after all was
    taken, and when it is over; it must not block.
    """

    def __init__(
        self,
        make: Callable[[dict[str, Item]], Result],
        notify: Callable[[], object],
        drop: Callable[[Task], object],
        resume: Callable[[Task], None],
    ) -> None:
        self._make, self._notify, self._drop, self._resume = make, notify, drop, resume
        self._lock = threading.Lock()
        self._waiting: deque[Result] = deque()
        self._parked = self._over = False
        self._waits = True
        self._size = 0
        self._fault: Fault | None = None
        self.task: Task | None = None

    def emit(self, outputs: dict[str, Item]) -> bool:
        """Take one response; False when the request must wait until `resume` is called."""
        made = self._make(outputs)
        with self._lock:
            if self._over:
                return True  # cancelled: the engine learns of it before its next work
            self._waiting.append(made)
            self._size += len(made) if isinstance(made, bytes) else SMALL
            full = len(self._waiting) >= (ROOM if self._size >= SMALL else MANY)
            self._parked = full and self._waits
            if len(self._waiting) == 1:  # else its reader was told, and has not come yet
                self._notify()
        if full and not self._parked:
            raise unread()
        return not full

    def wait_no_more(self) -> bool:
        """Let it not wait for its reader from now on; return whether it does."""
        with self._lock:
            self._waits = False
            return self._parked

    def take_back(self) -> None:
        """Nothing to tell: it was its reader who has left."""

    def give(self, outputs: dict[str, Item]) -> None:
        """Note that there will be no more; a stream has no results but those it has emitted."""
        del outputs
        self._end(None)

    def fail(self, fault: Fault) -> None:
        """Note that the request has failed; what it has emitted can still be taken."""
        self._end(fault)

    def take(self) -> list[Result]:
        """Return the responses that wait, which makes room for more."""
        with self._lock:
            taken = list(self._waiting)
            self._waiting.clear()
            self._size = 0
            parked, self._parked = self._parked, False
        if parked and self.task is not None:
            self._resume(self.task)
        return taken

    @property
    def over(self) -> bool:
        """Whether there is nothing more to take, now and later; raises the request's fault."""
        with self._lock:
            if self._waiting or not self._over:
                return False
            if self._fault is not None:
                raise self._fault
            return True

    def cancel(self) -> None:
        """Drop what is left of the request, if it is not over; `notify` is not called any more."""
        task = self.task
        with self._lock:
            if self._over:
                return
            self._over = True
            self._waiting.clear()
        if task is not None:
            self._drop(task)

    def _end(self, fault: Fault | None) -> None:
        with self._lock:
            if not self._over:
                self._over, self._fault = True, fault
                self._notify()


def unread() -> Fault:
    """Return the fault of a stream whose reader is waited for no more."""
    return Fault(Code.UNAVAILABLE, "the engine was closed before the stream was read to its end")


def require_stream(name: str, stream: bool) -> None:
    """Raise RequestError when a pipeline that is none is to be read as a stream."""
    if not stream:
        raise RequestError(f"`{name}` is no stream: it answers once", pipeline=name)
