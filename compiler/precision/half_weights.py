"""Halves as ONNX models hold them: weights of two bytes, and what halves would come to in f32."""

from typing import Final

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from ...stdlib.op import Array, Decline
from ..onnx_names import subgraphs, tensor_names, unused
from .kept import as_array
from .report import Precision

FLOAT: Final = TensorProto.FLOAT
TYPE: Final = {Precision.FP16: TensorProto.FLOAT16, Precision.BF16: TensorProto.BFLOAT16}
_NUMPY: Final = {Precision.FP16: np.float16, Precision.BF16: ml_dtypes.bfloat16}


def weights_halved(model: onnx.ModelProto, precision: Precision) -> onnx.ModelProto:
    """Return a model whose weights are halves and are cast when it is loaded; raises Decline."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    constants_as_weights(new.graph)
    if not _halve_weights(new.graph, tensor_names(new.graph), precision):
        raise Decline(f"it has no weights that could be {precision.value}")
    return new


def rounded(model: onnx.ModelProto, precision: Precision) -> onnx.ModelProto:
    """Return a model that computes in f32 what one in halves would: each value is rounded to them.

    A processor would otherwise leave out the casts between two nodes, and some it cannot compute
    with at all.
    """
    types = element_types(model)
    new = onnx.ModelProto()
    new.CopyFrom(model)
    names = tensor_names(new.graph)
    half = TYPE[precision]

    def part(graph: onnx.GraphProto) -> None:
        nodes: list[onnx.NodeProto] = []
        for node in graph.node:
            for inner in subgraphs(node):
                part(inner)
            nodes.append(node)
            for place, name in enumerate(node.output):
                if types.get(name) != half:
                    continue
                exact = node.output[place] = unused(f"{name}.exact", names)
                if node.op_type != "Cast":
                    exact = unused(f"{name}.half", names)
                    nodes.append(helper.make_node("Cast", [node.output[place]], [exact], to=half))
                nodes.append(helper.make_node("Cast", [exact], [name], to=FLOAT))
        for tensor in graph.initializer:
            if tensor.data_type == half:
                tensor.CopyFrom(
                    numpy_helper.from_array(as_array(tensor).astype(np.float32), tensor.name)
                )
        del graph.node[:]
        graph.node.extend(nodes)

    part(new.graph)
    return new


def _halve_weights(graph: onnx.GraphProto, names: set[str], precision: Precision) -> int:
    """Put halves in place of matrices and kernels; return how many."""
    fixed = {value.name for value in (*graph.input, *graph.output)}
    casts: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    for tensor in graph.initializer:
        # sizes and scales are vectors, and little is gained by those
        if tensor.data_type != FLOAT or tensor.name in fixed or len(tensor.dims) < 2:
            weights.append(tensor)
            continue
        half = unused(f"{tensor.name}.half", names)
        weights.append(half_tensor(half, as_array(tensor), precision))
        casts.append(helper.make_node("Cast", [half], [tensor.name], to=FLOAT))
    count = len(casts)
    for node in graph.node:
        count += sum(_halve_weights(inner, names, precision) for inner in subgraphs(node))
    nodes = [*casts, *graph.node]
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(weights)
    graph.node.extend(nodes)
    return count


def element_types(model: onnx.ModelProto) -> dict[str, int]:
    """Return the element types of what nodes make, as far as they can be told."""
    try:
        inferred = shape_inference.infer_shapes(model)
    except (shape_inference.InferenceError, RuntimeError) as error:
        raise Decline(f"the types in it cannot be told: {error}") from error
    found: dict[str, int] = {}

    def read(graph: onnx.GraphProto) -> None:
        for value in (*graph.value_info, *graph.input, *graph.output):
            found[value.name] = value.type.tensor_type.elem_type
        for node in graph.node:
            for inner in subgraphs(node):
                read(inner)

    read(inferred.graph)
    return found


def constants_as_weights(graph: onnx.GraphProto) -> None:
    """Make initialisers of the Constant nodes that hold a tensor of floats."""
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        value = next((one for one in node.attribute if one.name in ("value", "value_float")), None)
        floats = value is not None and (value.name != "value" or value.t.data_type == FLOAT)
        if node.op_type != "Constant" or value is None or not floats:
            kept.append(node)
            for inner in subgraphs(node):
                constants_as_weights(inner)
            continue
        tensor = graph.initializer.add()
        if value.name == "value":
            tensor.CopyFrom(value.t)
        else:
            tensor.CopyFrom(helper.make_tensor("", FLOAT, [], [value.f]))
        tensor.name = node.output[0]
    del graph.node[:]
    graph.node.extend(kept)


def half_tensor(name: str, value: Array, precision: Precision) -> onnx.TensorProto:
    halves = value.astype(_NUMPY[precision])
    tensor = onnx.TensorProto(name=name, data_type=TYPE[precision], raw_data=halves.tobytes())
    tensor.dims.extend(value.shape)
    return tensor
