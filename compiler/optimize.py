"""Finds, orders and runs the passes, and verifies the graph after each.

The order is the phase, then `after`, then the name; `headrace passes` prints it. Passes are the
files of `passes/` and what installed packages name under the entry points `headrace.passes`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Final

import networkx as nx

from . import passes as folder
from .graph import Graph
from .graph_pass import Declined, Pass, PassContext, Phase
from .verify import verify

ENTRY_POINTS: Final = "headrace.passes"


@dataclass(frozen=True, slots=True)
class PassRun:
    """What one pass did. `graph` is the graph after it."""

    name: str
    graph: Graph
    changed: bool
    declined: tuple[Declined, ...]


@dataclass(frozen=True, slots=True)
class Optimized:
    """The optimised graph, and a run for each pass in order."""

    graph: Graph
    log: tuple[PassRun, ...]

    @property
    def declined(self) -> tuple[tuple[str, Declined], ...]:
        """What passes would not do, each with the pass's name."""
        return tuple((run.name, one) for run in self.log for one in run.declined)


def load_passes() -> tuple[Pass, ...]:
    """Return all passes in the order in which they run."""
    names = sorted(module.name for module in iter_modules(folder.__path__))
    own = [import_module(f"{folder.__name__}.{name}").PASS for name in names]
    others = [point.load() for point in sorted(entry_points(group=ENTRY_POINTS))]
    return ordered([*own, *others])


def ordered(passes: Iterable[Pass]) -> tuple[Pass, ...]:
    """Return passes in order; raises ValueError for unknown or equal names and for a circle."""
    found: dict[str, Pass] = {}
    for one in passes:
        if one.name in found:
            raise ValueError(f"two passes are named `{one.name}`")
        found[one.name] = one
    order: list[Pass] = []
    for phase in Phase:
        edges: nx.DiGraph[str] = nx.DiGraph()
        edges.add_nodes_from(name for name, one in found.items() if one.phase is phase)
        for name in list(edges):
            for before in found[name].after:
                if before not in edges:
                    raise ValueError(f"pass `{name}` runs after `{before}`, which is not there")
                edges.add_edge(before, name)
        try:
            order += [found[name] for name in nx.lexicographical_topological_sort(edges)]
        except nx.NetworkXUnfeasible as error:
            raise ValueError(f"passes of phase {phase.name} wait for each other") from error
    return tuple(order)


def optimize(
    graph: Graph, passes: Sequence[Pass] | None = None, context: PassContext | None = None
) -> Optimized:
    """Run passes (all, when none are given) over a graph that `verify` accepts.

    Pipelines of one compilation share a context, so that each model is parsed once.
    """
    context = context or PassContext()
    log: list[PassRun] = []
    declined: tuple[Declined, ...] = ()
    for one in load_passes() if passes is None else passes:
        result = one.run(graph, replace(context, declined=declined))
        declined += result.declined
        if result.changed:
            verify(result.graph)
        graph = result.graph
        log.append(PassRun(one.name, graph, result.changed, result.declined))
    return Optimized(graph, tuple(log))
