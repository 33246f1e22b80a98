"""Builds the model that a cluster becomes: ops before and after as nodes of its own graph."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx
from onnx import helper

from ..dsl.types import Field, Signature
from ..stdlib.lowering import tensor_type
from ..stdlib.op import Decline, Operand
from .glue_cluster import Cluster, front, literal_operand, op_of
from .glue_dims import CallSizes
from .graph import Check, ModelDef, Node, Value
from .onnx_emit import Sheet, value_info, write_op
from .onnx_merge import new_model, require_plain
from .onnx_names import tensor_names, unused
from .onnx_opset import default_opset
from .onnx_order import move_transposes_first
from .onnx_store import OnnxStore
from .rewrite import Uses, sizes, sizes_of


@dataclass(frozen=True, slots=True)
class Glued:
    """A model with ops inside, and the call of it that replaces the cluster."""

    model: ModelDef
    call: Node


@dataclass(frozen=True, slots=True)
class _Border:
    """An input or output of the new model."""

    value: Value
    field: Field
    axis: int | None
    tensor: str
    declared: onnx.ValueInfoProto


def glue(cluster: Cluster, model: ModelDef, uses: Uses, store: OnnxStore) -> Glued:
    """Return the model with the cluster's ops inside; raises Decline."""
    if model.content is None:
        raise Decline("its file has not been read")
    return _Gluing(cluster, model, uses, store.proto(model.content)).glued(store)


