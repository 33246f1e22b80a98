"""Names in an ONNX graph and in the subgraphs of its nodes: listing and replacing them."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import onnx

Rename: TypeAlias = Callable[[str], str]


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that a node holds (the arms of an If, the body of a Loop)."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph and of its subgraphs."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner)


def tensor_names(graph: onnx.GraphProto) -> set[str]:
    """Return all names of tensors, those in subgraphs too."""
    names = {value.name for value in (*graph.input, *graph.output)}
    names |= {tensor.name for tensor in graph.initializer}
    names |= {tensor.values.name for tensor in graph.sparse_initializer}
    for node in graph.node:
        names.update(node.input, node.output)
        for inner in subgraphs(node):
            names |= tensor_names(inner)
    return names


def rename(graph: onnx.GraphProto, tensor: Rename, dimension: Rename) -> None:
    """Replace the names of tensors, and of symbolic dimensions, in place.

    A subgraph may use tensors of the graphs around it, so the same replacement holds in all; it
    must give different names for different ones. The empty name, which says "left out", stays.
    """
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = tensor(value.name)
        _rename_dims(value, dimension)
    for found in graph.initializer:
        found.name = tensor(found.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = tensor(sparse.values.name)
    for note in graph.quantization_annotation:
        note.tensor_name = tensor(note.tensor_name)
        for entry in note.quant_parameter_tensor_names:
            entry.value = tensor(entry.value)
    for node in graph.node:
        node.input[:] = [name and tensor(name) for name in node.input]
        node.output[:] = [name and tensor(name) for name in node.output]
        for inner in subgraphs(node):
            rename(inner, tensor, dimension)


def _rename_dims(value: onnx.ValueInfoProto, dimension: Rename) -> None:
    if not value.type.HasField("tensor_type"):
        return
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_param:
            dim.dim_param = dimension(dim.dim_param)


def unused(wanted: str, taken: set[str]) -> str:
    """Return a name like `wanted` that is not taken, and take it."""
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name
