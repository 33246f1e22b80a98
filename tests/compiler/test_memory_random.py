"""The memory plan of random graphs: what is alive at once never overlaps, and little is lost."""

from dataclasses import dataclass, field, replace
from random import Random
from statistics import mean

import pytest
from hypothesis import HealthCheck, given, settings

from headrace.compiler.arena import assign_offsets
from headrace.compiler.graph import Constant, Graph, Node, Region, Value
from headrace.compiler.memory import buffers_of
from headrace.dsl.types import DType, TensorType
from tests.compiler.draw_graphs import Drawn, drawn_graphs

SLOW_TO_DRAW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
CI = settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=SLOW_TO_DRAW)
KIB = (1, 4, 16, 64, 150, 600, 2400, 6144)


@dataclass
class Sized:
    """A graph in which every value that a stage makes has a name and a size of its own."""

    values: dict[Value, Value] = field(default_factory=dict[Value, Value])
    sizes: Random = field(default_factory=lambda: Random(0))

    def graph(self, graph: Graph) -> Graph:
        return replace(graph, body=self.region(graph.body))

    def region(self, region: Region) -> Region:
        nodes = tuple(map(self.node, region.nodes))
        return replace(region, nodes=nodes, results=self.old(region.results))

    def node(self, node: Node) -> Node:
        inputs = self.old(node.inputs)
        regions = tuple(map(self.region, node.regions))
        if not node.regions and not isinstance(node.kind, Constant):
            for value in node.outputs:
                size = TensorType(DType.U8, (self.sizes.choice(KIB), 1024))
                self.values[value] = replace(value, type=size, name=f"v{len(self.values)}")
        return replace(node, inputs=inputs, regions=regions, outputs=self.old(node.outputs))

    def old(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(self.values.get(value, value) for value in values)


@dataclass
class Clock:
    """When values are made and last read, by walking a graph in the order in which it runs."""

    now: int = 0
    made: dict[Value, int] = field(default_factory=dict[Value, int])
    read: dict[Value, int] = field(default_factory=dict[Value, int])
    same: dict[Value, list[Value]] = field(default_factory=dict[Value, list[Value]])

    def region(self, region: Region) -> None:
        for node in region.nodes:
            self.now += 1
            self.reads(node.inputs)
            outside = set(self.made)
            for inner in node.regions:
                self.region(inner)
                self.now += 1
                self.reads(inner.results)
            if node.regions:
                held = [v for v in outside if any(map(self.touches(v), node.regions))]
                self.reads(tuple(held))
            for index, value in enumerate(node.outputs):
                if node.regions:
                    self.same[value] = [inner.results[index] for inner in node.regions]
                elif not isinstance(node.kind, Constant):
                    self.made[value] = self.read[value] = self.now
        self.now += 1
        self.reads(region.results)

    def touches(self, value: Value) -> "Touches":
        return Touches(self, value)

    def reads(self, values: tuple[Value, ...]) -> None:
        for value in values:
            self.reads(tuple(self.same.get(value, ())))
            if value in self.made:
                self.read[value] = self.now


@dataclass
class Touches:
    """Tells whether a region reads a value of the graph around it."""

    clock: Clock
    value: Value

    def __call__(self, region: Region) -> bool:
        read = [*region.results, *(value for node in region.nodes for value in node.inputs)]
        return any(map(self.stands_for, read)) or any(
            self(inner) for node in region.nodes for inner in node.regions
        )

    def stands_for(self, value: Value) -> bool:
        return value is self.value or any(map(self.stands_for, self.clock.same.get(value, ())))


def check_memory(drawn: Drawn) -> float:
    """Lay out a graph's values; return how many times the lower bound the peak is."""
    graph = Sized().graph(drawn.graph)
    buffers = buffers_of(graph, "cpu")
    arena = assign_offsets(buffers)
    at = dict(zip([one.name for one in buffers], arena.offsets, strict=True))
    size = {one.name: one.size for one in buffers}
    clock = Clock()
    clock.region(graph.body)
    known = [(made, value) for value, made in clock.made.items() if value.name in at]
    for made, one in known:
        for later, other in known:
            if one is not other and made <= later <= clock.read[one]:
                apart = at[one.name] + size[one.name] <= at[other.name]
                apart |= at[other.name] + size[other.name] <= at[one.name]
                assert apart, f"{one.name} and {other.name} are alive at once"
    return arena.peak / arena.lower_bound if arena.lower_bound else 1.0


def check_many(examples: int, *, derandomize: bool) -> None:
    """Lay out so many graphs; the mean of peak over lower bound is bounded."""
    ratios: list[float] = []

    @settings(CI, max_examples=examples, derandomize=derandomize)
    @given(drawn_graphs())
    def each(drawn: Drawn) -> None:
        ratios.append(check_memory(drawn))

    each()
    assert len(ratios) >= examples
    assert mean(ratios) < 1.15, mean(ratios)


def test_values_that_are_alive_at_once_never_overlap_and_peaks_are_near_the_bound() -> None:
    check_many(50, derandomize=True)


@pytest.mark.slow
def test_it_is_so_for_many_graphs_that_differ_from_run_to_run() -> None:
    check_many(500, derandomize=False)
