"""Sizes of batches that go into each other: what leaves one stage together meets at the next.

Rows that ran as a batch of 16 come to the next stage at once. Where that takes 12 they fall apart
into 12 and 4, and 4 rows pay for a run that 12 could have had. So the sizes of neighbours divide
one another. Those of a schedule hold as they are. Of the measured ones the stage whose rows take
longest chooses first; each other takes, of the sizes up to its own best that go with those chosen
before, the one that gains most. Where none pays for a queue it keeps its own.

Neighbours are queues between which rows flow: in one region, one's result reaches the other through
nothing that parts rows or waits for more of them, which a `for`, an `if` and another queue do.
Arms that run at once are for the same rows.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from .graph import Graph, Node, Region, Together, Value
from .profile import ModelTimes

Came: TypeAlias = dict[Value, dict[Node, None]]


@dataclass(frozen=True, slots=True)
class Agreed:
    """The most rows of a batch; `by` are the neighbours for whose sake it is not the best alone,
    `against` those whose size it does not go with."""

    rows: int
    by: tuple[Node, ...] = ()
    against: tuple[Node, ...] = ()


def agree_sizes(
    graph: Graph,
    measured: Mapping[Node, ModelTimes],
    given: Mapping[Node, int],
    pays: Callable[[float, float], bool],
) -> dict[Node, Agreed]:
    """Return the sizes of the measured queues; `given` are those that a schedule gives. `pays` says
    whether a queue does for a row that takes so many seconds alone, and so many in a batch."""
    chosen = dict(given)
    agreed: dict[Node, Agreed] = {}
    neighbours = rows_flow(graph, measured.keys() | given.keys())
    for node in sorted(measured, key=lambda node: -measured[node].alone):
        times = measured[node]
        best = times.best
        if best is None:
            raise AssertionError(f"`{node.stage}` has a queue that nothing was measured for")
        bound = {one: chosen[one] for one in neighbours[node] if one in chosen}
        apart = tuple(one for one, size in bound.items() if not _goes(best.rows, size))
        agreed[node] = Agreed(best.rows)
        if apart:
            sizes = [
                size
                for size in range(2, best.rows)
                if all(_goes(size, other) for other in bound.values())
                and pays(times.alone, _seconds(times, size))
            ]
            most = min(sizes, key=lambda size: _seconds(times, size), default=None)
            agreed[node] = Agreed(best.rows, (), apart) if most is None else Agreed(most, apart)
        chosen[node] = agreed[node].rows
    return agreed


def rows_flow(graph: Graph, queues: Collection[Node]) -> dict[Node, list[Node]]:
    """Return for each queue those that its rows come from and go to, in the order written."""
    flow = _Flow(frozenset(queues))
    flow.walk(graph.body)
    return flow.neighbours


@dataclass(slots=True)
class _Flow:
    queues: frozenset[Node]
    neighbours: dict[Node, list[Node]] = field(default_factory=dict[Node, list[Node]])

    def __post_init__(self) -> None:
        self.neighbours = {node: [] for node in self.queues}

    def walk(self, region: Region, around: Came | None = None) -> Came:
        """Follow rows through a region; return the last queues on the way of each value."""
        came = dict(around or {})
        for node in region.nodes:
            before = {one: None for value in node.inputs for one in came.get(value, ())}
            if node in self.queues:
                for one in before:
                    self.neighbours[one].append(node)
                    self.neighbours[node].append(one)
                before = {node: None}
            if node.regions:
                before = {}
            came.update(dict.fromkeys(node.outputs, before))
            at_once = isinstance(node.kind, Together)
            arms = [self.walk(inner, came if at_once else None) for inner in node.regions]
            if at_once:
                given = zip(arms, node.regions, strict=True)
                found = [arm.get(value, {}) for arm, region in given for value in region.results]
                came.update(zip(node.outputs, found, strict=True))
        return came


def _goes(size: int, other: int) -> bool:
    return size % other == 0 or other % size == 0


def _seconds(times: ModelTimes, rows: int) -> float:
    """Return what a row takes in a batch, on a line between two sizes that were measured."""
    below = max((one for one in times.timings if one.rows <= rows), key=lambda one: one.rows)
    above = min((one for one in times.timings if one.rows >= rows), key=lambda one: one.rows)
    share = (rows - below.rows) / max(above.rows - below.rows, 1)
    return (below.seconds + share * (above.seconds - below.seconds)) / rows
