"""Hand-made graphs for the tests of what comes after lowering."""

import builtins
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import TypeVar

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
    Pads,
    Region,
    Settings,
    Value,
)
from headrace.dsl.dims import Dims
from headrace.dsl.source import Source, Span
from headrace.dsl.types import DType, Field, Signature, TensorType, Type
from headrace.stdlib.op import Argument, Item, Literal, Op, TypeRule

Found = TypeVar("Found")

TEXT = "".join(f"line {number}\n" for number in range(1, 100))


def _same_type(type: Type) -> TypeRule:
    def rule(arguments: Sequence[Argument], dims: Dims) -> tuple[Type, ...]:  # noqa: ARG001
        return (type,)

    return rule


def _nothing(*items: Item) -> Item:  # noqa: ARG001
    return None


def only(kind: builtins.type[Found], found: Iterable[object]) -> Found:
    """Return the single thing there is, which is of this kind."""
    (one,) = found
    assert isinstance(one, kind)
    return one


class GraphMaker:
    """Makes a graph node by node; each node stands on the next line of `a.pipe`."""

    def __init__(self) -> None:
        self._source = Source("a.pipe", TEXT)
        self._line = 0
        self._params: list[Value] = []
        self._nodes: list[Node] = []
        self._models: dict[str, ModelDef] = {}
        self._functions: dict[str, FunctionDef] = {}

    def span(self) -> Span:
        self._line += 1
        start = len("".join(TEXT.splitlines(keepends=True)[: self._line - 1]))
        return Span(self._source, start, start + 4)

    def param(self, name: str, type: Type) -> Value:
        self._params.append(Value(type, name, self.span()))
        return self._params[-1]

    def constant(self, literal: Literal, type: Type) -> Value:
        return self._add(Constant(literal), (), (type,), "constant")[0]

    def op(self, name: str, *inputs: Value, type: Type, checks: Sequence[Check] = ()) -> Value:
        op = Op(name, "", (), ("y",), _same_type(type), _nothing)
        return self._add(OpCall(op), inputs, (type,), name, checks=checks)[0]

    def model(
        self,
        name: str,
        *inputs: Value,
        type: Type,
        batches: bool = True,
        members: tuple[str, ...] = (),
        checks: Sequence[Check] = (),
        where: tuple[Check, ...] = (),
        pads: tuple[Pads, ...] = (),
        backend: str = "onnx",
    ) -> Value:
        fields = tuple(Field(f"x{i}", value.type) for i, value in enumerate(inputs))
        axis = 0 if batches else None
        content = f"model {name}".encode()
        self._models[name] = ModelDef(
            name=name,
            backend=backend,
            location=f"{name}.onnx" if backend == "onnx" else f"stages.py:{name}",
            signature=Signature(fields, (Field("y", type),)),
            input_names=tuple(field.name for field in fields),
            output_names=("y",),
            input_axes=(axis,) * len(fields),
            output_axes=(axis,),
            content=Blob(sha256(content).hexdigest(), content),
            span=Span(self._source, 0, 4),
            members=members,
            checks=where,
            pads=pads,
        )
        return self._add(ModelCall(name), inputs, (type,), name, checks=checks)[0]

    def function(
        self,
        name: str,
        *inputs: Value,
        type: Type,
        batched: bool = False,
        pure: bool = False,
    ) -> Value:
        fields = tuple(Field(f"x{i}", value.type) for i, value in enumerate(inputs))
        content = b"def f(x): return x\n"
        self._functions[name] = FunctionDef(
            name=name,
            signature=Signature(fields, (Field("y", type),)),
            kind="python",
            location=f"stages.py:{name}",
            attribute=name,
            source=Blob(sha256(content).hexdigest(), content),
            span=Span(self._source, 0, 4),
            batched=batched,
            pure=pure,
        )
        return self._add(FunctionCall(name), inputs, (type,), name)[0]

    def branch(
        self,
        condition: Value,
        then: Callable[[], list[Value]],
        orelse: Callable[[], list[Value]],
        *types: Type,
    ) -> tuple[Value, ...]:
        regions = (self._region(then), self._region(orelse))
        return self._add(If(), (condition,), types, "if", regions)

    def match(
        self,
        subject: Value,
        cases: Sequence[tuple[Literal, ...]],
        arms: Sequence[Callable[[], list[Value]]],
        *types: Type,
    ) -> tuple[Value, ...]:
        regions = tuple(self._region(arm) for arm in arms)
        return self._add(Match(tuple(cases)), (subject,), types, "match", regions)

    def each(
        self,
        items: Value,
        item_type: Type,
        body: Callable[[Value], list[Value]],
        *types: Type,
        filtered: bool = False,
    ) -> tuple[Value, ...]:
        item = Value(item_type, "item", self.span())
        region = self._region(lambda: body(item), (item,))
        return self._add(For(filtered), (items,), types, "for", (region,))

    def loop(
        self, start: Value, body: Callable[[Value], Value], type: Type, turns: int = 3
    ) -> Value:
        most = self.constant(turns, TensorType(DType.I64))
        carried = Value(type, "carried", self.span())
        region = self._region(lambda: [body(carried)], (carried,))
        return self._add(Loop(), (most, start), (type,), "loop", (region,))[0]

    def graph(
        self,
        *results: Value,
        name: str = "p",
        settings: Settings | None = None,
        batch: int | None = None,
    ) -> Graph:
        return Graph(
            name=name,
            signature=Signature(
                tuple(Field(value.name, value.type) for value in self._params),
                tuple(Field(f"r{i}", value.type) for i, value in enumerate(results)),
            ),
            defaults=((False, None),) * len(self._params),
            body=Region(tuple(self._params), tuple(self._nodes), results),
            models=tuple(self._models.values()),
            functions=tuple(self._functions.values()),
            settings=settings if settings is not None else Settings(),
            span=Span(self._source, 0, 4),
            batch=batch,
        )

    def _region(self, body: Callable[[], list[Value]], params: tuple[Value, ...] = ()) -> Region:
        outer, self._nodes = self._nodes, []
        results = tuple(body())
        nodes, self._nodes = tuple(self._nodes), outer
        return Region(params, nodes, results)

    def _add(
        self,
        kind: Kind,
        inputs: Sequence[Value],
        types: Sequence[Type],
        stage: str,
        regions: tuple[Region, ...] = (),
        checks: Sequence[Check] = (),
    ) -> tuple[Value, ...]:
        span = self.span()
        outputs = tuple(Value(type, stage, span) for type in types)
        self._nodes.append(Node(kind, tuple(inputs), outputs, span, stage, regions, tuple(checks)))
        return outputs
