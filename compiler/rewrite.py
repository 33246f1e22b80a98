"""Walking regions, and rebuilding them with values and dimensions replaced.

A pass goes through nodes in order, keeps those it does not change (the same objects, so that
"nothing changed" is an identity test) and notes in a `Substitution` which value now stands for
which. When two calls are one, the sizes that only the run of either would tell are one as well,
so a substitution carries dimensions too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..dsl.linear import linear, to_dim, variables
from ..dsl.types import Dim, DimAny, DimVar, ListType, OptionalType, TensorType, Type
from ..stdlib.op import Effects
from .dimensions import type_dims
from .graph import (
    Check,
    Constant,
    Emit,
    FunctionCall,
    Graph,
    ModelCall,
    Node,
    OpCall,
    Region,
    Value,
)


def walk(region: Region) -> Iterator[Node]:
    """Yield the nodes of a region and of all regions in it, each before what it contains."""
    for node in region.nodes:
        yield node
        for inner in node.regions:
            yield from walk(inner)


def model_calls(region: Region) -> Iterator[tuple[Node, ModelCall]]:
    """Yield the calls of models in a region and in all regions in it."""
    for node in walk(region):
        if isinstance(node.kind, ModelCall):
            yield node, node.kind


def is_pure(graph: Graph, node: Node) -> bool:
    """Tell whether the node may be dropped, merged or moved, with all that it contains."""
    match node.kind:
        case OpCall(op):
            return op.effects is Effects.PURE
        case FunctionCall(name):
            return graph.function(name).pure
        case Emit():
            return False
        case _:
            return all(is_pure(graph, inner) for region in node.regions for inner in region.nodes)


def opaque_before(graph: Graph, region: Region) -> dict[Node, Node]:
    """Return for each opaque node of a region the one before it: they run as they are written."""
    opaque = [node for node in region.nodes if not is_pure(graph, node)]
    return dict(zip(opaque[1:], opaque, strict=False))


def sizes(type: Type) -> set[DimVar]:
    """Return the variables whose value the shape of such a value tells."""
    return {dim for dim in type_dims(type) if isinstance(dim, DimVar)}


def sizes_of(check: Check) -> frozenset[DimVar]:
    """Return the variables that a check compares."""
    return variables(check.left) | variables(check.right)


def same_form(left: Type, right: Type) -> bool:
    """Tell whether two types agree in all but their dimensions."""
    match left, right:
        case TensorType(dtype, dims), TensorType(other, others):
            return dtype is other and len(dims) == len(others)
        case ListType(item, maximum), ListType(other, bound):
            return maximum == bound and same_form(item, other)
        case OptionalType(item), OptionalType(other):
            return same_form(item, other)
        case _:
            return left == right


class Substitution:
    """Which value stands for which, and which dimension for which variable."""

    def __init__(self) -> None:
        self._values: dict[Value, Value] = {}
        self._dims: dict[DimVar, Dim] = {}

    def put(self, old: Value, new: Value) -> None:
        """Let `new` stand for `old`, whose type has the same form.

        Variables that only the old type mentions become the dimensions of the new one.
        """
        self._values[old] = new
        for before, after in zip(type_dims(old.type), type_dims(new.type), strict=True):
            if isinstance(before, DimVar) and not isinstance(after, DimAny):
                after = self.dim(after)
                if self.dim(before) == before and before not in variables(after):
                    self._dims[before] = after

    def value(self, value: Value) -> Value:
        """Return what stands for a value now."""
        return self._values.get(value, value)

    def values(self, values: Iterable[Value]) -> tuple[Value, ...]:
        return tuple(self.value(value) for value in values)

    def dim(self, dim: Dim) -> Dim:
        if not self._dims or not any(v in self._dims for v in variables(dim)):
            return dim
        form = linear(dim, lambda variable: self._dims.get(variable, variable))
        return dim if form is None else to_dim(form)

    def type(self, type: Type) -> Type:
        match type:
            case TensorType(dtype, dims):
                return TensorType(dtype, tuple(self.dim(dim) for dim in dims))
            case ListType(item, maximum):
                return ListType(self.type(item), maximum)
            case OptionalType(item):
                return OptionalType(self.type(item))
            case _:
                return type

    def define(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Return values that are made here, with dimensions replaced in their types."""
        if not self._dims:
            return values
        made: list[Value] = []
        for value in values:
            type = self.type(value.type)
            if type != value.type:
                self._values[value] = replace(value, type=type)
            made.append(self.value(value))
        return tuple(made)

    def checks(self, checks: tuple[Check, ...]) -> tuple[Check, ...]:
        if not self._dims:
            return checks
        return tuple(
            replace(check, left=self.dim(check.left), right=self.dim(check.right))
            for check in checks
        )

    def node(self, node: Node, regions: tuple[Region, ...]) -> Node:
        """Return the node over the values that stand now, the same object if none changed.

        `regions` are its rebuilt regions.
        """
        inputs, checks = self.values(node.inputs), self.checks(node.checks)
        outputs = self.define(node.outputs)
        before = (node.inputs, node.outputs, node.regions, node.checks)
        if (inputs, outputs, regions, checks) == before:
            return node
        return replace(node, inputs=inputs, outputs=outputs, regions=regions, checks=checks)


def rebuilt(region: Region, nodes: Iterable[Node], results: tuple[Value, ...]) -> Region:
    """Return the region with these nodes and results, the same object if they are its own."""
    nodes = tuple(nodes)
    if nodes == region.nodes and results == region.results:
        return region
    return replace(region, nodes=nodes, results=results)


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads a value: a node of `region`, or with None the results of `region`."""

    node: Node | None
    region: Region


class Uses:
    """Where each value of a graph is made and read. Built once for a graph."""

    def __init__(self, body: Region) -> None:
        self.producers: dict[Value, Node] = {}
        self.order: dict[Node, int] = {}  # a node comes before all that read its outputs
        self.region: dict[Node, Region] = {}
        self.owner: dict[Region, Node] = {}  # the node that a nested region belongs to
        self.checked: set[DimVar] = set()  # sizes that some stage compares
        self._readers: dict[Value, list[Reader]] = {}
        self._add(body)

    def is_literal(self, value: Value) -> bool:
        """Tell whether a value is a constant of the graph."""
        maker = self.producers.get(value)
        return maker is not None and isinstance(maker.kind, Constant)

    def readers(self, value: Value) -> tuple[Reader, ...]:
        return tuple(self._readers.get(value, ()))

    def _add(self, region: Region) -> None:
        for node in region.nodes:
            self.order[node] = len(self.order)
            self.region[node] = region
            self.checked.update(*map(sizes_of, node.checks))
            for value in node.inputs:
                self._readers.setdefault(value, []).append(Reader(node, region))
            for inner in node.regions:
                self.owner[inner] = node
                self._add(inner)
            for value in node.outputs:
                self.producers[value] = node
        for value in region.results:
            self._readers.setdefault(value, []).append(Reader(None, region))
