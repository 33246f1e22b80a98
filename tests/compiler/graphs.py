"""Builds well-typed graphs by hand: real ops through their own type rules, small real models."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from headrace.compiler.graph import (
    Blob,
    Check,
    Constant,
    For,
    FunctionCall,
    FunctionDef,
    Graph,
    If,
    Kind,
    Loop,
    Match,
    ModelCall,
    ModelDef,
    Node,
    OpCall,
    Region,
    Settings,
    Try,
    Value,
)
from headrace.dsl.dims import Dims
from headrace.dsl.source import Source, Span
from headrace.dsl.types import Dim, DimVar, DType, Field, ListType, Signature, TensorType, Type
from headrace.stdlib.catalog import load_catalog
from headrace.stdlib.dtypes import to_onnx
from headrace.stdlib.op import Argument, Array, Literal
from headrace.stdlib.values import literal_array

SOURCE = Source("made.pipe", "".join(f"line {i:4}\n" for i in range(1, 2000)))
F32, U8, I64, BOOL = DType.F32, DType.U8, DType.I64, DType.BOOL
STRING = TensorType(DType.STRING)

Given = Value | Any  # Any: a literal in place of a value


def tensor(dtype: DType, *dims: Dim | str) -> TensorType:
    """Return a type; names become dimensions."""
    return TensorType(dtype, tuple(DimVar(d) if isinstance(d, str) else d for d in dims))


@dataclass(frozen=True)
class SmallModel:
    """An ONNX model with the signature of one item. `batch` says that axis 0 is the batch."""

    proto: onnx.ModelProto
    params: tuple[Field, ...]
    results: tuple[Field, ...]
    batch: bool = True


def small_model(
    nodes: Sequence[onnx.NodeProto],
    params: dict[str, TensorType],
    results: dict[str, TensorType],
    weights: dict[str, Array] | None = None,
    *,
    opset: int = 17,
    batch: bool = True,
    ir_version: int = 8,
) -> SmallModel:
    """Make a model from nodes, types of one item and weights."""

    def declared(name: str, type: TensorType) -> onnx.ValueInfoProto:
        dims = [d if isinstance(d, int) else str(d) for d in type.dims]
        return helper.make_tensor_value_info(
            name, to_onnx(type.dtype), ["N", *dims] if batch else dims
        )

    graph = helper.make_graph(
        list(nodes),
        "g",
        [declared(*one) for one in params.items()],
        [declared(*one) for one in results.items()],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    proto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version
    )
    onnx.checker.check_model(proto)
    return SmallModel(
        proto,
        tuple(Field(*one) for one in params.items()),
        tuple(Field(*one) for one in results.items()),
        batch,
    )


def layer(seed: int, size: int = 4, *, opset: int = 17, batch: bool = True) -> SmallModel:
    """A matrix product and a ReLU on f32[size]. Weights are small whole numbers: exact sums."""
    weights = np.random.default_rng(seed).integers(-2, 3, (size, size)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("Relu", ["xw"], ["y"]),
    ]
    type = tensor(F32, size)
    return small_model(nodes, {"x": type}, {"y": type}, {"w": weights}, opset=opset, batch=batch)


def convolution(seed: int = 0, *, opset: int = 17, batch: bool = True) -> SmallModel:
    """A 1x1 convolution on f32[3, H, W] that gives f32[2, H, W]."""
    weights = np.random.default_rng(seed).integers(-2, 3, (2, 3, 1, 1)).astype(np.float32)
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    return small_model(
        nodes,
        {"x": tensor(F32, 3, "H", "W")},
        {"y": tensor(F32, 2, "H", "W")},
        {"w": weights},
        opset=opset,
        batch=batch,
    )


def two_in_two_out(seed: int = 0, *, opset: int = 17, batch: bool = True) -> SmallModel:
    """(p, q) to (p + w * q, max(p, q)), all f32[4]."""
    weights = np.random.default_rng(seed).integers(-2, 3, 4).astype(np.float32)
    nodes = [
        helper.make_node("Mul", ["w", "q"], ["wq"]),
        helper.make_node("Add", ["p", "wq"], ["sum"]),
        helper.make_node("Max", ["p", "q"], ["most"]),
    ]
    row = tensor(F32, 4)
    params, results = {"p": row, "q": row}, {"sum": row, "most": row}
    return small_model(nodes, params, results, {"w": weights}, opset=opset, batch=batch)


@dataclass
class Maker:
    """Makes one graph, statement by statement."""

    dims: Dims = field(default_factory=Dims)
    params: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    models: dict[str, ModelDef] = field(default_factory=dict)
    functions: dict[str, FunctionDef] = field(default_factory=dict)
    literals: dict[Value, Literal] = field(default_factory=dict)
    lines: int = 0

    def span(self) -> Span:
        """Return a place on the next line."""
        self.lines += 1
        start = (self.lines - 1) * len("line 1234\n")
        return Span(SOURCE, start, start + 4)

    def size(self, name: str) -> DimVar:
        return self.dims.rigid(name)

    def param(self, name: str, type: Type) -> Value:
        self.params.append(Value(type, name, self.span()))
        return self.params[-1]

    def literal(self, literal: Literal, type: Type | None = None) -> Value:
        found = type or _literal_type(literal)
        value = self.add(Constant(literal), (), [("literal", found)], "literal")[0]
        self.literals[value] = literal
        return value

    def value(self, given: Given) -> Value:
        return given if isinstance(given, Value) else self.literal(given)

    def ops(self, name: str, *given: Given, checks: Sequence[Check] = ()) -> tuple[Value, ...]:
        """Call an op with values and literals in the order of its parameters."""
        op = load_catalog().op(name)
        given = (*given, *(p.default for p in op.params[len(given) :] if not p.variadic))
        inputs = tuple(self.value(one) for one in given)
        arguments = [
            Argument(one.type, one in self.literals, self.literals.get(one)) for one in inputs
        ]
        types = [self._resolved(type) for type in op.types(arguments, self.dims)]
        results = list(zip(op.results, types, strict=True))
        return self.add(OpCall(op), inputs, results, name, checks=checks)

    def op(self, name: str, *given: Given, checks: Sequence[Check] = ()) -> Value:
        return self.ops(name, *given, checks=checks)[0]

    def define(self, name: str, model: SmallModel, checks: tuple[Check, ...] = ()) -> ModelDef:
        content = model.proto.SerializeToString(deterministic=True)
        axis = 0 if model.batch else None
        self.models[name] = ModelDef(
            name=name,
            backend="onnx",
            location=f"{name}.onnx",
            signature=Signature(model.params, model.results),
            input_names=tuple(one.name for one in model.params),
            output_names=tuple(one.name for one in model.results),
            input_axes=(axis,) * len(model.params),
            output_axes=(axis,) * len(model.results),
            content=Blob(sha256(content).hexdigest(), content),
            span=self.span(),
            checks=checks,
        )
        return self.models[name]

    def calls(self, name: str, *given: Given, checks: Sequence[Check] = ()) -> tuple[Value, ...]:
        """Call a model that was defined."""
        model, inputs = self.models[name], tuple(self.value(one) for one in given)
        bound: dict[DimVar, Dim] = {}
        for one, value in zip(model.signature.params, inputs, strict=True):
            if isinstance(one.type, TensorType) and isinstance(value.type, TensorType):
                pairs = zip(one.type.dims, value.type.dims, strict=True)
                bound |= {own: dim for own, dim in pairs if isinstance(own, DimVar)}
        results = [(one.name, self._bound(one.type, bound)) for one in model.signature.results]
        return self.add(ModelCall(name), inputs, results, name, checks=checks)

    def call(self, name: str, *given: Given, checks: Sequence[Check] = ()) -> Value:
        return self.calls(name, *given, checks=checks)[0]

    def function(
        self, name: str, *given: Given, results: Sequence[Type], pure: bool = False
    ) -> tuple[Value, ...]:
        """Call a Python function; the evaluator is told what it does."""
        inputs = tuple(self.value(one) for one in given)
        fields = tuple(Field(f"r{i}", type) for i, type in enumerate(results))
        params = tuple(Field(f"p{i}", value.type) for i, value in enumerate(inputs))
        self.functions[name] = FunctionDef(
            name,
            Signature(params, fields),
            "python",
            f"stages.py:{name}",
            name,
            Blob("00", b""),
            self.span(),
            pure=pure,
        )
        return self.add(FunctionCall(name), inputs, [(one.name, one.type) for one in fields], name)

    def branch(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value]],
        orelse: Callable[[], Sequence[Value]],
    ) -> tuple[Value, ...]:
        """Make an `if`; its outputs have the types of the first arm's results."""
        regions = (self.region(then), self.region(orelse))
        results = [(f"if{i}", value.type) for i, value in enumerate(regions[0].results)]
        return self.add(If(), (condition,), results, "if", regions)

    def match(
        self,
        subject: Value,
        cases: Sequence[tuple[Literal, ...]],
        arms: Sequence[Callable[[], Sequence[Value]]],
    ) -> tuple[Value, ...]:
        regions = tuple(self.region(arm) for arm in arms)
        results = [(f"match{i}", value.type) for i, value in enumerate(regions[0].results)]
        return self.add(Match(tuple(cases)), (subject,), results, "match", regions)

    def each(
        self,
        rows: Value,
        body: Callable[[Value], Sequence[Value]],
        results: Sequence[Type],
        *,
        beside: tuple[Value, ...] = (),
        filtered: bool = False,
    ) -> tuple[Value, ...]:
        """Make a `for` over a tensor's first axis or a list; others are walked `beside` it."""
        iterables = (rows, *beside)
        items = tuple(
            Value(_item(value.type), f"item{i}", self.span()) for i, value in enumerate(iterables)
        )
        region = self.region(lambda: body(items[0]), items)
        outputs = [(f"each{i}", type) for i, type in enumerate(results)]
        return self.add(For(filtered), iterables, outputs, "for", (region,))

    def attempt(
        self, body: Callable[[], Sequence[Value]], orelse: Callable[[], Sequence[Value]]
    ) -> tuple[Value, ...]:
        """Make a `try`."""
        regions = (self.region(body), self.region(orelse))
        results = [(f"try{i}", value.type) for i, value in enumerate(regions[0].results)]
        return self.add(Try(), (), results, "try", regions)

    def loop(
        self,
        most: Value,
        starts: Sequence[Value],
        body: Callable[[tuple[Value, ...]], Sequence[Value]],
        *,
        stops: bool = False,
    ) -> tuple[Value, ...]:
        """Make a `loop`; with `stops` the last result of the body says when."""
        carried = tuple(Value(one.type, f"carried{i}", self.span()) for i, one in enumerate(starts))
        region = self.region(lambda: body(carried), carried)
        outputs = [(f"loop{i}", one.type) for i, one in enumerate(starts)]
        return self.add(Loop(stops), (most, *starts), outputs, "loop", (region,))

    def region(self, body: Callable[[], Sequence[Value]], params: tuple[Value, ...] = ()) -> Region:
        around, self.nodes = self.nodes, []
        results = tuple(body())
        nodes, self.nodes = tuple(self.nodes), around
        return Region(params, nodes, results)

    def add(
        self,
        kind: Kind,
        inputs: tuple[Value, ...],
        results: Sequence[tuple[str, Type]],
        stage: str,
        regions: tuple[Region, ...] = (),
        checks: Sequence[Check] = (),
    ) -> tuple[Value, ...]:
        span = self.span()
        outputs = tuple(Value(type, name, span) for name, type in results)
        self.nodes.append(Node(kind, inputs, outputs, span, stage, regions, tuple(checks)))
        return outputs

    def graph(self, *results: Value, settings: Settings | None = None) -> Graph:
        fields = tuple(Field(f"r{i}", value.type) for i, value in enumerate(results))
        return Graph(
            name="p",
            signature=Signature(tuple(Field(v.name, v.type) for v in self.params), fields),
            defaults=((False, None),) * len(self.params),
            body=Region(tuple(self.params), tuple(self.nodes), results),
            models=tuple(self.models.values()),
            functions=tuple(self.functions.values()),
            settings=settings or Settings(),
            span=Span(SOURCE, 0, 4),
        )

    def _resolved(self, type: Type) -> Type:
        if isinstance(type, TensorType):
            return TensorType(type.dtype, tuple(self.dims.resolve(dim) for dim in type.dims))
        return type

    def _bound(self, type: Type, bound: dict[DimVar, Dim]) -> Type:
        if not isinstance(type, TensorType):
            return type
        dims = tuple(
            bound.get(dim) or self.dims.fresh(dim.name) if isinstance(dim, DimVar) else dim
            for dim in type.dims
        )
        return TensorType(type.dtype, dims)


def sizes(value: Value) -> tuple[Dim, ...]:
    """Return the dimensions of a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type.dims


def _item(type: Type) -> Type:
    if isinstance(type, TensorType):
        return TensorType(type.dtype, type.dims[1:])
    assert isinstance(type, ListType)
    return type.item


def _literal_type(literal: Literal) -> Type:
    match literal:
        case str():
            return STRING
        case None | DType():
            return TensorType(DType.I64)
        case tuple() if not all(isinstance(one, int | float) for one in literal):
            return TensorType(DType.I64)
        case tuple():
            array = literal_array(literal)
        case _:
            array = np.asarray(literal, None if not isinstance(literal, float) else np.float32)
    return TensorType(_DTYPES[array.dtype.name], array.shape)


_DTYPES = {"float32": F32, "int64": I64, "bool": BOOL, "uint8": U8, "float64": DType.F64}
assert to_onnx(F32) == TensorProto.FLOAT
