"""Drops what feeds nothing: pure nodes, outputs of branches, `try` and `for` that nobody reads.

    a = image.decode(photo)                    b = image.decode(photo)
    b = image.decode(photo)          becomes   return b
    return b

Opaque functions stay, with the `if` or `for` they stand in, since they must run as often as
written. A `for` keeps every list that it walks: that they are of equal length is checked there.
A `try` keeps what its body gives where what stands for it has effects.
Models and functions that are no longer called leave the graph, and with it the plan.
"""

from dataclasses import replace

from ..graph import For, FunctionCall, Graph, If, Loop, Match, ModelCall, Node, Region, Try, Value
from ..graph_pass import Pass, PassContext, PassResult, Phase
from ..rewrite import is_pure, rebuilt, walk


def run(graph: Graph, _context: PassContext) -> PassResult:
    body = _region(graph, graph.body, set(), graph.body.results)
    kinds = {node.kind for node in walk(body) if isinstance(node.kind, ModelCall | FunctionCall)}
    models = tuple(model for model in graph.models if ModelCall(model.name) in kinds)
    functions = tuple(one for one in graph.functions if FunctionCall(one.name) in kinds)
    changed = (body, models, functions) != (graph.body, graph.models, graph.functions)
    if not changed:
        return PassResult(graph, False)
    return PassResult(replace(graph, body=body, models=models, functions=functions), True)


def _region(graph: Graph, region: Region, live: set[Value], results: tuple[Value, ...]) -> Region:
    """Rebuild a region to give `results` only. `live` gains all that it reads."""
    live.update(results)
    kept: list[Node] = []
    for node in reversed(region.nodes):
        if is_pure(graph, node) and not any(value in live for value in node.outputs):
            continue
        node = _pruned(graph, node, live)
        live.update(node.inputs)
        kept.append(node)
    return rebuilt(region, reversed(kept), results)


def _pruned(graph: Graph, node: Node, live: set[Value]) -> Node:
    if not node.regions:
        return node
    # of other kinds, results are more than what is read outside
    prunable = isinstance(node.kind, If | Match | For | Try) and not _chooses(graph, node)
    read = [i for i, v in enumerate(node.outputs) if v in live or not prunable]
    flag = (isinstance(node.kind, For) and node.kind.filtered) or (
        isinstance(node.kind, Loop) and node.kind.stops
    )
    regions = tuple(
        _region(
            graph,
            region,
            live,
            tuple(region.results[i] for i in read) + (region.results[-1:] if flag else ()),
        )
        for region in node.regions
    )
    outputs = tuple(node.outputs[i] for i in read)
    if (outputs, regions) == (node.outputs, node.regions):
        return node
    return replace(node, outputs=outputs, regions=regions)


def _chooses(graph: Graph, node: Node) -> bool:
    """Tell whether what the body of a `try` computes decides if effects come about."""
    if not isinstance(node.kind, Try):
        return False
    return not all(is_pure(graph, inner) for inner in node.regions[1].nodes)


PASS = Pass(
    "drop_dead_code",
    Phase.SIMPLIFY,
    run,
    after=("fold_constants", "merge_common_subexpressions"),
)
