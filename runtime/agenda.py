"""What comes first of many things that come and go: a heap from which nothing is searched out.

What is not live any more stays where it is until it would come first, or until half of all is such:
then the live are kept and the rest forgotten. So adding, taking and giving up cost the same however
many wait, and nothing that was given up is held for long.
"""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Any, Generic, TypeVar

Key = TypeVar("Key", bound=Any)  # Any: whatever can be compared
Item = TypeVar("Item")

_FEW = 64


class Agenda(Generic[Key, Item]):
    """Things by key, the least first; of equal keys what was added first. `live` says whether what
    was added under a key still counts."""

    __slots__ = ("_heap", "_limit", "_live", "_numbers")

    def __init__(self, live: Callable[[Key, Item], bool]) -> None:
        self._live = live
        self._heap: list[tuple[Key, int, Item]] = []
        self._numbers = count()
        self._limit = _FEW

    def __len__(self) -> int:
        """How many are held, live or not."""
        return len(self._heap)

    def add(self, key: Key, item: Item) -> None:
        heapq.heappush(self._heap, (key, next(self._numbers), item))
        if len(self._heap) > self._limit:
            live = self._live
            self._heap = [one for one in self._heap if live(one[0], one[2])]
            heapq.heapify(self._heap)
            self._limit = max(_FEW, 2 * len(self._heap))

    def first(self) -> tuple[Key, Item] | None:
        """Return what comes first; None when there is nothing."""
        heap, live = self._heap, self._live
        while heap:
            key, _, item = heap[0]
            if live(key, item):
                return key, item
            heapq.heappop(heap)
        return None

    def pop(self) -> None:
        """Take out what `first` has returned."""
        heapq.heappop(self._heap)
