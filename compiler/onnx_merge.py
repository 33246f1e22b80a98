"""Joins ONNX models into one graph.

The parts run in the order given. Each part's names get its number in front, tensors that flow
from part to part have one name, and equal weights are kept once. What does not matter to running
(documentation, metadata, the producer, the names of nodes) is dropped, so the same parts give the
same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import onnx
from onnx import helper

from ..stdlib.op import Decline
from .onnx_names import all_nodes, rename
from .onnx_opset import default_opset, raised

MAX_BYTES: Final = 2**31 - 2**20
"""Protobuf writes no more than 2 GiB at once."""

_OLDEST_IR: Final = 4
"""Before, every initialiser had to be an input too."""


@dataclass(frozen=True, slots=True)
class Port:
    """A graph input or output of a part, by the part's number and the tensor's name there."""

    part: int
    name: str


@dataclass(frozen=True, slots=True)
class Wire:
    """The output of a part is an input of a later part."""

    source: Port
    target: Port


@dataclass(frozen=True, slots=True)
class Joint:
    """Models and how they connect.

    Each entry of `inputs` is one input of the joined model and lists the ports it feeds; each
    entry of `outputs` becomes an output.
    """

    parts: tuple[onnx.ModelProto, ...]
    wires: tuple[Wire, ...]
    inputs: tuple[tuple[Port, ...], ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True, slots=True)
class Joined:
    """The joined model; names are in the order of `Joint.inputs` and `Joint.outputs`."""

    model: onnx.ModelProto
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]


def new_model(ir_version: int, opsets: Sequence[onnx.OperatorSetIdProto]) -> onnx.ModelProto:
    """Return an empty model that says nothing but what is needed to run it."""
    model = onnx.ModelProto(ir_version=max(ir_version, _OLDEST_IR), producer_name="headrace")
    model.graph.name = "headrace"
    model.opset_import.extend(sorted(opsets, key=lambda one: one.domain))
    return model


def require_plain(model: onnx.ModelProto) -> None:
    """Decline a model that is more than its graph."""
    if model.training_info:
        raise Decline("it carries a training graph")
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise Decline("its weights are in another file")


def join(joint: Joint) -> Joined:
    """Return one model that computes what the parts do; raises Decline."""
    if sum(part.ByteSize() for part in joint.parts) > MAX_BYTES:
        raise Decline("together they are larger than the 2 GiB that one ONNX file may be")
    opset = max(default_opset(part) for part in joint.parts)
    parts = [raised(part, opset) for part in joint.parts]
    for part in parts:
        require_plain(part)
    model = new_model(max(part.ir_version for part in parts), _opsets(parts))
    model.functions.extend(_functions(parts))
    names = _Names(joint)
    weights = _Weights(model.graph)
    declared: dict[Port, onnx.ValueInfoProto] = {}
    for number, part in enumerate(parts):
        graph = onnx.GraphProto()
        graph.CopyFrom(part.graph)
        for value in (*graph.input, *graph.output):
            declared[Port(number, value.name)] = value
        for node in all_nodes(graph):
            node.name = ""  # of two nodes of one name a runtime takes neither
        weights.take(graph, number, names)
        rename(
            graph,
            lambda name, number=number: names.of(Port(number, name)),
            lambda name, number=number: f"{number}.{name}",
        )
        model.graph.node.extend(graph.node)
        model.graph.sparse_initializer.extend(graph.sparse_initializer)
        model.graph.quantization_annotation.extend(graph.quantization_annotation)
        model.graph.value_info.extend(graph.value_info)
    model.graph.input.extend(declared[ports[0]] for ports in joint.inputs)
    for port in joint.outputs:
        model.graph.output.append(_output(model.graph, declared[port]))
    return Joined(
        model,
        tuple(value.name for value in model.graph.input),
        tuple(value.name for value in model.graph.output),
    )


class _Names:
    """What each part's tensors are called in the joined graph."""

    def __init__(self, joint: Joint) -> None:
        self._names: dict[Port, str] = {}
        self.external = {port for ports in joint.inputs for port in ports}
        self.wired = {wire.target for wire in joint.wires}
        for ports in joint.inputs:
            for port in ports:
                self._names[port] = _own(ports[0])
        for wire in sorted(joint.wires, key=lambda wire: wire.source.part):
            self._names[wire.target] = self.of(wire.source)

    def of(self, port: Port) -> str:
        return self._names.get(port) or _own(port)

    def put(self, port: Port, name: str) -> None:
        self._names[port] = name


class _Weights:
    """Initialisers of all parts; equal ones are kept once."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._graph = graph
        self._names: dict[bytes, str] = {}

    def take(self, graph: onnx.GraphProto, number: int, names: _Names) -> None:
        """Move a part's initialisers here. Those that a caller may override stay its own."""
        for tensor in graph.initializer:
            port = Port(number, tensor.name)
            if port in names.wired:
                continue  # a default that the wire overrides
            if port in names.external:
                tensor.name = names.of(port)
                self._graph.initializer.append(tensor)
                continue
            tensor.name = tensor.doc_string = ""
            content = tensor.SerializeToString(deterministic=True)
            if content not in self._names:
                self._names[content] = names.of(port)
                tensor.name = names.of(port)
                self._graph.initializer.append(tensor)
            names.put(port, self._names[content])
        del graph.initializer[:]


def _own(port: Port) -> str:
    return f"{port.part}.{port.name}"


def _output(graph: onnx.GraphProto, value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """Return the declaration of an output. One that is an input, a weight or an output already
    gets a name of its own, through an Identity."""
    taken = {one.name for one in (*graph.input, *graph.output, *graph.initializer)}
    if value.name not in taken:
        return value
    new = onnx.ValueInfoProto()
    new.CopyFrom(value)
    while new.name in taken:
        new.name += ".out"
    graph.node.append(helper.make_node("Identity", [value.name], [new.name]))
    return new


def _opsets(parts: Sequence[onnx.ModelProto]) -> list[onnx.OperatorSetIdProto]:
    """Return what the parts import, by domain; they must agree on each."""
    versions: dict[str, int] = {}
    for part in parts:
        for one in part.opset_import:
            domain = "" if one.domain == "ai.onnx" else one.domain
            if versions.setdefault(domain, one.version) != one.version:
                raise Decline(f"they use different versions of the ops of {domain}")
    return [helper.make_opsetid(domain, version) for domain, version in versions.items()]


def _functions(parts: Sequence[onnx.ModelProto]) -> list[onnx.FunctionProto]:
    """Return the functions that the parts define; equal ones are kept once."""
    found: dict[tuple[str, str, str], onnx.FunctionProto] = {}
    for part in parts:
        for function in part.functions:
            key = (function.domain, function.name, function.overload)
            if found.setdefault(key, function) != function:
                raise Decline(f"both define the function {function.name}, each in its own way")
    return list(found.values())
