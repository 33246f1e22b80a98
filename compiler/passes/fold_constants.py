"""Runs what is known when compiling: pure ops of constants, and the choice of an arm.

    a = 2 + 3                                  b = f(x, 5)
    b = if true { f(x, a) } else { y }  becomes

An op is run through its reference, so the constant has the value that the stage would have had;
where the reference raises, the stage stays and raises when it runs. A result that is larger than
both `MAX_BYTES` and its arguments stays a stage: it is cheaper to make than to carry in the plan.
Of a nested list no constant is made, since a literal tuple stands for a tensor.
"""

import math
from dataclasses import replace
from typing import Final

import numpy as np

from ...dsl.types import OptionalType, TensorType, Type
from ...stdlib.dtypes import to_numpy
from ...stdlib.op import Effects, Item, Literal, Op
from ..graph import Constant, Graph, If, Match, Node, OpCall, Region, Value
from ..graph_pass import Declined, Pass, PassContext, PassResult, Phase
from ..rewrite import Substitution, rebuilt, same_form

MAX_BYTES: Final = 64 * 1024


class _NotFolded(Exception):
    """The call cannot become a constant; the text says why."""


class _Folding:
    """One walk over a graph: what is known so far and what stands for what."""

    def __init__(self) -> None:
        self.known: dict[Value, Literal] = {}
        self.stands = Substitution()
        self.declined: list[Declined] = []

    def region(self, region: Region) -> Region:
        params = self.stands.define(region.params)
        nodes = tuple(new for node in region.nodes for new in self.node(node))
        results = self.stands.values(region.results)
        return (
            rebuilt(region, nodes, results)
            if params == region.params
            else Region(params, nodes, results)
        )

    def node(self, node: Node) -> tuple[Node, ...]:
        """Return what the node becomes: itself, constants, or the nodes of the arm taken."""
        inputs = self.stands.values(node.inputs)
        if isinstance(node.kind, Constant):
            self.known[node.outputs[0]] = node.kind.literal
            return (node,)
        if isinstance(node.kind, OpCall) and all(value in self.known for value in inputs):
            folded = self._call(node, node.kind.op, [self.known[value] for value in inputs])
            if folded is not None:
                return folded
        if isinstance(node.kind, If | Match) and inputs[0] in self.known:
            arm = node.regions[_taken(node.kind, self.known[inputs[0]])]
            if all(map(same_form, _types(node.outputs), _types(arm.results))):
                return self._splice(node, arm)
        regions = tuple(self.region(region) for region in node.regions)
        return (self.stands.node(node, regions),)

    def _call(self, node: Node, op: Op, arguments: list[Literal]) -> tuple[Node, ...] | None:
        if op.effects is not Effects.PURE or node.checks:
            return None
        try:
            literals = _evaluated(op, arguments, _types(node.outputs))
        except _NotFolded as reason:
            self.declined.append(Declined(node.stage, f"`{node.stage}` {reason}", node.span))
            return None
        constants = tuple(
            replace(node, kind=Constant(literal), inputs=(), outputs=(output,))
            for output, literal in zip(node.outputs, literals, strict=True)
        )
        for constant in constants:
            self.node(constant)
        return constants

    def _splice(self, node: Node, arm: Region) -> tuple[Node, ...]:
        nodes = tuple(new for inner in arm.nodes for new in self.node(inner))
        for output, result in zip(node.outputs, self.stands.values(arm.results), strict=True):
            self.stands.put(output, result)
        return nodes


def run(graph: Graph, _context: PassContext) -> PassResult:
    folding = _Folding()
    body = folding.region(graph.body)
    declined = tuple(folding.declined)
    if body is graph.body:
        return PassResult(graph, False, declined)
    return PassResult(replace(graph, body=body), True, declined)


def _types(values: tuple[Value, ...]) -> list[Type]:
    return [value.type for value in values]


def _taken(kind: If | Match, literal: Literal) -> int:
    """Return the index of the region that runs."""
    subject = literal.item() if isinstance(literal, np.ndarray | np.generic) else literal
    if isinstance(kind, If):
        return 0 if subject else 1
    return next((i for i, case in enumerate(kind.cases) if subject in case), len(kind.cases))


def _evaluated(op: Op, arguments: list[Literal], types: list[Type]) -> list[Literal]:
    """Run the reference on literals; raises _NotFolded."""
    try:
        with np.errstate(all="ignore"):
            result = op.reference(*arguments)
    except Exception as error:  # the stage stays and raises this again when it runs
        raise _NotFolded(f"raises {type(error).__name__}: {error}") from error
    items = result if isinstance(result, tuple) else (result,)
    literals = [_literal(item, type) for item, type in zip(items, types, strict=True)]
    size = sum(map(_size, literals))
    if size > max(MAX_BYTES, sum(map(_size, arguments))):
        raise _NotFolded(f"makes {size} bytes, more than a plan should carry for it")
    return literals


def _literal(item: Item, type: Type) -> Literal:
    """Return an item as the literal of its type; numbers keep their dtype as 0-d arrays."""
    match item:
        case None:
            return None
        case str() | bytes():
            return item
        case list():
            raise _NotFolded("makes a list, which no literal can be")
        case _:
            inner = type.item if isinstance(type, OptionalType) else type
            array = np.array(item)
            if not isinstance(inner, TensorType) or array.dtype != to_numpy(inner.dtype):
                raise _NotFolded(f"makes {array.dtype}{list(array.shape)} and not {type}")
            array.flags.writeable = False
            return array


def _size(literal: Literal) -> int:
    match literal:
        case tuple():
            return sum(map(_size, literal))
        case str() | bytes():
            return len(literal)
        case np.ndarray() if literal.dtype == object:
            return sum(map(len, literal.ravel().tolist()))
        case np.ndarray():
            return math.prod(literal.shape) * literal.itemsize
        case _:
            return 8


PASS = Pass("fold_constants", Phase.SIMPLIFY, run)
