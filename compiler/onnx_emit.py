"""Writes ops as ONNX nodes: the Emitter that lowerings are given.

Lowerings speak opset 13 or later. For an older model the few forms that changed with 13 are
written in the old way (`axes` as an attribute), and what means something else there is declined.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..dsl.types import DType, TensorType, Type
from ..stdlib.dtypes import to_numpy, to_onnx
from ..stdlib.lowering import tensor_type
from ..stdlib.op import Array, Decline, Literal, Op, Operand
from .onnx_names import unused

SPOKEN_OPSET: Final = 13
"""The oldest opset that lowerings are written for."""

OLDEST_OPSET: Final = 8
"""Before, elementwise ops did not broadcast in ONNX Runtime's kernels."""

# Before opset 13 the second input was this attribute.
_INPUT_WAS_ATTRIBUTE: Final = {
    "Squeeze": "axes",
    "Unsqueeze": "axes",
    "ReduceSum": "axes",
    "Split": "split",
}
# Before opset 13 these flattened all axes from `axis` on.
_FLATTENED: Final = frozenset({"Softmax", "LogSoftmax", "Hardmax"})


class Sheet:
    """Nodes and initialisers to be added to a graph whose tensors are named in `taken`."""

    def __init__(self, opset: int, taken: Iterable[str]) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self._taken = set(taken)
        self._shared: dict[Hashable, str] = {}
        self._published: dict[str, str] = {}

    def name(self, wanted: str) -> str:
        """Return a name like `wanted` that no tensor has, and take it."""
        return unused(wanted, self._taken)

    def constant(self, value: Array) -> str:
        """Return the name of an initialiser; equal ones are one."""
        value = np.asarray(value)
        content = tuple(value.ravel()) if value.dtype == object else value.tobytes()
        key = (str(value.dtype), value.shape, content)
        if key not in self._shared:
            name = self.name("constant")
            self._shared[key] = name
            self.constants[name] = value
        return self._shared[key]

    def publish(self, tensor: str, name: str) -> None:
        """Let a tensor leave the sheet as `name`, which is taken already."""
        tensor = self._published.get(tensor, tensor)
        if tensor in self._published.values() or not any(
            tensor in node.output for node in self.nodes
        ):
            self.nodes.append(helper.make_node("Identity", [tensor], [name]))
            return
        for node in self.nodes:
            node.input[:] = [name if one == tensor else one for one in node.input]
            node.output[:] = [name if one == tensor else one for one in node.output]
        self._published[tensor] = name

    def initializers(self) -> list[onnx.TensorProto]:
        """Return the constants that nodes read, as tensors."""
        read = {name for node in self.nodes for name in node.input}
        return [
            numpy_helper.from_array(value, name)
            for name, value in self.constants.items()
            if name in read
        ]


