"""What became of the values of a source that no request makes: for those who ask to see them.

A value is known by its name and its place. The pass after which it is missing has put it inside of
a model, where that lists the stage that makes it among its members, or has found that it need not
be made.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from ..dsl.source import Span
from .graph import Constant, Graph, ModelCall, Node, OpCall, Region, Value
from .optimize import Optimized
from .places import place_of
from .plan import Unseen

Known: TypeAlias = dict[tuple[str, Span], tuple[Value, Node]]
"""Values by name and place, each with the node that makes it."""


def find_unseen(graph: Graph, optimized: Optimized, directory: Path) -> tuple[Unseen, ...]:
    """Return the values of `graph` that the optimised graph does not have, in its order."""
    first, last = _made(graph), _made(optimized.graph)
    missing = [key for key in first if key not in last]
    found: dict[tuple[str, Span], Unseen] = {}
    before = graph
    for run in optimized.log:
        if not run.changed:
            continue
        there, after = _made(before), _made(run.graph)
        for key in missing:
            if key not in found and key not in after:
                name, span = key
                inside = _holder(*there[key], before, run.graph) if key in there else ""
                found[key] = Unseen(name, run.name, inside, place_of(span, directory))
        before = run.graph
    return tuple(found[key] for key in missing)


def _made(graph: Graph) -> Known:
    return {
        (value.name, value.span): (value, node)
        for node in _nodes(graph.body)
        if not isinstance(node.kind, Constant)
        for value in node.outputs
    }


def _nodes(region: Region) -> Iterator[Node]:
    for node in region.nodes:
        yield node
        for inner in node.regions:
            yield from _nodes(inner)


def _holder(value: Value, maker: Node, before: Graph, after: Graph) -> str:
    """Return the stage that a value and its maker have become a part of, "" when there is none.

    Many may have equal parts; it is the one of the model that the value is nearest to.
    """
    called = maker.kind.op.name if isinstance(maker.kind, OpCall) else maker.stage
    near = [node.stage for node in _models_near(value, maker, before)]
    as_before = {(model.name, model.members) for model in before.models}
    for node in _nodes(after.body):
        if isinstance(node.kind, ModelCall):
            model = after.model(node.kind.model)
            if (model.name, model.members) in as_before:
                continue
            members = {node.stage, *model.members}
            if called in members and not members.isdisjoint(near):
                return node.stage
    return ""


def _models_near(value: Value, maker: Node, graph: Graph) -> list[Node]:
    """Return the model that makes a value, or the first ones on the way on and back from it."""
    if isinstance(maker.kind, ModelCall):
        return [maker]
    readers: dict[Value, list[Node]] = {}
    makers: dict[Value, Node] = {}
    for node in _nodes(graph.body):
        makers |= dict.fromkeys(node.outputs, node)
        for read in node.inputs:
            readers.setdefault(read, []).append(node)
    on = _first_models(
        readers.get(value, []), lambda node: [r for v in node.outputs for r in readers.get(v, [])]
    )
    back = _first_models([maker], lambda node: [makers[v] for v in node.inputs if v in makers])
    return [*on, *back]


def _first_models(start: list[Node], following: Callable[[Node], list[Node]]) -> list[Node]:
    found: list[Node] = []
    seen, waiting = set(start), list(start)
    for node in waiting:
        if isinstance(node.kind, ModelCall):
            found.append(node)
            continue
        new = [one for one in following(node) if one not in seen]
        seen.update(new)
        waiting += new
    return found
