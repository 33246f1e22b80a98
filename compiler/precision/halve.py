"""Floats of two bytes in an ONNX model: its weights, and what flows between its nodes.

    x ── Conv(w) ── Softmax ── y         x ─ Cast ─ Conv(w') ─ Cast ─ Softmax ── y

Inputs and outputs keep their types, so what stands around the model does not notice. A node
takes halves where its schema lets it, unless `kept.py` has a reason; a tensor that is wanted in
both forms is cast once. What follows from nothing but shapes and literals stays in f32: sizes and
positions are counted in it. Branches and loops stay in f32 at their borders, and are gone through
in the same way inside.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import onnx
from onnx import TensorProto, helper

from ...stdlib.op import Array, Decline
from ..onnx_names import rename, subgraphs, tensor_names, unused
from ..onnx_opset import default_opset
from .half_weights import FLOAT, TYPE, constants_as_weights, element_types, half_tensor
from .kept import SENSITIVE, as_array, constant_reason, range_reason
from .report import Kept, Precision

_SCHEMA: Final = {Precision.FP16: "tensor(float16)", Precision.BF16: "tensor(bfloat16)"}


@dataclass(frozen=True, slots=True)
class Halved:
    """The model, how many nodes take halves, and those that stay in f32 for a reason."""

    model: onnx.ModelProto
    nodes: int
    kept: tuple[Kept, ...]


def halved(model: onnx.ModelProto, precision: Precision, greatest: Mapping[str, float]) -> Halved:
    """Return a model in another precision; `greatest` has the greatest absolute values that tensors
    were seen to have. Raises Decline where nothing in it can take halves."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    constants_as_weights(new.graph)
    halving = _Halving(new, precision, greatest)
    halving.graph(new.graph, _Scope())
    if not halving.nodes:
        raise Decline(f"nothing in it can be {precision.value}")
    reasons: dict[str, list[str]] = {}
    for node, reason in halving.kept:
        reasons.setdefault(reason, []).append(node)
    kept = tuple(Kept(reason, tuple(nodes)) for reason, nodes in reasons.items())
    return Halved(new, halving.nodes, kept)


@dataclass(slots=True)
class _Scope:
    """What is known of the tensors of a graph and of those around it.

    `types` are element types as declared, `full` and `half` what a tensor is called in either form
    where it has that form, `weights` are f32 constants, those of the graph itself `owned`, `moving`
    is what depends on inputs.
    """

    types: dict[str, int] = field(default_factory=dict[str, int])
    full: dict[str, str] = field(default_factory=dict[str, str])
    half: dict[str, str] = field(default_factory=dict[str, str])
    weights: dict[str, Array] = field(default_factory=dict[str, Array])
    owned: set[str] = field(default_factory=set[str])
    moving: set[str] = field(default_factory=set[str])

    def inner(self) -> "_Scope":
        """Return the scope of a graph inside, which sees the f32 forms from around it."""
        return _Scope(
            dict(self.types),
            dict(self.full),
            weights=dict(self.weights),
            moving=set(self.moving),
        )


