"""Takes outputs out of an ONNX model, and what computes nothing else."""

from collections.abc import Set

import onnx

from .onnx_names import subgraphs, tensor_names


def without_outputs(model: onnx.ModelProto, unwanted: Set[str]) -> onnx.ModelProto:
    """Return the model without some of its outputs, and without nodes and weights only for them."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    graph = new.graph
    outputs = [one for one in model.graph.output if one.name not in unwanted]
    needed = {one.name for one in outputs}
    nodes: list[onnx.NodeProto] = []
    for node in reversed(model.graph.node):
        if needed.isdisjoint(node.output):
            continue
        nodes.append(node)
        needed.update(node.input)
        for inner in subgraphs(node):
            needed |= tensor_names(inner)
    inputs = {one.name for one in graph.input}
    weights = [one for one in model.graph.initializer if one.name in needed | inputs]
    del graph.output[:], graph.node[:], graph.initializer[:]
    graph.output.extend(outputs)
    graph.node.extend(reversed(nodes))
    graph.initializer.extend(weights)
    return new
