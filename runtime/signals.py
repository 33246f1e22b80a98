"""Waiting for the signals that end a server."""

import select
import signal
import socket
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final

ENDING: Final = (signal.SIGTERM, signal.SIGINT)


def ignore(_: int, __: FrameType | None) -> None:
    """Be a handler, so that Python writes the signal to the wake-up socket; unlike SIG_IGN it is
    none of the programs that this one starts."""


class Told:
    """Hears SIGTERM and SIGINT from when it is entered, so that what comes before `wait` counts
    too; the handlers from before are back after it. For the main thread."""

    def __init__(self, handler: Callable[[int, FrameType | None], object] = ignore) -> None:
        """`handler` is called with a signal beside."""
        self._handler, self._hears = handler, False

    def __enter__(self) -> "Told":
        self._ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)
        # The byte comes even when the signal does before `poll`: a flag and a wait would race.
        self._known = signal.set_wakeup_fd(self._theirs.fileno())
        self._before = {number: signal.signal(number, self._handler) for number in ENDING}
        self._hears = True
        return self

    def wait(self, other: socket.socket | None = None) -> None:
        """Return when one has come, or something from the `other`."""
        waiting = select.poll()
        for one in (self._ours, other):
            if one is not None:
                waiting.register(one, select.POLLIN)
        waiting.poll()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hear no more; may be called twice."""
        if not self._hears:
            return
        self._hears = False
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._known)
        self._ours.close()
        self._theirs.close()