class OnnxEmitter:
    """What one op is lowered with; implements `stdlib.op.Emitter` over a sheet."""

    def __init__(self, sheet: Sheet, operands: Sequence[Operand]) -> None:
        self._sheet = sheet
        self._batched = any(operand.batched for operand in operands)
        self._ranks = {  # of the graph's tensors, as far as they are operands
            one.tensor: len(one.type.dims) + one.batched
            for one in operands
            if isinstance(one.type, TensorType)
        }

    @property
    def batched(self) -> bool:
        return self._batched

    @property
    def opset(self) -> int:
        return max(self._sheet.opset, SPOKEN_OPSET)

    def node(
        self, op_type: str, inputs: Sequence[str], outputs: int = 1, **attributes: object
    ) -> tuple[str, ...]:
        given = list(inputs)
        if self._sheet.opset < SPOKEN_OPSET:
            given = self._old_form(op_type, given, attributes)
        names = tuple(self._sheet.name("glued") for _ in range(outputs))
        node = helper.make_node(op_type, given, list(names))
        node.attribute.extend(
            helper.make_attribute(key, value)
            for key, value in sorted(attributes.items())
            if value is not None
        )
        self._sheet.nodes.append(node)
        return names

    def constant(self, value: Array) -> str:
        return self._sheet.constant(value)

    def tensor(self, operand: Operand, dtype: DType | None = None) -> str:
        if operand.tensor is not None:
            return operand.tensor
        if dtype is None:
            if not isinstance(operand.type, TensorType):
                raise Decline(f"a literal of type {operand.type} is no tensor")
            dtype = operand.type.dtype
        return self._sheet.constant(literal_tensor(operand.literal, dtype))

    def axis(self, axis: int, rank: int) -> int:
        return (axis + rank if axis < 0 else axis) + (1 if self._batched else 0)

    def _old_form(
        self, op_type: str, inputs: list[str], attributes: dict[str, object]
    ) -> list[str]:
        bounds = [self._sheet.constants.get(name) for name in inputs[1:]]
        if op_type == "Clip" and any(one is not None and one.dtype != np.float32 for one in bounds):
            raise Decline(f"ONNX Runtime clips only f32 in opset {self._sheet.opset}")
        if op_type in _FLATTENED:
            last = self._ranks.get(inputs[0], 0) - 1
            if attributes.get("axis", -1) not in (-1, last):
                raise Decline(f"{op_type} flattens its input in opset {self._sheet.opset}")
            attributes["axis"] = -1  # was 1 by default
        if op_type in _INPUT_WAS_ATTRIBUTE and len(inputs) == 2:
            value = self._sheet.constants.get(inputs[1])
            if value is None:
                raise Decline(
                    f"{op_type} takes computed {_INPUT_WAS_ATTRIBUTE[op_type]} only from opset "
                    f"{SPOKEN_OPSET} on, and the model has {self._sheet.opset}"
                )
            attributes[_INPUT_WAS_ATTRIBUTE[op_type]] = [int(one) for one in value.ravel()]
            return inputs[:1]
        return inputs


def literal_tensor(literal: Literal, dtype: DType) -> Array:
    """Return a literal as an array of `dtype`; raises Decline when it is none."""
    if literal is None or isinstance(literal, DType):
        raise Decline(f"the literal {literal!r} is no tensor")
    return np.asarray(literal, to_numpy(dtype))


def write_op(
    sheet: Sheet, op: Op, operands: Sequence[Operand], results: Sequence[Type]
) -> tuple[str, ...]:
    """Add an op's nodes to the sheet and return the names of its results.

    Raises Decline when the op has no lowering or the lowering does not apply.
    """
    if op.lowering is None:
        raise Decline("it has no ONNX form")
    if sheet.opset < OLDEST_OPSET:
        raise Decline(f"the model's opset {sheet.opset} is older than {OLDEST_OPSET}")
    return op.lowering(OnnxEmitter(sheet, operands), operands, results)


def try_op(op: Op, operands: Sequence[Operand], results: Sequence[Type], opset: int) -> None:
    """Raise Decline, with the reason, unless the op can be written in this opset."""
    inputs = {
        f"given_{i}": replace(one, tensor=f"given_{i}")
        for i, one in enumerate(operands)
        if one.tensor is not None
    }
    given = [inputs.get(f"given_{i}", one) for i, one in enumerate(operands)]
    sheet = Sheet(opset, inputs)
    outputs = write_op(sheet, op, given, results)
    axis = 0 if any(one.batched for one in given) else None
    graph = helper.make_graph(
        sheet.nodes,
        "trial",
        [
            value_info(name, tensor_type(one.type), 0 if one.batched else None)
            for name, one in inputs.items()
        ],
        [
            value_info(name, tensor_type(type), axis)
            for name, type in zip(outputs, results, strict=True)
        ],
        sheet.initializers(),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        text = str(error).strip().splitlines()[0]
        raise Decline(f"its form is not valid in the model's opset {opset}: {text}") from error


def value_info(name: str, type: TensorType, axis: int | None) -> onnx.ValueInfoProto:
    """Return the declaration of an input or output; `axis` is where its batch axis stands.

    Sizes are not told, even where they are known: given more than the model's own file says,
    ONNX Runtime chooses other kernels, and the last bits of the results change.
    """
    rank = len(type.dims) + (axis is not None)
    return helper.make_tensor_value_info(name, to_onnx(type.dtype), [None] * rank)
