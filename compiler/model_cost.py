"""What one run of an ONNX model costs, counted in multiply-adds, as far as its shapes tell.

Products and convolutions count what they multiply, recurrent nodes that for each step, any other
node the elements it reads or makes. A model whose shapes are not all known, that has branches or
loops of its own, or ops of another domain, has no cost here.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

import onnx
from onnx import shape_inference

from ..dsl.types import TensorType
from .graph import ModelDef
from .onnx_names import subgraphs

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]

_HEAVY = 64 * 2**20
"""Bytes of a model that need not be looked into."""


def multiply_adds(model: ModelDef, proto: onnx.ModelProto) -> int | None:
    """Return the cost of a run of one row; None when it is not known."""
    if proto.functions or proto.ByteSize() > _HEAVY:
        return None
    shapes = _shapes(model, proto)
    if shapes is None:
        return None
    total = 0
    for node in proto.graph.node:
        cost = _node(node, shapes)
        if cost is None:
            return None
        total += cost
    return total


def _shapes(model: ModelDef, proto: onnx.ModelProto) -> Shapes | None:
    """Return the shape of every tensor, None when one is unknown."""
    told = onnx.ModelProto()
    told.CopyFrom(proto)
    fields = zip(model.input_names, model.signature.params, model.input_axes, strict=True)
    given = {name: (field.type, axis) for name, field, axis in fields}
    for value in told.graph.input:
        type, axis = given.get(value.name, (None, None))
        if not isinstance(type, TensorType):
            continue
        sizes = list(type.dims)
        if axis is not None:
            sizes.insert(axis, 1)
        for dim, size in zip(value.type.tensor_type.shape.dim, sizes, strict=False):
            if isinstance(size, int):
                dim.dim_value = size
    for value in told.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        inferred = shape_inference.infer_shapes(told, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError):
        return None
    graph = inferred.graph
    found = {one.name: tuple(one.dims) for one in graph.initializer}
    for value in (*graph.input, *graph.output, *graph.value_info):
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            return None
        if any(not dim.HasField("dim_value") for dim in tensor.shape.dim):
            return None
        found[value.name] = tuple(dim.dim_value for dim in tensor.shape.dim)
    return found


def _node(node: onnx.NodeProto, shapes: Shapes) -> int | None:
    if node.domain not in ("", "ai.onnx") or any(True for _ in subgraphs(node)):
        return None
    read = [shapes.get(name) for name in node.input if name]
    made = [shapes.get(name) for name in node.output if name]
    known = [shape for shape in (*read, *made) if shape is not None]
    if len(known) < len(read) + len(made):
        return None
    inputs, outputs = known[: len(read)], known[len(read) :]
    return _cost(node, inputs, outputs)


def _cost(
    node: onnx.NodeProto, inputs: Sequence[tuple[int, ...]], outputs: Sequence[tuple[int, ...]]
) -> int | None:
    match node.op_type:
        case "MatMul":
            return prod(outputs[0]) * (inputs[0][-1] if inputs[0] else 1)
        case "Gemm":
            turned = any(one.name == "transA" and one.i for one in node.attribute)
            return prod(outputs[0]) * inputs[0][0 if turned else 1]
        case "Conv":
            return prod(outputs[0]) * prod(inputs[1][1:])
        case "ConvTranspose":
            return prod(inputs[0]) * prod(inputs[1][1:])
        case "LSTM" | "GRU" | "RNN":
            steps, batch = inputs[0][0], inputs[0][1]
            return steps * batch * (prod(inputs[1]) + prod(inputs[2]))
        case "Einsum":
            return None
        case _:
            return max(map(prod, (*inputs, *outputs)), default=0)
