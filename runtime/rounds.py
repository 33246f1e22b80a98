"""Requests that a thread reads in one go: workers are woken once for all of them.

With many requests in flight whoever reads finds several at a time. A worker that is woken for the
first takes that alone, and then the two take turns at the interpreter's lock with each request: it
costs twice the processor time and gives batches of two or three where thirty are about to wait. So
a thread that reads says how it is told that nothing more is there to be read, and workers are woken
when it looked once in vain, or when a round has lasted `LONGEST`. Only front ends read in rounds:
whoever submits himself may wait for what he has submitted.
"""

import threading
from collections.abc import Callable
from time import perf_counter
from typing import Final

LONGEST: Final = 2e-3
"""Seconds, in which some forty small requests are read; their answers are written after that."""


class Rounds(threading.local):
    """Those of each thread; one that attends to none wakes workers for each request."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self.attended = False
        self._later: Callable[[Callable[[], None]], object] | None = None
        self._owed: dict[Callable[[], None], None] = {}
        self._more = False
        self._until = 0.0

    def attend(self, later: Callable[[Callable[[], None]], object] | None = None) -> None:
        """Let this thread read in rounds. `later` calls what it is given once everything has been
        read that is there now, as an event loop's `call_soon` does; without it this thread calls
        `end` itself then."""
        self.attended, self._later = True, later

    def owe(self, wake: Callable[[], None]) -> None:
        """Let `wake` be called when the round of this thread, which attends to them, is over."""
        if not self._owed:
            self._until = self._clock() + LONGEST
            if self._later is not None:
                self._later(self._look)
        self._owed[wake], self._more = None, True
        if self._clock() >= self._until:
            self.end()

    def _look(self) -> None:
        """End the round if nothing has been read since the last look."""
        if not self._owed or self._later is None:
            return
        if self._more:
            self._more = False
            self._later(self._look)
        else:
            self.end()

    def end(self) -> None:
        """Wake all workers that are owed it."""
        owed, self._owed = self._owed, {}
        for wake in owed:
            wake()
