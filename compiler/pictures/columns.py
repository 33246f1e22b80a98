"""Breaks a long pipeline into columns, as a newspaper does, where little flows across the break.

Only the outermost steps of a pipeline are parted; what stands in a frame stays together.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from .scene import Card, Frame, Item, Wire

ROWS: Final = 20
"""Cards below each other after which a column may end; as many as fit on a large screen."""

NARROW: Final = 2
"""Cards from which values may flow across a break."""


def columns(frame: Frame, wires: Iterable[Wire]) -> Mapping[Card, int]:
    """Return the number of the column of each card of a pipeline."""
    owner = {card: index for index, item in enumerate(frame.items) for card in cards_of(item)}
    inside = [(owner[one.source], owner[one.target]) for one in wires if one.source in owner]
    heights = [height(item) for item in frame.items]
    column_of, first = [0] * len(frame.items), 0
    for index in range(len(frame.items)):
        column_of[index] = column_of[index - 1] if index else 0
        sources = {source for source, target in inside if source < index <= target}
        if (
            len(sources) <= NARROW
            and _depth(heights, inside, first, index) >= ROWS
            and _depth(heights, inside, index, len(heights)) >= ROWS // 2
        ):
            column_of[index] += 1
            first = index
    return {card: column_of[index] for card, index in owner.items()}


def _depth(heights: Sequence[int], flows: Sequence[tuple[int, int]], start: int, stop: int) -> int:
    """Return the rows that items `start` to `stop` (exclusive) need below each other."""
    ends = list(heights[start:stop])
    for source, target in sorted(flows, key=lambda flow: flow[1]):
        if start <= source < target < stop:
            below = ends[source - start] + heights[target]
            ends[target - start] = max(ends[target - start], below)
    return max(ends, default=0)


def height(item: Item) -> int:
    """Return about how many cards of an item stand below each other; arms stand side by side."""
    if isinstance(item, Card):
        return 1
    arms = [height(one) for one in item.items if isinstance(one, Frame)]
    return max(arms, default=0) + sum(isinstance(one, Card) for one in item.items)


def cards_of(item: Item) -> Iterable[Card]:
    """Yield the cards of an item, in order."""
    if isinstance(item, Card):
        yield item
    else:
        for one in item.items:
            yield from cards_of(one)
