"""Raises the opset of an ONNX model where that provably keeps its meaning, and declines else.

Between two opsets most ops gained dtypes only. A node is let through when the newer schema takes
the same attributes with the same defaults; the few ops whose meaning changed under the same
schema are listed here, and those that moved an attribute to an input are rewritten.
"""

from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..stdlib.op import Decline
from .onnx_names import all_nodes, tensor_names

# From this opset on the attribute is the second input.
_BECAME_INPUT: Final = {
    "Squeeze": ("axes", 13),
    "Unsqueeze": ("axes", 13),
    "ReduceSum": ("axes", 13),
    "Split": ("split", 13),
    "ReduceL1": ("axes", 18),
    "ReduceL2": ("axes", 18),
    "ReduceLogSum": ("axes", 18),
    "ReduceLogSumExp": ("axes", 18),
    "ReduceMax": ("axes", 18),
    "ReduceMean": ("axes", 18),
    "ReduceMin": ("axes", 18),
    "ReduceProd": ("axes", 18),
    "ReduceSumSquare": ("axes", 18),
}
# Flattened all axes from `axis` on before opset 13, work along one axis since.
_FLATTENED: Final = frozenset({"Softmax", "LogSoftmax", "Hardmax"})
# Mean something else, or take other values, under a schema that does not show it.
_CHANGED: Final = frozenset({"GridSample", "RoiAlign", "GroupNormalization"})
_SINCE_11: Final = frozenset({"Resize", "Scan"})


def default_opset(model: onnx.ModelProto) -> int:
    """Return the version of the default domain; a model that names none uses none of its ops."""
    return max(
        (one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=1
    )


def raised(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """Return the model in a newer opset; raises Decline with the op that stands against it."""
    old = default_opset(model)
    if old == opset:
        return model
    if model.functions:
        raise Decline(f"it defines functions, which stay in opset {old}")
    new = onnx.ModelProto()
    new.CopyFrom(model)
    added = _Added(tensor_names(new.graph))
    for node in all_nodes(new.graph):
        if node.domain in ("", "ai.onnx"):
            _raise_node(node, old, opset, added)
    new.graph.initializer.extend(added.tensors)
    others = [one for one in new.opset_import if one.domain not in ("", "ai.onnx")]
    del new.opset_import[:]
    new.opset_import.extend([helper.make_opsetid("", opset), *others])
    return new


class _Added:
    """Initialisers that attributes have become."""

    def __init__(self, taken: set[str]) -> None:
        self.tensors: list[onnx.TensorProto] = []
        self._taken = taken

    def integers(self, values: list[int]) -> str:
        name = f"integers_{len(self.tensors)}"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        self.tensors.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name


def _raise_node(node: onnx.NodeProto, old: int, new: int, added: _Added) -> None:
    op = node.op_type
    before, after = _schema(op, old), _schema(op, new)
    if before.since_version == after.since_version:
        return
    mode = _attribute(node, "coordinate_transformation_mode")
    changed = op in _CHANGED or (op in _SINCE_11 and old < 11) or mode == b"tf_half_pixel_for_nn"
    if changed or after.deprecated:
        raise Decline(f"{op} of opset {old} means something else in opset {new}")
    if op in _FLATTENED and old < 13 <= new and _attribute(node, "axis") != -1:
        raise Decline(f"{op} of opset {old} flattens its input, that of {new} does not")
    if op == "AveragePool" and _attribute(node, "ceil_mode") == 1:
        raise Decline(f"AveragePool with ceil_mode counts differently in opset {new}")
    if op in ("BatchNormalization", "Dropout") and len(node.output) > 1:
        raise Decline(f"{op} with several outputs differs between opset {old} and {new}")
    name, since = _BECAME_INPUT.get(op, ("", 0))
    if old < since <= new and len(node.input) == 1:
        values = _attribute(node, name)
        if values is not None:
            node.input.append(added.integers(values))
            _drop_attribute(node, name)
    if op == "Split" and old < 18 <= new and len(node.input) == 1:
        node.attribute.append(helper.make_attribute("num_outputs", len(node.output)))
    _require_same(node, before, after)


def _require_same(
    node: onnx.NodeProto, before: onnx.defs.OpSchema, after: onnx.defs.OpSchema
) -> None:
    where = f"{node.op_type} of opset {before.since_version} and of {after.since_version}"
    for attribute in node.attribute:
        if attribute.name not in after.attributes:
            raise Decline(f"{where} differ in the attribute {attribute.name}")
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in after.attributes.items():
        earlier = before.attributes.get(name)
        if attribute.required and name not in given:
            raise Decline(f"{where} differ in the attribute {name}")
        if name in given or earlier is None:
            continue
        if earlier.default_value != attribute.default_value and node.op_type not in _FLATTENED:
            raise Decline(f"{where} differ in the default of {name}")
    if not after.min_input <= len(node.input) <= after.max_input:
        raise Decline(f"{where} differ in their inputs")


def _schema(op: str, opset: int) -> onnx.defs.OpSchema:
    try:
        return onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError as error:
        raise Decline(f"there is no {op} in opset {opset}") from error


def _attribute(node: onnx.NodeProto, name: str) -> Any:  # Any: an attribute of any type
    found = next((one for one in node.attribute if one.name == name), None)
    return None if found is None else helper.get_attribute_value(found)


def _drop_attribute(node: onnx.NodeProto, name: str) -> None:
    kept = [one for one in node.attribute if one.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)
