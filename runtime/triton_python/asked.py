"""Requests that a model has been given, until each has had its last response."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...stdlib.op import Array
from ..context import Context
from ..request import Code, InSequence
from ..stage import StageError, StageGone

CODES: Final = {
    0: Code.INVALID,
    1: Code.FAILED,
    2: Code.NOT_FOUND,
    3: Code.INVALID,
    4: Code.UNAVAILABLE,
    5: Code.UNSUPPORTED,
    6: Code.INVALID,
    7: Code.CANCELLED,
}
"""What the kinds of a TritonError are here; unknown ones are statuses of 400 there too."""

Outputs = Mapping[str, tuple[str, Array]]
"""Types and values by name."""


class Responses:
    """What is answered to one request: some outputs, and in the end none or why there are none."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._found: deque[Outputs] = deque()
        self._over = False
        self._error: StageError | StageGone | None = None
        self._notify: Callable[[], object] | None = None

    def ready(self, notify: Callable[[], object]) -> bool:
        """Whether `take` would not wait; else `notify` is called when it would not."""
        with self._changed:
            if self._found or self._over:
                return True
            self._notify = notify
            return False

    def put(self, outputs: Outputs) -> None:
        """Take one response."""
        with self._changed:
            if self._over:
                return
            self._found.append(outputs)
            notify = self._tell()
        if notify is not None:
            notify()

    def end(self, error: StageError | StageGone | None = None) -> None:
        """Note that there is no other; the first reason counts."""
        with self._changed:
            if self._over:
                return
            self._over, self._error = True, error
            notify = self._tell()
        if notify is not None:
            notify()

    def _tell(self) -> Callable[[], object] | None:
        self._changed.notify_all()
        notify, self._notify = self._notify, None
        return notify

    def take(self, due: float | None = None) -> Outputs | None:
        """Return the next response, None after the last; raises why there is none."""
        with self._changed:
            while not self._found and not self._over:
                left = None if due is None else due - time.monotonic()
                if left is not None and left <= 0:
                    raise StageGone(Code.DEADLINE, "the deadline has passed")
                self._changed.wait(left)
            if self._found:
                return self._found.popleft()
            if self._error is not None:
                raise self._error
            return None

    @property
    def over(self) -> bool:
        """Whether nothing comes any more."""
        with self._changed:
            return self._over


@dataclass(slots=True, eq=False)
class Asked:
    """One request: the inputs of its rows, whose it is, and what is answered. `again` says that the
    model wants to be given it once more, `sequence` where it is one of its own."""

    context: Context
    inputs: list[tuple[str, str, Any]]  # Any: arrays
    number: int = 0
    responses: Responses = field(default_factory=Responses)
    again: bool = False
    sequence: InSequence | None = None


@dataclass(slots=True, eq=False)
class Run:
    """Requests that `execute` is called with; `done` when it has returned, for `error` where it has
    raised."""

    requests: list[Asked]
    done: threading.Event = field(default_factory=threading.Event)
    error: StageError | StageGone | None = None
