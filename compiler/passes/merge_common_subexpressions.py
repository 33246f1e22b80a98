"""Computes once what is written twice: equal constants, ops, model calls, pure functions.

    a = cast(x, f32)                           a = cast(x, f32)
    b = if c { f(cast(x, f32)) } ...  becomes  b = if c { f(a) } ...

Only what has surely run may be reused: a region sees what the regions around it have computed
before it, never what another arm has, and nothing is moved out of an arm. A constant is shared
within its region only, since a value from outside costs more than a literal. Control flow is left
alone. When the sizes of a result are known only after the run, those of the second call become
those of the first.
"""

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from ...stdlib.op import Effects, Literal
from ..graph import Constant, FunctionCall, Graph, ModelCall, Node, OpCall, Region, Value
from ..graph_pass import Pass, PassContext, PassResult, Phase
from ..rewrite import Substitution, rebuilt, same_form


class _Scope:
    """What has been computed in a region and in those around it."""

    def __init__(self, around: "_Scope | None" = None) -> None:
        self._around = around
        self._nodes: dict[Hashable, Node] = {}

    def find(self, key: Hashable) -> Node | None:
        found = self.own(key)
        return self._around.find(key) if found is None and self._around is not None else found

    def own(self, key: Hashable) -> Node | None:
        return self._nodes.get(key)

    def add(self, key: Hashable, node: Node) -> None:
        self._nodes[key] = node


class _Merging:
    """One walk over a graph."""

    def __init__(self, graph: Graph) -> None:
        self.pure = {function.name for function in graph.functions if function.pure}
        self.stands = Substitution()
        self.constants: dict[Value, Hashable] = {}

    def region(self, region: Region, around: _Scope | None) -> Region:
        scope = _Scope(around)
        params = self.stands.define(region.params)
        nodes = [new for node in region.nodes if (new := self.node(node, scope)) is not None]
        results = self.stands.values(region.results)
        return (
            rebuilt(region, nodes, results)
            if params == region.params
            else Region(params, tuple(nodes), results)
        )

    def node(self, node: Node, scope: _Scope) -> Node | None:
        """Return what the node becomes, None when an earlier one stands for it."""
        key = self._key(node)
        if isinstance(node.kind, Constant):
            self.constants[node.outputs[0]] = key
            first = scope.own(key)
        else:
            first = scope.find(key) if key is not None else None
        if first is not None and _replaces(first, node):
            for old, new in zip(node.outputs, first.outputs, strict=True):
                self.stands.put(old, new)
            return None
        regions = tuple(self.region(region, scope) for region in node.regions)
        new = self.stands.node(node, regions)
        if key is not None:
            scope.add(key, new)
        return new

    def _key(self, node: Node) -> Hashable:
        """Return what equal nodes have in common, None for a node that is never merged."""
        inputs = tuple(self.constants.get(v, v) for v in self.stands.values(node.inputs))
        match node.kind:
            case Constant(literal):
                return ("constant", node.outputs[0].type, _literal_key(literal))
            case OpCall(op) if op.effects is Effects.PURE:
                return ("op", op.name, inputs)
            case ModelCall(name):
                return ("model", name, inputs)
            case FunctionCall(name) if name in self.pure:
                return ("function", name, inputs)
            case _:
                return None


def run(graph: Graph, _context: PassContext) -> PassResult:
    body = _Merging(graph).region(graph.body, None)
    if body is graph.body:
        return PassResult(graph, False)
    return PassResult(replace(graph, body=body), True)


def _replaces(first: Node, second: Node) -> bool:
    """Tell whether `first` also does what `second` checks, and has results of the same form."""
    forms = all(
        same_form(one.type, other.type)
        for one, other in zip(first.outputs, second.outputs, strict=True)
    )
    return forms and {check.text for check in second.checks} <= {c.text for c in first.checks}


def _literal_key(literal: "Literal | np.generic") -> Hashable:
    """Tell apart what `==` does not (1 and True, 0.0 and -0.0) and join equal arrays and NaNs."""
    match literal:
        case tuple():
            return tuple(map(_literal_key, literal))
        case float():
            return ("float", literal.hex())
        case np.ndarray() if literal.dtype == object:
            return ("objects", literal.shape, tuple(literal.ravel().tolist()))
        case np.ndarray() | np.generic():
            return (str(literal.dtype), np.shape(literal), literal.tobytes())
        case _:
            return (type(literal).__name__, literal)


PASS = Pass("merge_common_subexpressions", Phase.SIMPLIFY, run, after=("fold_constants",))