class _Halving:
    """One walk over a model and the graphs in its nodes, which are changed in place."""

    def __init__(
        self, model: onnx.ModelProto, precision: Precision, greatest: Mapping[str, float]
    ) -> None:
        self.precision, self.greatest = precision, greatest
        self.opset = default_opset(model)
        self.names = tensor_names(model.graph)
        self.types = element_types(model)
        self.nodes = 0
        self.kept: list[tuple[str, str]] = []

    def graph(self, graph: onnx.GraphProto, scope: _Scope) -> None:
        self._enter(graph, scope)
        outputs = {value.name for value in graph.output}
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            self._node(node, scope, outputs, nodes)
        del graph.node[:], graph.value_info[:]
        graph.node.extend(nodes)
        self._write_weights(graph, scope, outputs)

    def _enter(self, graph: onnx.GraphProto, scope: _Scope) -> None:
        for value in graph.input:
            scope.moving.add(value.name)
            scope.types[value.name] = value.type.tensor_type.elem_type
        given = {value.name for value in graph.input}
        for tensor in graph.initializer:
            scope.types[tensor.name] = tensor.data_type
            if tensor.data_type == FLOAT and tensor.name not in given:
                scope.weights[tensor.name] = as_array(tensor)
                scope.owned.add(tensor.name)
        for sparse in graph.sparse_initializer:
            scope.types[sparse.values.name] = sparse.values.data_type
        local = [*given, *(one.name for one in graph.initializer)]
        for name in local:
            scope.full[name] = name

    def _node(
        self,
        node: onnx.NodeProto,
        scope: _Scope,
        outputs: set[str],
        nodes: list[onnx.NodeProto],
    ) -> None:
        """Write a node, in front of it the casts that it needs."""
        for name in node.output:
            scope.types[name] = self.types.get(name, TensorProto.UNDEFINED)
        captured = {name for inner in subgraphs(node) for name in tensor_names(inner)}
        if node.op_type not in ("Shape", "Size") and scope.moving & {*node.input, *captured}:
            scope.moving.update(node.output)
        reading, making = self._halves(node, scope)
        if not reading and not making:
            self._plain(node, scope, captured, nodes)
            return
        self.nodes += 1
        made = list(node.output)
        node.input[:] = [
            self._half(name, scope, nodes) if place in reading else self._full(name, scope, nodes)
            for place, name in enumerate(node.input)
        ]
        if making:
            _retarget(node, self.precision)
        for place, name in enumerate(made):
            if place not in making:
                scope.full[name] = name
                continue
            scope.half[name] = name
            if name in outputs:  # which keep their type: the half gets a name of its own
                scope.half[name] = node.output[place] = unused(f"{name}.half", self.names)
        nodes.append(node)
        for name in made:
            if name in outputs:
                self._full(name, scope, nodes)

    def _plain(
        self,
        node: onnx.NodeProto,
        scope: _Scope,
        captured: set[str],
        nodes: list[onnx.NodeProto],
    ) -> None:
        """Write a node that stays as it is, given f32."""
        node.input[:] = [self._full(name, scope, nodes) for name in node.input]
        around = {
            name: self._full(name, scope, nodes)
            for name in sorted(captured & (scope.half.keys() | scope.full.keys()))
        }
        for inner in subgraphs(node):
            changed = {old: new for old, new in around.items() if old != new}
            if changed:
                rename(inner, lambda name, to=changed: to.get(name, name), lambda name: name)
            inside = scope.inner()
            inside.full |= {name: name for name in around.values()}
            inside.types |= {new: scope.types.get(old, 0) for old, new in around.items()}
            inside.moving |= {new for old, new in around.items() if old in scope.moving}
            self.graph(inner, inside)
        scope.full |= {name: name for name in node.output}
        nodes.append(node)

    def _halves(self, node: onnx.NodeProto, scope: _Scope) -> tuple[set[int], set[int]]:
        """Return which inputs a node is given as halves, and which outputs it makes as such."""
        nothing: tuple[set[int], set[int]] = (set(), set())
        if node.domain not in ("", "ai.onnx") or any(True for _ in subgraphs(node)):
            return nothing
        floats = [name for name in node.output if scope.types.get(name) == FLOAT]
        known = all(scope.types.get(name) for name in (*node.input, *node.output) if name)
        if not known or not scope.moving & set(node.input):
            return nothing
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opset, "")
        except onnx.defs.SchemaError:
            return nothing
        allowed = {
            one.type_param_str: _SCHEMA[self.precision] in one.allowed_type_strs
            for one in schema.type_constraints
        }
        reading: set[int] = set()
        turned: set[str] = set()  # names of the schema's types that stand for halves
        for place, name in enumerate(node.input):
            kind = _formal(schema.inputs, place)
            if name and scope.types.get(name) == FLOAT and allowed.get(kind, False):
                reading.add(place)
                turned.add(kind)
        making = {
            place
            for place, name in enumerate(node.output)
            if name in floats and _formal(schema.outputs, place) in turned
        }
        if node.op_type == "Cast" and floats and allowed.get("T2", False):
            making = {0}
        if not reading and not making:
            return nothing
        reason = self._reason(node, scope)
        if reason is not None:
            self.kept.append((f"{node.op_type} `{_shown(node)}`", reason))
            return nothing
        return reading, making

    def _reason(self, node: onnx.NodeProto, scope: _Scope) -> str | None:
        if node.op_type in SENSITIVE:
            return SENSITIVE[node.op_type]
        for name in node.input:
            if name in scope.weights:
                reason = constant_reason(name, scope.weights[name], self.precision)
                if reason is not None:
                    return reason
        return range_reason(node, self.greatest, self.precision)

    def _half(self, name: str, scope: _Scope, nodes: list[onnx.NodeProto]) -> str:
        if name not in scope.half:
            scope.half[name] = unused(f"{name}.half", self.names)
            if name not in scope.owned:
                to = TYPE[self.precision]
                nodes.append(
                    helper.make_node(
                        "Cast", [scope.full.get(name, name)], [scope.half[name]], to=to
                    )
                )
        return scope.half[name]

    def _full(self, name: str, scope: _Scope, nodes: list[onnx.NodeProto]) -> str:
        if name in scope.full or name not in scope.half:
            return scope.full.get(name, name)
        half = scope.half[name]
        scope.full[name] = name if half != name else unused(f"{name}.full", self.names)
        nodes.append(helper.make_node("Cast", [half], [scope.full[name]], to=FLOAT))
        return scope.full[name]

    def _write_weights(self, graph: onnx.GraphProto, scope: _Scope, outputs: set[str]) -> None:
        """Write the weights in the forms in which nodes read them."""
        read = {name for node in graph.node for name in node.input} | outputs
        for node in graph.node:
            for inner in subgraphs(node):
                read |= tensor_names(inner)
        given = {value.name for value in graph.input}
        weights: list[onnx.TensorProto] = []
        for tensor in graph.initializer:
            if tensor.name in read or tensor.name in given:
                weights.append(tensor)
            half = scope.half.get(tensor.name)
            if half in read and tensor.name in scope.owned:
                weights.append(half_tensor(half or "", scope.weights[tensor.name], self.precision))
        del graph.initializer[:]
        graph.initializer.extend(weights)


def _formal(formals: "Sequence[onnx.defs.OpSchema.FormalParameter]", place: int) -> str:
    """Return the schema's type of an input or output; the last may stand for any number."""
    return formals[min(place, len(formals) - 1)].type_str if formals else ""


def _retarget(node: onnx.NodeProto, precision: Precision) -> None:
    """Let a Cast to f32 make halves."""
    for attribute in node.attribute:
        if node.op_type == "Cast" and attribute.name == "to":
            attribute.i = TYPE[precision]


def _shown(node: onnx.NodeProto) -> str:
    return node.name or next((name for name in node.output if name), "")
