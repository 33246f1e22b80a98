"""Offsets for buffers that live at different times: the best of four greedy orders.

Each order places one buffer after the other into the smallest gap among those that are alive at
the same time. No order wins everywhere; together they come within a few percent of the lower
bound, which is the most that is ever alive at once (ties are broken by position, so that equal
input gives equal output).
"""

from collections.abc import Sequence
from dataclasses import dataclass

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
    offsets: dict[int, int] = {}
    for index in order:
        taken = sorted(
            (offsets[other], offsets[other] + buffers[other].aligned)
            for other in offsets
            if buffers[other].meets(buffers[index])
        )
        offsets[index] = _smallest_gap(taken, buffers[index].aligned)
    return tuple(offsets[index] for index in range(len(buffers)))


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
    count = [sum(b.meets(other) for other in buffers) for b in buffers]
    return sorted(range(len(buffers)), key=lambda i: (-count[i], -buffers[i].size, i))


def _by_breadth(buffers: Sequence[Buffer]) -> list[int]:
    """The step at which most is alive first, and of what is alive there the largest first."""
    steps = sorted({b.first for b in buffers})
    alive = {
        step: [i for i, b in enumerate(buffers) if b.first <= step <= b.last] for step in steps
    }
    breadth = {step: sum(buffers[i].size for i in alive[step]) for step in steps}
    order: dict[int, None] = {}
    for step in sorted(steps, key=lambda step: (-breadth[step], step)):
        order.update(dict.fromkeys(sorted(alive[step], key=lambda i: (-buffers[i].size, i))))
    return list(order)
