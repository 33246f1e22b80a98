"""Answers to one request that come one after the other, and the handle by which a plan has them.

A model that answers any number of times is two stages: what begins gives a handle, and what follows
waits for the next answer. Who brings answers and who takes them are different threads.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ..dsl.types import DType, TensorType
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array
from .request import Code
from .rows import Rows
from .stage import StageError, StageGone

One = TypeVar("One")
Kind = TypeVar("Kind")


class Answers(Generic[One]):
    """Answers until they are taken, and in the end none, or why there are none."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._found: deque[One] = deque()
        self._over = False
        self._error: StageError | StageGone | None = None
        self._notify: Callable[[], object] | None = None

    @property
    def over(self) -> bool:
        """Whether no other comes."""
        return self._over

    def ready(self, notify: Callable[[], object]) -> bool:
        """Whether `take` would not wait; else `notify` is called when it would not."""
        with self._changed:
            if self._found or self._over:
                return True
            self._notify = notify
            return False

    def put(self, answer: One, room: int | None = None) -> bool:
        """Take in an answer, with `room` for so many when there is some; False when it is let go
        because all is over."""
        with self._changed:
            while room is not None and len(self._found) >= room and not self._over:
                self._changed.wait()
            if self._over:
                return False
            self._found.append(answer)
            notify = self._tell()
        if notify is not None:
            notify()
        return True

    def end(self, error: StageError | StageGone | None = None) -> bool:
        """Note that no other comes; False when it was so before: the first reason counts."""
        with self._changed:
            if self._over:
                return False
            self._over, self._error = True, error
            notify = self._tell()
        if notify is not None:
            notify()
        return True

    def take(self, due: float | None = None) -> One | None:
        """Return the next answer, None after the last; raises why there is none, StageGone when it
        is not there at `due`, on the monotonic clock."""
        with self._changed:
            while not self._found and not self._over:
                left = None if due is None else due - time.monotonic()
                if left is not None and left <= 0:
                    raise StageGone(Code.DEADLINE, "the deadline has passed")
                self._changed.wait(left)
            if self._found:
                self._changed.notify_all()  # who waits for room
                return self._found.popleft()
            if self._error is not None:
                raise self._error
            return None

    def _tell(self) -> Callable[[], object] | None:
        self._changed.notify_all()
        notify, self._notify = self._notify, None
        return notify


class Handle(np.ndarray[Any, Any]):
    """A number that stands for the answers to a request; they go with the last who has it."""

    answers: object


def handle_of(answers: object) -> Handle:
    """Return a handle of answers, an i64 of no axes."""
    handle = np.array(0, np.int64).view(Handle)
    handle.answers = answers
    return handle


def answers_of(columns: Sequence[Rows], kind: type[Kind], part: str) -> Kind:
    """Return what the handle in the first of some columns stands for; raises StageError where it
    was not made by the `part` of such a model."""
    handle = columns[0].item(0)
    if not isinstance(handle, Handle) or not isinstance(handle.answers, kind):
        raise StageError(f"what it is given was not made by the `{part}` of its model")
    return handle.answers


def blank(kind: TensorType) -> Array:
    """Return what stands for an output where there is no answer: zeros, of the least sizes."""
    shape = tuple(dim if isinstance(dim, int) else 0 for dim in kind.dims)
    if kind.dtype in (DType.STRING, DType.BYTES):
        return np.full(shape, "" if kind.dtype is DType.STRING else b"", object)
    return np.zeros(shape, to_numpy(kind.dtype))
