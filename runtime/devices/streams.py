"""The streams of one stage on one device: as many as it has had executions at one time.

Each execution has one to itself, so that those of different requests do not wait for each other;
given back, it serves the next one.
"""

from collections import deque

from .device import Device, Stream


class Streams:
    """Lends streams. With `only`, every execution shares that one."""

    def __init__(self, device: Device, only: Stream | None = None) -> None:
        self._device, self._only = device, only
        self._idle: deque[Stream] = deque()

    def lend(self) -> Stream:
        """Return a stream that no other execution has; `give_back` follows."""
        if self._only is not None:
            return self._only
        try:
            return self._idle.pop()
        except IndexError:
            return self._device.stream()

    def give_back(self, stream: Stream) -> None:
        if self._only is None:
            self._idle.append(stream)
