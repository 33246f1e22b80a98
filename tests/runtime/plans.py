"""Hand-made plans and models for the tests of the runtime: what the compiler would hand over."""

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from headrace.compiler.plan import (
    Batching,
    Block,
    CallStep,
    Check,
    ModelSegment,
    OpSegment,
    Parameter,
    PipelinePlan,
    Place,
    Plan,
    PythonSegment,
    Queueing,
    Segment,
    Step,
)
from headrace.compiler.plan_walk import outputs_of
from headrace.dsl.types import (
    DimVar,
    DType,
    Field,
    ListType,
    Signature,
    TensorType,
    Type,
)
from headrace.stdlib.op import Literal

HERE = Place("toy.pipe", 3, 5, "y = f(x)")
_PREFIX = {dtype.value: dtype for dtype in DType}


def kind(text: str) -> Type:
    """Read `f32[3, N]`, `list<f32[4, 2]>`, `string`: enough of the language for tests."""
    if text.startswith("list<"):
        return ListType(kind(text[5:-1]))
    name, _, dims = text.partition("[")
    sizes = [one.strip() for one in dims.rstrip("]").split(",")] if dims else []
    return TensorType(
        _PREFIX[name], tuple(int(one) if one.isdigit() else DimVar(one) for one in sizes)
    )


def fields(**types: str) -> tuple[Field, ...]:
    return tuple(Field(name, kind(text)) for name, text in types.items())


def place(line: int) -> Place:
    return Place("toy.pipe", line, 5, f"line {line}")


class PlanMaker:
    """Collects segments, blobs and pipelines; `plan()` is the result."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.blobs: dict[str, bytes] = {}
        self.pipelines: list[PipelinePlan] = []

    def blob(self, content: bytes) -> str:
        digest = sha256(content).hexdigest()
        self.blobs[digest] = content
        return digest

    def onnx(
        self,
        name: str,
        model: bytes,
        inputs: tuple[Field, ...],
        outputs: tuple[Field, ...],
        *,
        input_axes: Sequence[int | None] | None = None,
        output_axes: Sequence[int | None] | None = None,
        device: str = "cpu",
        batching: Batching | None = None,
        group: int = 1,
        instances: int | None = None,
        queueing: Queueing | None = None,
        checks: tuple[Check, ...] = (),
    ) -> int:
        self.segments.append(
            ModelSegment(
                name,
                (name,),
                self.blob(model),
                Signature(inputs, outputs),
                tuple(field.name for field in inputs),
                tuple(field.name for field in outputs),
                tuple(input_axes or [0] * len(inputs)),
                tuple(output_axes or [0] * len(outputs)),
                device,
                batching,
                group,
                instances,
                queueing,
                checks,
                place(10 + len(self.segments)),
            )
        )
        return len(self.segments) - 1

    def python(
        self,
        name: str,
        source: str,
        inputs: tuple[Field, ...],
        outputs: tuple[Field, ...],
        *,
        batched: bool = False,
        batching: Batching | None = None,
        queueing: Queueing | None = None,
    ) -> int:
        self.segments.append(
            PythonSegment(
                name,
                self.blob(source.encode()),
                "toy.py",
                name,
                Signature(inputs, outputs),
                batched,
                batching,
                queueing,
                (),
                place(10 + len(self.segments)),
            )
        )
        return len(self.segments) - 1

    def op(self, name: str, *results: str) -> int:
        self.segments.append(OpSegment(name, name, tuple(map(kind, results)), HERE))
        return len(self.segments) - 1

    def pipeline(
        self,
        name: str,
        inputs: tuple[Field, ...],
        outputs: tuple[Field, ...],
        body: Block,
        *,
        defaults: dict[str, Literal] | None = None,
        batch: int | None = None,
        deadline: float | None = None,
        queueing: Queueing | None = None,
    ) -> None:
        given = defaults or {}
        parameters = tuple(
            Parameter(field, field.name in given, given.get(field.name)) for field in inputs
        )
        self.pipelines.append(
            PipelinePlan(name, parameters, outputs, body, batch, deadline, queueing, HERE)
        )

    def plan(self) -> Plan:
        return Plan(
            "0.1.0",
            tuple(self.pipelines),
            tuple(self.segments),
            (),
            (),
            (),
            tuple(sorted(self.blobs.items())),
        )


def call(segment: int, inputs: Sequence[int], outputs: Sequence[int], line: int = 3) -> CallStep:
    return CallStep(segment, tuple(inputs), tuple(outputs), place(line))


def block(
    params: Sequence[int],
    steps: Sequence[Step],
    results: Sequence[int],
    *,
    captures: Sequence[tuple[int, int]] = (),
    constants: Sequence[tuple[int, Literal, Type]] = (),
) -> Block:
    """A block in which nothing is freed before the end."""
    used = [*params, *results, *(inner for _, inner in captures), *(c[0] for c in constants)]
    used += [slot for step in steps for slot in outputs_of(step)]
    return Block(
        tuple(params),
        tuple(captures),
        tuple(constants),
        tuple(steps),
        tuple(results),
        max(used, default=-1) + 1,
        tuple(() for _ in steps),
    )


def add_model(amount: float, *dims: int | str) -> bytes:
    """x + amount, with a symbolic batch axis in front of `dims`."""
    return model(
        [helper.make_node("Add", ["x", "amount"], ["y"])],
        [("x", TensorProto.FLOAT, ["B", *dims])],
        [("y", TensorProto.FLOAT, ["B", *dims])],
        {"amount": np.float32(amount)},
    )


def chain_model(length: int, size: int, seed: int = 0) -> bytes:
    """`length` times a matrix product and a ReLU."""
    random = np.random.default_rng(seed)
    nodes, weights, previous = [], {}, "x"
    for index in range(length):
        last = "y" if index == length - 1 else f"r{index}"
        weights[f"w{index}"] = random.standard_normal((size, size)).astype(np.float32) / 8
        nodes.append(helper.make_node("MatMul", [previous, f"w{index}"], [f"m{index}"]))
        nodes.append(helper.make_node("Relu", [f"m{index}"], [last]))
        previous = last
    tensor = ["B", size]
    return model(
        nodes, [("x", TensorProto.FLOAT, tensor)], [("y", TensorProto.FLOAT, tensor)], weights
    )


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[tuple[str, int, Sequence[int | str]]],
    outputs: Sequence[tuple[str, int, Sequence[int | str]]],
    weights: dict[str, "np.ndarray | np.generic"],
) -> bytes:
    graph = helper.make_graph(
        list(nodes),
        "toy",
        [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info(*one) for one in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 10
    return made.SerializeToString()