class _Gluing:
    """The making of one model."""

    def __init__(
        self, cluster: Cluster, model: ModelDef, uses: Uses, proto: onnx.ModelProto
    ) -> None:
        self.cluster, self.model, self.uses, self.proto = cluster, model, uses, proto
        self.sheet = Sheet(default_opset(proto), tensor_names(proto.graph))
        self.sizes = CallSizes(cluster.call, model)
        self.made_by = {value: node for node in cluster.ops for value in node.outputs}
        self.declared = {one.name: one for one in (*proto.graph.input, *proto.graph.output)}
        self.field_names = {
            field.name
            for field, value in zip(model.signature.params, cluster.call.inputs, strict=True)
            if value not in self.made_by
        }

    def glued(self, store: OnnxStore) -> Glued:
        require_plain(self.proto)
        inputs = self._inputs()
        before = self._write_before(inputs)
        outputs, after = self._write_after(inputs)
        signature = Signature(
            tuple(one.field for one in inputs), tuple(one.field for one in outputs)
        )
        checks = self._checks(signature, inputs, outputs)
        proto = self._assembled(before, after, inputs, outputs)
        call = self.cluster.call
        return Glued(
            replace(
                self.model,
                signature=signature,
                input_names=tuple(one.tensor for one in inputs),
                output_names=tuple(one.tensor for one in outputs),
                input_axes=tuple(one.axis for one in inputs),
                output_axes=tuple(one.axis for one in outputs),
                content=store.blob(proto),
                members=(
                    *map(_name, self.cluster.before),
                    *(self.model.members or (self.model.name,)),
                    *map(_name, self.cluster.after),
                ),
                checks=checks,
                pads=(),  # what was said of the model's own inputs
            ),
            replace(
                call,
                inputs=tuple(one.value for one in inputs),
                outputs=tuple(one.value for one in outputs),
            ),
        )

    def _inputs(self) -> list[_Border]:
        """Return the new inputs: kept ones, and what the ops before read, in place of theirs."""
        found: list[_Border] = []
        seen: dict[tuple[Value, int | None], _Border] = {}

        def visit(value: Value, axis: int | None, stem: str) -> None:
            maker = self.made_by.get(value)
            if maker is not None:
                for inner in maker.inputs:
                    visit(inner, axis, stem)
            elif not self.uses.is_literal(value) and (value, axis) not in seen:
                seen[value, axis] = self._border(value, axis, stem)
                found.append(seen[value, axis])

        names = zip(self.model.input_names, self.model.signature.params, strict=True)
        for i, (name, field) in enumerate(names):
            value, axis = self.cluster.call.inputs[i], self.model.input_axes[i]
            if value in self.made_by:
                visit(value, front(axis), field.name)
                continue
            found.append(_Border(value, field, axis, name, self.declared[name]))
            seen.setdefault((value, axis), found[-1])
        for node in self.cluster.after:
            for value in node.inputs:
                if value not in self.cluster.call.outputs and value not in self.made_by:
                    visit(value, 0 if self.model.batches else None, "given")
        return found

    def _border(self, value: Value, axis: int | None, stem: str) -> _Border:
        """Declare a new input or output for a value of the graph."""
        type = tensor_type(value.type)
        tensor = self.sheet.name(stem)
        field = Field(unused(stem, self.field_names), self.sizes.of_model(type))
        return _Border(value, field, axis, tensor, value_info(tensor, type, axis))

    def _write_before(self, inputs: Sequence[_Border]) -> list[onnx.NodeProto]:
        tensors = {(one.value, one.axis): one.tensor for one in inputs}
        axes = self._axes_before()
        for node in self.cluster.before:
            self._write(node, axes[node], tensors)
        dtypes = {one.tensor: tensor_type(one.value.type).dtype for one in inputs}
        move_transposes_first(self.sheet, dtypes)
        for i, value in enumerate(self.cluster.call.inputs):
            if value in self.made_by:
                axis = self.model.input_axes[i]
                made = tensors[value, front(axis)]
                if axis:
                    made = self._moved(made, value, 0, axis)
                self.sheet.publish(made, self.model.input_names[i])
        before, self.sheet.nodes = self.sheet.nodes, []
        return before

    def _axes_before(self) -> dict[Node, int | None]:
        axes: dict[Node, int | None] = {}
        wanted = {
            value: front(axis)
            for value, axis in zip(self.cluster.call.inputs, self.model.input_axes, strict=True)
        }
        for node in reversed(self.cluster.before):
            axes[node] = next(wanted[value] for value in node.outputs if value in wanted)
            for value in node.inputs:
                wanted.setdefault(value, axes[node])
        return axes

    def _moved(self, tensor: str, value: Value, source: int, target: int) -> str:
        """Write a transpose that moves the batch axis of a tensor; return what it makes."""
        order = list(range(len(tensor_type(value.type).dims) + 1))
        order.insert(target, order.pop(source))
        moved = self.sheet.name("glued")
        self.sheet.nodes.append(helper.make_node("Transpose", [tensor], [moved], perm=order))
        return moved

    def _write_after(self, inputs: Sequence[_Border]) -> tuple[list[_Border], list[onnx.NodeProto]]:
        """Write the ops behind; return the new outputs and the nodes."""
        call, model = self.cluster.call, self.model
        tensors = {(one.value, one.axis): one.tensor for one in inputs}
        axes = {one.value: one.axis for one in inputs if one.axis in (None, 0)}
        stems: dict[Value, str] = {}
        outputs: list[_Border] = []
        after = set(self.cluster.after)
        for i, value in enumerate(call.outputs):
            name, field = model.output_names[i], model.signature.results[i]
            axes[value] = model.output_axes[i]
            tensors[value, axes[value]] = name
            stems[value] = field.name
            if not any(reader.node in after for reader in self.uses.readers(value)):
                outputs.append(_Border(value, field, axes[value], name, self.declared[name]))
            elif axis := axes[value]:
                tensors[value, 0], axes[value] = self._moved(name, value, axis, 0), 0
        names = {one.field.name for one in outputs}
        for node in self.cluster.after:
            operands = [value for value in node.inputs if not self.uses.is_literal(value)]
            axis = 0 if any(axes[value] is not None for value in operands) else None
            self._write(node, axis, tensors, axes)
            stem = next(stems[value] for value in operands if value in stems)
            for value in node.outputs:
                axes[value], stems[value] = axis, stem
                if any(reader.node in after for reader in self.uses.readers(value)):
                    continue
                type = tensor_type(value.type)
                tensor = self.sheet.name(f"{stem}_out")
                field = Field(unused(stem, names), self.sizes.of_model(type))
                declared = value_info(tensor, type, axis)
                outputs.append(_Border(value, field, axis, tensor, declared))
        for one in outputs:
            if one.value not in call.outputs:
                self.sheet.publish(tensors[one.value, one.axis], one.tensor)
        return outputs, self.sheet.nodes

    def _write(
        self,
        node: Node,
        axis: int | None,
        tensors: dict[tuple[Value, int | None], str],
        axes: dict[Value, int | None] | None = None,
    ) -> None:
        operands: list[Operand] = []
        for value in node.inputs:
            if self.uses.is_literal(value):
                operands.append(literal_operand(self.uses, value))
                continue
            own = axis if axes is None else axes[value]
            operands.append(Operand(value.type, tensors[value, own], batched=own is not None))
        results = [value.type for value in node.outputs]
        names = write_op(self.sheet, op_of(node), operands, results)
        for value, name in zip(node.outputs, names, strict=True):
            tensors[value, axis] = name

    def _checks(
        self, signature: Signature, inputs: Sequence[_Border], outputs: Sequence[_Border]
    ) -> tuple[Check, ...]:
        """Return the model's checks. Each must still see its sizes, or hold for this call; so
        must those of other stages, which find sizes in the shapes of values."""
        seen = {dim for one in (*signature.params, *signature.results) for dim in sizes(one.type)}
        kept = [check for check in self.model.checks if sizes_of(check) <= seen]
        for check in self.model.checks:
            if check not in kept and not self.sizes.holds(check):
                raise Decline(f"`{check.text}` is checked of sizes that would be inside")
        visible = {dim for one in (*inputs, *outputs) for dim in sizes(one.value.type)}
        for value in (*self.made_by, *self.cluster.call.outputs):
            hidden = (sizes(value.type) & self.uses.checked) - visible
            if hidden:
                raise Decline(f"the size `{min(map(str, hidden))}` is checked and would be inside")
        return tuple(kept)

    def _assembled(
        self,
        before: Sequence[onnx.NodeProto],
        after: Sequence[onnx.NodeProto],
        inputs: Sequence[_Border],
        outputs: Sequence[_Border],
    ) -> onnx.ModelProto:
        self.sheet.nodes = [*before, *after]
        old, new = self.proto, new_model(self.proto.ir_version, self.proto.opset_import)
        new.functions.extend(old.functions)
        new.graph.node.extend([*before, *old.graph.node, *after])
        new.graph.input.extend(one.declared for one in inputs)
        new.graph.output.extend(one.declared for one in outputs)
        new.graph.initializer.extend([*old.graph.initializer, *self.sheet.initializers()])
        new.graph.sparse_initializer.extend(old.graph.sparse_initializer)
        new.graph.quantization_annotation.extend(old.graph.quantization_annotation)
        new.graph.value_info.extend(old.graph.value_info)
        kept = {one.tensor for one in (*inputs, *outputs)}
        inner = (*old.graph.input, *old.graph.output)  # what their shapes told is told still
        new.graph.value_info.extend(one for one in inner if one.name not in kept)
        return new


def _name(node: Node) -> str:
    return op_of(node).name
