"""Looking for an answer for a moment before sleeping until it comes.

To wake a thread of another process takes as long as a small call, half of which whoever wakes it
pays. So who has been answered at once looks again and again for as long as that would take; who has
waited long the last time sleeps at once, and so does who sees that others want its core.
"""

import os
import select
import socket
from time import perf_counter
from typing import Final

_MOMENT: Final = 150e-6
"""Seconds in which a small call is answered by who has to be woken."""

_AWAY: Final = 10e-6
"""Who gives its core away has it back sooner than that where nobody wants it."""

_SLEEPS: Final = 500
"""So many times it sleeps at once when others wanted its core."""


class Haste:
    """Of one end of a socket, whose thread calls `look` before and `found` after each wait."""

    def __init__(self, end: socket.socket) -> None:
        self._ready = select.poll()
        self._ready.register(end, select.POLLIN)
        self._sleeps = 0
        self._soon, self._began = False, 0.0

    def look(self) -> None:
        """Return when there is something, or it had better be waited for."""
        now = self._began = perf_counter()
        if not self._soon:
            return
        if self._sleeps:
            self._sleeps -= 1
            return
        until = now + _MOMENT
        while now < until and not self._ready.poll(0):
            before = perf_counter()
            os.sched_yield()
            now = perf_counter()
            if now - before > _AWAY:
                self._sleeps = _SLEEPS
                return

    def found(self) -> None:
        """Note that there is something."""
        self._soon = perf_counter() - self._began < _MOMENT
