"""What every graph keeps to, checked between passes: a graph that breaks a rule here is our bug.

Values are made once and before they are used; a region sees the values of the regions around it.
Inputs and outputs agree with what a node runs, in number, dtype and rank; sizes are not compared,
because passes learn more of them on one side than on the other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from ..dsl.types import (
    UNKNOWN,
    DType,
    Field,
    ListType,
    OptionalType,
    Signature,
    TensorType,
    Type,
)
from .graph import (
    Constant,
    Emit,
    For,
    FunctionCall,
    Graph,
    If,
    Loop,
    Match,
    ModelCall,
    ModelDef,
    Node,
    OpCall,
    Region,
    Together,
    Transfer,
    Try,
    Value,
)

BOOL = TensorType(DType.BOOL)


class GraphError(Exception):
    """A graph is not well formed; the text says where and why."""


def verify(graph: Graph) -> None:
    """Raise GraphError when the graph is not well formed. Linear in its size."""
    try:
        _verify(graph)
    except GraphError as error:
        raise GraphError(f"pipeline `{graph.name}`: {error}") from None


def _verify(graph: Graph) -> None:
    _require_unique("model", (model.name for model in graph.models))
    _require_unique("function", (function.name for function in graph.functions))
    for model in graph.models:
        _verify_model(model)
    signature = graph.signature
    if len(graph.defaults) != len(signature.params):
        raise GraphError(f"{len(graph.defaults)} defaults for {len(signature.params)} parameters")
    kept = tuple(state.field for state in graph.states)
    if (kept or graph.controls) and graph.idle is None:
        raise GraphError("keeps state and is not per sequence")
    taken = (*signature.params, *graph.controls, *kept)
    _require_fields("the body's parameters", graph.body.params, taken)
    _Walk(graph).region(graph.body)
    results = () if graph.stream else signature.results
    _require_fields("the body's results", graph.body.results, (*results, *kept))


@dataclass(slots=True)
class _Walk:
    """One walk over a graph. `visible` are the values that can be used, `made` all there are."""

    graph: Graph
    signatures: dict[tuple[type, str], Signature] = field(init=False)
    visible: set[Value] = field(default_factory=set[Value])
    made: set[Value] = field(default_factory=set[Value])
    beside: int = 0  # nodes around whose regions run at once

    def __post_init__(self) -> None:
        self.signatures = {
            **{(ModelCall, model.name): model.signature for model in self.graph.models},
            **{(FunctionCall, one.name): one.signature for one in self.graph.functions},
        }

    def region(self, region: Region) -> None:
        own: list[Value] = []
        self._make(region.params, own, "a region's parameters")
        for node in region.nodes:
            where = f"stage `{node.stage}` at {node.span}"
            if not node.stage:
                raise GraphError(f"a node at {node.span} has no stage")
            self._use(node.inputs, where)
            self.beside += isinstance(node.kind, Together)
            for inner in node.regions:
                self.region(inner)
            self.beside -= isinstance(node.kind, Together)
            try:
                self._node(node)
            except GraphError as error:
                raise GraphError(f"{where} {error}") from None
            self._make(node.outputs, own, where)
        self._use(region.results, "the end of a region")
        self.visible.difference_update(own)

    def _make(self, values: Sequence[Value], own: list[Value], where: str) -> None:
        for value in values:
            if value in self.made:
                raise GraphError(f"{where}: `{value.name}` is made a second time")
            if _holds_unknown(value.type):
                raise GraphError(f"{where}: the type of `{value.name}` is unknown")
            self.made.add(value)
            self.visible.add(value)
            own.append(value)

    def _use(self, values: Iterable[Value], where: str) -> None:
        for value in values:
            if value not in self.visible:
                how = "from outside its region" if value in self.made else "before it is made"
                raise GraphError(f"{where}: `{value.name}` is used {how}")

    def _node(self, node: Node) -> None:
        match node.kind:
            case Constant():
                _require_counts(node, 0, 1, 0)
            case OpCall(op=op):
                fixed = sum(not param.variadic for param in op.params)
                inputs = max(fixed, len(node.inputs)) if fixed < len(op.params) else fixed
                _require_counts(node, inputs, len(op.results), 0)
            case ModelCall(model=name) | FunctionCall(function=name):
                signature = self.signatures.get((type(node.kind), name))
                if signature is None:
                    raise GraphError(f"calls `{name}`, which the graph does not hold")
                _require_counts(node, len(signature.params), len(signature.results), 0)
                _require_fields("inputs", node.inputs, signature.params)
                _require_fields("outputs", node.outputs, signature.results)
            case If():
                _require_counts(node, 1, len(node.outputs), 2)
                _require_form(node.inputs[0], BOOL, "its condition")
                _verify_arms(node)
            case Match(cases=cases):
                _require_counts(node, 1, len(node.outputs), len(cases) + 1)
                subject = node.inputs[0].type
                if not isinstance(subject, TensorType) or subject.dims:
                    raise GraphError(f"its subject is {subject} and no scalar")
                literals = [literal for case in cases for literal in case]
                _require_unique("case", map(repr, literals))
                _verify_arms(node)
            case For():
                _verify_for(node, node.kind)
            case Loop():
                _verify_loop(node, node.kind)
            case Try(within=within):
                _require_counts(node, 0, len(node.outputs), 2)
                if within is not None and within <= 0:
                    raise GraphError("has no time for its body")
                _verify_arms(node)
            case Together():
                _verify_together(node)
            case Emit():
                if not self.graph.stream:
                    raise GraphError("emits, and the pipeline is no stream")
                if self.beside:
                    raise GraphError("emits beside what runs at the same time")
                _require_fields("what is emitted", node.inputs, self.graph.signature.results)
                _require_counts(node, len(node.inputs), 0, 0)
            case Transfer(device=device):
                _require_counts(node, 1, 1, 0)
                if not device or node.inputs[0].type != node.outputs[0].type:
                    raise GraphError("is a copy that names no device or changes the type")
            case _:
                assert_never(node.kind)


def _verify_model(model: ModelDef) -> None:
    params, results = model.signature.params, model.signature.results
    for what, fields, names, axes in (
        ("input", params, model.input_names, model.input_axes),
        ("output", results, model.output_names, model.output_axes),
    ):
        if not len(fields) == len(names) == len(axes):
            raise GraphError(
                f"model `{model.name}` has {len(fields)} {what}s, {len(names)} names and "
                f"{len(axes)} batch axes for them"
            )
        _require_unique(f"{what} of `{model.name}`", names)
    if not model.batches and any(axis is not None for axis in model.output_axes):
        raise GraphError(f"model `{model.name}` has a batch axis in its outputs only")


def _verify_arms(node: Node) -> None:
    for region in node.regions:
        if region.params:
            raise GraphError("has an arm with parameters")
        if len(region.results) != len(node.outputs):
            raise GraphError(
                f"has an arm with {len(region.results)} results for {len(node.outputs)} outputs"
            )
        for result, output in zip(region.results, node.outputs, strict=True):
            _require_form(result, output.type, f"an arm's `{result.name}`")


def _verify_together(node: Node) -> None:
    results = [value for region in node.regions for value in region.results]
    if len(node.regions) < 2 or node.inputs or len(results) != len(node.outputs):
        raise GraphError(
            f"has {len(node.inputs)} inputs, {len(node.regions)} regions with {len(results)} "
            f"results, and {len(node.outputs)} outputs"
        )
    for region in node.regions:
        if region.params:
            raise GraphError("has a region with parameters")
    for result, output in zip(results, node.outputs, strict=True):
        _require_form(result, output.type, f"`{output.name}`")


def _verify_for(node: Node, kind: For) -> None:
    (body,) = node.regions if len(node.regions) == 1 else (None,)
    if body is None or not node.inputs:
        raise GraphError(f"has {len(node.regions)} regions and {len(node.inputs)} lists to walk")
    if len(body.params) != len(node.inputs):
        raise GraphError(f"gives {len(body.params)} parameters for {len(node.inputs)} lists")
    for walked, item in zip(node.inputs, body.params, strict=True):
        _require_form(item, _item_of(walked), f"the item `{item.name}`")
    gathered = len(body.results) - kind.filtered
    if gathered != len(node.outputs):
        raise GraphError(f"gathers {gathered} results in {len(node.outputs)} outputs")
    if kind.filtered:
        _require_form(body.results[-1], BOOL, "what says which items are kept")
    for result, output in zip(body.results, node.outputs, strict=False):
        _require_form(result, _item_of(output), f"a gathered `{result.name}`")


def _verify_loop(node: Node, kind: Loop) -> None:
    carried = len(node.outputs)
    _require_counts(node, carried + 1, carried, 1)
    most, (body,) = node.inputs[0].type, node.regions
    if not isinstance(most, TensorType) or most.dims or not most.dtype.is_integer:
        raise GraphError(f"has a bound that is {most}")
    if (len(body.params), len(body.results)) != (carried, carried + kind.stops):
        raise GraphError(
            f"carries {carried} values, with {len(body.params)} parameters and "
            f"{len(body.results)} results"
        )
    if kind.stops:
        _require_form(body.results[-1], BOOL, "what says when to stop")
    for start, param, result, output in zip(
        node.inputs[1:], body.params, body.results, node.outputs, strict=False
    ):
        for value in (start, result, output):
            _require_form(value, param.type, f"the carried `{param.name}`")


def _item_of(value: Value) -> Type:
    match value.type:
        case ListType(item=item):
            return item
        case TensorType(dtype, dims) if dims:
            return TensorType(dtype, dims[1:])
        case other:
            raise GraphError(f"walks or gathers `{value.name}`, which is {other}")


def _require_counts(node: Node, inputs: int, outputs: int, regions: int) -> None:
    found = (len(node.inputs), len(node.outputs), len(node.regions))
    if found != (inputs, outputs, regions):
        raise GraphError(
            f"has {found[0]} inputs, {found[1]} outputs and {found[2]} regions, not "
            f"{inputs}, {outputs} and {regions}"
        )


def _require_fields(what: str, values: Sequence[Value], fields: Sequence[Field]) -> None:
    if len(values) != len(fields):
        raise GraphError(f"{what} are {len(values)}, and the signature has {len(fields)}")
    for value, one in zip(values, fields, strict=True):
        _require_form(value, one.type, f"`{one.name}` of {what}")


def _require_form(value: Value, wanted: Type, what: str) -> None:
    if not _same_form(value.type, wanted):
        raise GraphError(f"has {what} as {value.type} where {wanted} is wanted")


def _same_form(found: Type, wanted: Type) -> bool:
    """Tell whether a type does for another, sizes aside; an optional one takes what is there."""
    match found, wanted:
        case TensorType(dtype, dims), TensorType(other, others):
            return dtype is other and len(dims) == len(others)
        case ListType(item=item), ListType(item=other):
            return _same_form(item, other)
        case OptionalType(item=item), OptionalType(item=other):
            return _same_form(item, other)
        case _, OptionalType(item=other):
            return _same_form(found, other)
        case _:
            return False


def _holds_unknown(type: Type) -> bool:
    match type:
        case ListType(item=item) | OptionalType(item=item):
            return _holds_unknown(item)
        case _:
            return type == UNKNOWN


def _require_unique(what: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GraphError(f"two {what}s are called `{name}`")
        seen.add(name)
