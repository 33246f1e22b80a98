"""The streams of one stage on one device: as many as it has had executions at one time.

Each execution has one to itself, so that those of different requests do not wait for each other;
given back, it serves the next one.
"""

from collections import deque
from threading import Lock

from .device import Device, Stream


class Streams:
    """Lends streams. With `only`, every execution shares that one, one at a time where it is to be
    `alone` in it: another waits until it is given back."""

    def __init__(self, device: Device, only: Stream | None = None, *, alone: bool = False) -> None:
        self._device, self._only = device, only
        self._alone = Lock() if alone else None
        self._idle: deque[Stream] = deque()

    def lend(self) -> Stream:
        """Return a stream that no other execution has; `give_back` follows."""
        if self._only is not None:
            if self._alone is not None:
                self._alone.acquire()
            return self._only
        try:
            return self._idle.pop()
        except IndexError:
            return self._device.stream()

    def give_back(self, stream: Stream) -> None:
        if self._only is None:
            self._idle.append(stream)
        elif self._alone is not None:
            self._alone.release()
