"""Lanes of a pipeline, which do the same on different devices: a request takes one of them."""

import threading
from collections.abc import Sequence

from .flow import Block, Group, Walk
from .rows import Rows


class Spread:
    """Runs one of `blocks`: that with the fewest requests under way for its share, the first in
    turn of those that are equal."""

    __slots__ = ("_blocks", "_lock", "_outputs", "_shares", "_turn", "_under_way")

    def __init__(
        self, blocks: tuple[Block, ...], shares: Sequence[int], outputs: tuple[int, ...]
    ) -> None:
        self._blocks, self._shares, self._outputs = blocks, shares, outputs
        self._under_way = [0] * len(blocks)
        self._turn = 0
        self._lock = threading.Lock()

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        lane = self._take()
        try:
            results = yield from self._blocks[lane].run((), slots, group, None)
        finally:
            with self._lock:
                self._under_way[lane] -= 1
        for slot, column in zip(self._outputs, results, strict=True):
            slots[slot] = column

    def _take(self) -> int:
        with self._lock:
            count = len(self._blocks)
            order = [(self._turn + number) % count for number in range(count)]
            lane = min(order, key=lambda one: (self._under_way[one] + 1) / self._shares[one])
            self._under_way[lane] += 1
            self._turn = (lane + 1) % count
            return lane
