"""Offsets for buffers that live at different times: the best of four greedy orders.

Each order places one buffer after the other into the smallest gap among those that are alive at
the same time. No order wins everywhere; together they come within a few percent of the lower
bound, which is the most that is ever alive at once (ties are broken by position, so that equal
input gives equal output).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 256  # bytes; what GPUs ask of a tensor's start


@dataclass(frozen=True, slots=True)
class Buffer:
    """`size` bytes that are alive from step `first` to step `last`, both included."""

    name: str
    size: int
    first: int
    last: int

    @property
    def aligned(self) -> int:
        return -(-self.size // ALIGNMENT) * ALIGNMENT

    def meets(self, other: "Buffer") -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Arena:
    """`offsets` are in the order of the buffers; `order` names the greedy order that won."""

    offsets: tuple[int, ...]
    peak: int
    lower_bound: int
    order: str


def assign_offsets(buffers: Sequence[Buffer]) -> Arena:
    """Return offsets at which no two buffers that meet overlap."""
    bound = lower_bound(buffers)
    best: Arena | None = None
    for name, order in (
        ("size", _by_size(buffers)),
        ("breadth", _by_breadth(buffers)),
        ("conflicts", _by_conflicts(buffers)),
        ("execution", _by_execution(buffers)),
    ):
        offsets = _place(buffers, order)
        peak = max((at + b.aligned for at, b in zip(offsets, buffers, strict=True)), default=0)
        if best is None or peak < best.peak:
            best = Arena(offsets, peak, bound, name)
        if peak == bound:
            break
    assert best is not None
    return best


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Return the most bytes that are alive at once."""
    changes = sorted(
        change for b in buffers for change in ((b.first, b.aligned), (b.last + 0.5, -b.aligned))
    )
    alive = most = 0
    for _, change in changes:
        alive += change
        most = max(most, alive)
    return most


def _place(buffers: Sequence[Buffer], order: Sequence[int]) -> tuple[int, ...]:
    """Place one after the other. Arrays, because each is compared with all before it."""
    first, last = _lives([buffers[i] for i in order])
    starts, stops = np.zeros_like(first), np.zeros_like(first)
    offsets = [0] * len(buffers)
    for k, index in enumerate(order):
        one = buffers[index]
        meets = np.flatnonzero((first[:k] <= one.last) & (last[:k] >= one.first))
        taken = sorted(zip(starts[meets].tolist(), stops[meets].tolist(), strict=True))
        offsets[index] = _smallest_gap(taken, one.aligned)
        starts[k], stops[k] = offsets[index], offsets[index] + one.aligned
    return tuple(offsets)


def _lives(buffers: Sequence[Buffer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and the last step of each buffer."""
    first = np.array([b.first for b in buffers], np.int64)
    return first, np.array([b.last for b in buffers], np.int64)


def _smallest_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return the start of the tightest gap that holds `size`, else the end of what is taken."""
    end, best = 0, None
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, end)
        end = max(end, stop)
    return end if best is None else best[1]


def _by_size(buffers: Sequence[Buffer]) -> list[int]:
    return sorted(range(len(buffers)), key=lambda i: (-buffers[i].size, buffers[i].first, i))


def _by_execution(buffers: Sequence[Buffer]) -> list[int]:
    return sorted(range(len(buffers)), key=lambda i: (buffers[i].first, -buffers[i].size, i))


def _by_conflicts(buffers: Sequence[Buffer]) -> list[int]:
    """What meets most others first."""
    first, last = _lives(buffers)
    begun = np.searchsorted(np.sort(first), last, "right")
    count = (begun - np.searchsorted(np.sort(last), first, "left")).tolist()
    return sorted(range(len(buffers)), key=lambda i: (-count[i], -buffers[i].size, i))


def _by_breadth(buffers: Sequence[Buffer]) -> list[int]:
    """The step at which most is alive first, and of what is alive there the largest first."""
    first, last = _lives(buffers)
    size = np.array([b.size for b in buffers], np.int64)
    steps = np.unique(first)
    breadth = _sums_until(first, size, steps) - _sums_until(last + 1, size, steps)
    waiting = np.ones(len(buffers), np.bool_)
    order: list[int] = []
    for step in steps[np.lexsort((steps, -breadth))]:
        found = np.flatnonzero(waiting & (first <= step) & (last >= step))
        waiting[found] = False
        order += sorted(found.tolist(), key=lambda i: (-buffers[i].size, i))
    return order


def _sums_until(
    when: NDArray[np.int64], size: NDArray[np.int64], steps: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return for each step how many bytes have `when` no later than it."""
    sums = np.concatenate(([0], np.cumsum(size[np.argsort(when)])))
    return sums[np.searchsorted(np.sort(when), steps, "right")]
