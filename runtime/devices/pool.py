"""Memory that values have had and others get next, so that what runs steadily allocates nothing.

A block goes back with the last event of each stream that used it. Who gets it lets its own stream
wait for these; the host waits for none. Sizes are rounded up by at most an eighth, and a block goes
to a value of at least half its size, so that values of slightly different size share blocks.
"""

import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from .device import Buffer, Device, DeviceError, OutOfMemory, Uses
from .ledger import Books

ALIGNMENT: Final = 256
_STEPS: Final = 8
"""Sizes of blocks from one power of two to the next."""


@dataclass(frozen=True, slots=True, order=True)
class Block:
    """Bytes of a device; sorted by size."""

    nbytes: int
    offset: int
    uses: Uses = field(default_factory=Uses, compare=False)


class Pool:
    """The blocks of one device. `take` gets memory from it (None: there is no more), `give` returns
    it; `idle` hears of each block that no value has any more."""

    def __init__(
        self,
        device: Device,
        books: Books,
        take: Callable[[int], int | None],
        give: Callable[[int, int], None],
        free: Callable[[], int],
        idle: Callable[[Block], None],
    ) -> None:
        self._device, self._books = device, books
        self._take, self._give, self._free, self._told = take, give, free, idle
        # Values are dropped at any moment, also while this lock is held: they are only noted, but
        # for when nothing is leased any more.
        self._lock = threading.RLock()
        self._idle: list[Block] = []  # sorted
        self._back: deque[tuple[Block, str, int]] = deque()
        self._closed = False

    def lease(self, nbytes: int, stage: str) -> tuple[Buffer, Uses]:
        """Return memory, and what its first use is to wait for; raises OutOfMemory."""
        size = rounded(nbytes)
        with self._lock:
            self._collect()
            at = bisect_left(self._idle, Block(size, -1))
            fits = at < len(self._idle) and self._idle[at].nbytes <= 2 * size
            block = self._idle.pop(at) if fits else self._allocated(size, nbytes, stage)
        live = -(-nbytes // ALIGNMENT) * ALIGNMENT
        self._books.count(stage, taken=1, live_bytes=live)
        back = partial(self._note, block, stage, live)
        return Buffer(self._device, block.offset, nbytes, stage, back), block.uses

    def collect(self) -> None:
        """Take back what values have dropped so far."""
        with self._lock:
            self._collect()

    def trim(self) -> None:
        """Give the device back what no value has."""
        with self._lock:
            self._collect()
            self._trim()

    def close(self) -> None:
        """Give the device back what no value has, and the rest as values are dropped."""
        self._closed = True
        self.trim()

    def _note(self, block: Block, stage: str, live: int, uses: Uses) -> None:
        self._back.append((Block(block.nbytes, block.offset, uses), stage, live))
        if self._closed:
            self.trim()

    def _collect(self) -> None:
        while self._back:
            block, stage, live = self._back.popleft()
            self._told(block)
            insort(self._idle, block)
            self._books.count(stage, returned=1, live_bytes=-live)

    def _allocated(self, size: int, nbytes: int, stage: str) -> Block:
        offset = self._take(size)
        if offset is None:
            self._trim()
            offset = self._take(size)
        if offset is None:
            raise OutOfMemory(self._device.name, stage, nbytes, self._free())
        self._books.count(stage, allocations=1, held_bytes=size)
        return Block(size, offset)

    def _trim(self) -> None:
        while self._idle:
            block = self._idle.pop()
            for event in block.uses.values():
                with suppress(DeviceError):  # whoever asked for what failed there is told
                    event.synchronize()
            self._give(block.offset, block.nbytes)
            self._books.count("the pool", releases=1, held_bytes=-block.nbytes)


def rounded(nbytes: int) -> int:
    """Return the size of the block that a value of so many bytes gets."""
    step = max(ALIGNMENT, 1 << max(0, (nbytes - 1).bit_length() - _STEPS.bit_length()))
    return max(1, -(-nbytes // step)) * step
