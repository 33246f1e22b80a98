"""Bytes in a model for TensorRT, which has them where values come in and go out, and nowhere else.

    x: u8[H, W, 3] -> Transpose -> Cast to f32     becomes     x -> Cast to f32 -> Transpose

What only moves bytes moves floats as well, and every byte is a float exactly. A model that computes
with bytes (where 200 + 100 is 44) is left as it is, with the reason.
"""

from typing import Final

import onnx
from onnx import TensorProto, helper

from .onnx_names import subgraphs, tensor_names, unused

_MOVES: Final = (
    *("Transpose", "Reshape", "Squeeze", "Unsqueeze", "Slice", "Flatten", "Identity", "Expand"),
    *("Split", "Tile", "Gather", "DepthToSpace", "SpaceToDepth"),
)
"""Ops that move their first argument, and of which the others say where to."""


def floats_for_bytes(model: onnx.ModelProto) -> onnx.ModelProto | str:
    """Return a model that has bytes at its border alone, the very same where it does already; or
    why there is none."""
    graph = model.graph
    if any(one.data_type == TensorProto.UINT8 for one in graph.initializer):
        return "it holds bytes among its weights"
    bytes_in = [one.name for one in graph.input if _is_bytes(one)]
    if not bytes_in and not any(_makes_bytes(node) for node in graph.node):
        return model
    if all(_is_cast(node) for node in graph.node if not _read_by(node).isdisjoint(bytes_in)):
        problem = _made_inside(graph)
        return problem if problem is not None else model
    return _widened(model, bytes_in)


def _read_by(node: onnx.NodeProto) -> set[str]:
    """Return the names that a node reads, those in its regions included."""
    found = set(node.input)
    for inner in subgraphs(node):
        for one in inner.node:
            found |= _read_by(one)
        found |= {one.name for one in inner.output}
    return found


def _widened(model: onnx.ModelProto, bytes_in: list[str]) -> onnx.ModelProto | str:
    new = onnx.ModelProto()
    new.CopyFrom(model)
    graph, taken = new.graph, tensor_names(model.graph)
    wide: dict[str, str] = {}  # what holds the floats of what were bytes
    nodes: list[onnx.NodeProto] = []
    for name in bytes_in:
        wide[name] = unused(f"{name}_as_f32", taken)
        nodes.append(helper.make_node("Cast", [name], [wide[name]], to=TensorProto.FLOAT))
    given = {one.name for one in graph.output}
    for node in graph.node:
        reads = _read_by(node) & wide.keys()
        if reads and any(subgraphs(node)):
            return f"its {node.op_type} takes bytes into a region"
        if _makes_bytes(node) and not set(node.output) <= given:
            return "it makes bytes inside"
        if reads and not _is_cast(node):
            if not _moves(node, reads):
                return f"its {node.op_type} computes with bytes"
            for index, name in enumerate(node.output):
                wide[name] = unused(f"{name}_as_f32", taken)
                node.output[index] = wide[name]
        for index, name in enumerate(node.input):
            node.input[index] = wide.get(name, name)
        nodes.append(node)
    nodes += [
        helper.make_node("Cast", [wide[name]], [name], to=TensorProto.UINT8)
        for name in given & wide.keys()
    ]
    nodes = [_copied(node) for node in nodes]
    del graph.node[:]
    graph.node.extend(nodes)
    kept = [one for one in graph.value_info if one.name not in wide]
    del graph.value_info[:]
    graph.value_info.extend(kept)
    return new


def _moves(node: onnx.NodeProto, reads: set[str]) -> bool:
    if node.op_type == "Concat":
        return reads == set(node.input)
    return node.op_type in _MOVES and reads == {node.input[0]}


def _made_inside(graph: onnx.GraphProto) -> str | None:
    given = {one.name for one in graph.output}
    inside = [node for node in graph.node if _makes_bytes(node) and not set(node.output) <= given]
    return "it makes bytes inside" if inside else None


def _copied(node: onnx.NodeProto) -> onnx.NodeProto:
    found = onnx.NodeProto()
    found.CopyFrom(node)
    return found


def _is_bytes(value: onnx.ValueInfoProto) -> bool:
    return value.type.tensor_type.elem_type == TensorProto.UINT8


def _is_cast(node: onnx.NodeProto) -> bool:
    return node.op_type == "Cast" and node.domain in ("", "ai.onnx")


def _makes_bytes(node: onnx.NodeProto) -> bool:
    made = any(one.name == "to" and one.i == TensorProto.UINT8 for one in node.attribute)
    held = any(one.t.data_type == TensorProto.UINT8 for one in node.attribute if one.HasField("t"))
    return (_is_cast(node) and made) or held
