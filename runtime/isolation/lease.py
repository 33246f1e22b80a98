"""A pool that several engines ask: each has a lease of it, which ends what it has asked for itself.

An ensemble and a model that is also asked directly have the same workers, and so have two versions
of a plan while one takes the place of the other.
"""

import threading
import time
from typing import Protocol

from ..request import Code
from ..stage import StageGone
from .pool import GRACE, Holder


class Leased(Protocol):
    """A pool, of workers or of what runs in this process."""

    @property
    def rehearses(self) -> bool: ...

    @rehearses.setter
    def rehearses(self, rehearses: bool) -> None: ...

    @property
    def is_up(self) -> bool: ...

    def call(self, holder: Holder | None, *arguments: object) -> object: ...

    def wake(self) -> None: ...

    def kill(self, holder: Holder) -> None: ...


class Lease:
    """Calling it calls the function of the pool. `close` ends these calls, and no worker that is at
    another's."""

    def __init__(self, pool: Leased, *, first: bool = True) -> None:
        """What is called while it `rehearses` is gone through with workers that are started later,
        unless it is not the `first` of the pool's, which has done that."""
        self._pool, self._first = pool, first
        self._lock = threading.Lock()  # entered as such, which no function of Python's does
        self._changed = threading.Condition(self._lock)
        self._calls = 0
        self.closing = False

    def __call__(self, *arguments: object) -> object:
        with self._lock:
            if self.closing:
                raise StageGone(Code.UNAVAILABLE, "the engine was closed")
            self._calls += 1
        try:
            return self._pool.call(self, *arguments)
        finally:
            with self._lock:
                self._calls -= 1
                if self.closing:
                    self._changed.notify_all()

    @property
    def rehearses(self) -> bool:
        return self._first and self._pool.rehearses

    @rehearses.setter
    def rehearses(self, rehearses: bool) -> None:
        if self._first:
            self._pool.rehearses = rehearses

    @property
    def is_up(self) -> bool:
        return self._pool.is_up

    def close(self, grace: float = GRACE) -> None:
        """End what was asked here, after `grace` seconds whatever it does."""
        with self._changed:
            self.closing = True
        self._pool.wake()
        end = time.monotonic() + grace
        with self._changed:
            over = self._changed.wait_for(lambda: not self._calls, max(0.0, end - time.monotonic()))
        if not over:
            self._pool.kill(self)
            with self._changed:
                self._changed.wait_for(lambda: not self._calls)
