"""Waiting for the signals that end a server."""

import select
import signal
import socket
from types import FrameType
from typing import Final

ENDING: Final = (signal.SIGTERM, signal.SIGINT)


def until_told_to_stop(other: socket.socket | None = None) -> None:
    """Return when SIGTERM or SIGINT comes, or something from the `other`, with the handlers from
    before. For the main thread."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before = {number: signal.signal(number, ignore) for number in ENDING}
    # The byte comes even when the signal does before `poll`: a flag and a wait would race.
    known = signal.set_wakeup_fd(theirs.fileno())
    try:
        waiting = select.poll()
        for one in (ours, other):
            if one is not None:
                waiting.register(one, select.POLLIN)
        waiting.poll()
    finally:
        signal.set_wakeup_fd(known)
        for number, handler in before.items():
            signal.signal(number, handler)
        ours.close()
        theirs.close()


def ignore(_: int, __: FrameType | None) -> None:
    """Be a handler, so that Python writes the signal to the wake-up socket; unlike SIG_IGN it is
    none of the programs that this one starts."""
