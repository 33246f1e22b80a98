"""Draws random well-typed graphs with Hypothesis: ops, models, functions and control flow."""

from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from headrace.compiler.explain_graph import explain_graph
from headrace.compiler.graph import Graph, Value
from headrace.dsl.types import DType, Field, ListType, TensorType
from headrace.stdlib.op import Item, OpTypeError

from .evaluate import Functions, double, same
from .graphs import BOOL, F32, I64, U8, Maker, convolution, layer, two_in_two_out

ROW = TensorType(F32, (4,))
FUNCTIONS: Functions = {"note": same, "double": double}

UNARY = ("math.neg", "math.abs", "math.floor")
INTEGER = ("math.add", "math.sub", "math.mul", "math.maximum", "math.gt")
BINARY = (*INTEGER, "math.div")
REDUCING = ("core.max", "core.min", "core.argmax")
LITERALS = (0, 1, 3, 0.5, 2.0)


class Drawn:
    """A graph with a value for each of its parameters. No dataclass: Hypothesis would show every
    field of every node in place of `repr`."""

    def __init__(self, graph: Graph, inputs: tuple[Item, ...]) -> None:
        self.graph, self.inputs = graph, inputs

    def __repr__(self) -> str:
        return f"{explain_graph(self.graph, Path.cwd())}\n{self.inputs}"


@st.composite
def drawn_graphs(draw: st.DrawFn, most_steps: int = 14) -> Drawn:
    """Draw a graph and its inputs. All arithmetic in it is exact in ONNX and NumPy alike."""
    made = Drawing(draw)
    pool = [
        made.maker.param("row", ROW),
        made.maker.param("page", TensorType(U8, (made.maker.size("h"), made.maker.size("w"), 3))),
        made.maker.param("rows", TensorType(F32, (made.maker.size("n"), 4))),
        made.maker.param("flag", TensorType(BOOL)),
    ]
    made.steps(pool, draw(st.integers(1, most_steps)), depth=2)
    results = [made.one_of(pool) for _ in range(1 if made.straight else draw(st.integers(1, 3)))]
    random = np.random.default_rng(draw(st.integers(0, 3)))
    inputs = (
        random.integers(-3, 4, 4).astype(np.float32),
        random.integers(0, 256, (2, 3, 3)).astype(np.uint8),
        random.integers(-3, 4, (draw(st.integers(0, 3)), 4)).astype(np.float32),
        np.asarray(draw(st.booleans())),
    )
    return Drawn(made.maker.graph(*results), inputs)


class Drawing:
    """The making of one graph."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.maker = Maker()
        self.straight = draw(st.booleans())  # one chain in place of a web

    def steps(self, pool: list[Value], count: int, depth: int) -> None:
        """Add up to `count` statements, each of which may use all that `pool` holds."""
        kinds = [self.unary, self.binary, self.reduce, self.chw, self.model, self.function]
        kinds += [self.join, self.soften]
        nested = [self.branch, self.match, self.each, self.loop, self.attempt] if depth else []
        for _ in range(count):
            step = self.draw(st.sampled_from([*kinds, *kinds, self.model, *nested]))
            try:
                made = step(pool, depth)
            except OpTypeError:
                continue  # this op does not take these types
            pool.extend(made)

    def pick(self, pool: list[Value], *types: DType) -> Value | None:
        """Draw a tensor of one of the dtypes, late ones first (Hypothesis shrinks to those)."""
        fitting = [
            v for v in pool if isinstance(v.type, TensorType) and v.type.dtype in (types or DType)
        ]
        return self.one_of(fitting) if fitting else None

    def one_of(self, values: list[Value]) -> Value:
        """Draw a value, mostly a late one: then chains come about."""
        if self.straight:
            return values[-1]
        few = values[-2:] if self.draw(st.integers(0, 3)) else values
        return self.draw(st.sampled_from(few[::-1]))

    def unary(self, pool: list[Value], _: int) -> list[Value]:
        value = self.pick(pool, F32, I64, U8)
        if value is None:
            return []
        if self.draw(st.booleans()):
            return [self.maker.op("core.cast", value, self.draw(st.sampled_from((F32, I64, U8))))]
        return [self.maker.op(self.draw(st.sampled_from(UNARY)), value)]

    def binary(self, pool: list[Value], _: int) -> list[Value]:
        left = self.pick(pool, F32, I64)
        if left is None:
            return []
        late = [v for v in pool[-4:] if isinstance(v.type, TensorType)]
        right = self.draw(st.sampled_from([*LITERALS, *late]))
        ops = BINARY if isinstance(left.type, TensorType) and left.type.dtype is F32 else INTEGER
        return [self.maker.op(self.draw(st.sampled_from(ops)), left, right)]

    def reduce(self, pool: list[Value], _: int) -> list[Value]:
        value = self.pick(pool, F32, I64)
        if value is None or not isinstance(value.type, TensorType) or not value.type.dims:
            return []
        if not all(isinstance(dim, int) for dim in value.type.dims):
            return []  # of nothing there is no greatest
        return [self.maker.op(self.draw(st.sampled_from(REDUCING)), value, -1, False)]

    def chw(self, pool: list[Value], _: int) -> list[Value]:
        pages = [v for v in pool if isinstance(v.type, TensorType) and len(v.type.dims) == 3]
        if not pages:
            return []
        return [self.maker.op("core.transpose", self.one_of(pages), (2, 0, 1))]

    def model(self, pool: list[Value], _: int) -> list[Value]:
        fitting = [v for v in pool if v.type == ROW or _is_plane(v)]
        if not fitting:
            return []
        value = self.one_of(fitting)
        models = self.maker.models.items()
        own = [n for n, m in models if _takes(m.signature.params, value)]
        if own and self.draw(st.integers(0, 5)) == 0:
            return [self.maker.call(self.draw(st.sampled_from(own)), value)]
        name = f"m{len(self.maker.models)}"
        opset = self.draw(st.sampled_from((11, 13, 17)))
        seed = self.draw(st.integers(0, 2))
        if _is_plane(value):
            self.maker.define(name, convolution(seed, opset=opset))
        else:
            batch = self.draw(st.integers(0, 3)) > 0
            self.maker.define(name, layer(seed, opset=opset, batch=batch))
        return [self.maker.call(name, value)]

    def join(self, pool: list[Value], _: int) -> list[Value]:
        """Call a model of two inputs and two outputs."""
        rows = [v for v in pool if v.type == ROW]
        name = f"m{len(self.maker.models)}"
        opset = self.draw(st.sampled_from((11, 13, 17)))
        self.maker.define(name, two_in_two_out(self.draw(st.integers(0, 2)), opset=opset))
        return list(self.maker.calls(name, self.one_of(rows), self.one_of(rows)))

    def soften(self, pool: list[Value], _: int) -> list[Value]:
        """Choose between two rows, element by element."""
        rows = [v for v in pool if v.type == ROW]
        one, other = self.one_of(rows), self.draw(st.sampled_from(rows))
        return [self.maker.op("core.where", self.maker.op("math.gt", one, 0), one, other)]

    def function(self, pool: list[Value], _: int) -> list[Value]:
        value = self.one_of([v for v in pool if v.type == ROW])
        name = self.draw(st.sampled_from(sorted(FUNCTIONS)))
        return [*self.maker.function(name, value, results=[value.type], pure=name == "double")]

    def branch(self, pool: list[Value], depth: int) -> list[Value]:
        flag = self.pick([v for v in pool if v.type == TensorType(BOOL)])
        if flag is None:
            return []
        condition: Value = flag
        if self.draw(st.integers(0, 4)) == 0:
            condition = self.maker.literal(self.draw(st.booleans()))
        rows = [v for v in pool if v.type == ROW]

        def arm() -> list[Value]:
            inner = list(pool)
            self.steps(inner, self.draw(st.integers(0, 3)), depth - 1)
            made = [v for v in inner[len(pool) :] if v.type == ROW]
            return [self.draw(st.sampled_from(made[::-1] + rows)) for _ in range(2)]

        return list(self.maker.branch(condition, arm, arm))

    def match(self, pool: list[Value], depth: int) -> list[Value]:
        """Match a count; sometimes it is known when compiling."""
        rows = [v for v in pool if v.type == ROW]
        subject: Value = self.maker.op("core.argmax", self.one_of(rows), 0, False)
        if self.draw(st.integers(0, 4)) == 0:
            subject = self.maker.literal(self.draw(st.integers(0, 3)))

        def arm() -> list[Value]:
            inner = list(pool)
            self.steps(inner, self.draw(st.integers(0, 2)), depth - 1)
            made = [v for v in inner[len(pool) :] if v.type == ROW]
            return [self.draw(st.sampled_from(made[::-1] + rows))]

        return list(self.maker.match(subject, [(0,), (1, 2)], [arm, arm, arm]))

    def attempt(self, pool: list[Value], depth: int) -> list[Value]:
        """Try one thing, and have another for when it fails."""
        rows = [v for v in pool if v.type == ROW]

        def arm() -> list[Value]:
            inner = list(pool)
            self.steps(inner, self.draw(st.integers(0, 3)), depth - 1)
            made = [v for v in inner[len(pool) :] if v.type == ROW]
            return [self.draw(st.sampled_from(made[::-1] + rows))]

        return list(self.maker.attempt(arm, arm))

    def loop(self, pool: list[Value], depth: int) -> list[Value]:
        """Carry two rows for a few turns, known when compiling or not."""
        rows = [v for v in pool if v.type == ROW]
        most: Value = self.maker.op("core.argmax", self.one_of(rows), 0, False)
        if self.draw(st.booleans()):
            most = self.maker.literal(self.draw(st.integers(0, 3)))
        stops = self.draw(st.booleans())

        def body(carried: tuple[Value, ...]) -> list[Value]:
            inner = [*pool, *carried]
            self.steps(inner, self.draw(st.integers(0, 3)), depth - 1)
            made = [v for v in inner[len(pool) :] if v.type == ROW]
            following = [self.draw(st.sampled_from(made[::-1])) for _ in carried]
            if not stops:
                return following
            least = self.maker.op("core.min", carried[0], None, False)
            return [*following, self.maker.op("math.gt", least, 0)]

        return list(self.maker.loop(most, [self.one_of(rows) for _ in range(2)], body, stops=stops))

    def each(self, pool: list[Value], depth: int) -> list[Value]:
        lists = [v for v in pool if _is_rows(v)]
        source = self.draw(st.sampled_from(lists))
        filtered = self.draw(st.booleans())

        def body(item: Value) -> list[Value]:
            inner = [*pool, item]
            self.steps(inner, self.draw(st.integers(0, 4)), depth - 1)
            rows = [v for v in inner[len(pool) :] if v.type == ROW]
            results = [self.draw(st.sampled_from(rows[::-1])) for _ in range(2)]
            if not filtered:
                return results
            least = self.maker.op("core.min", item, None, False)
            return [*results, self.maker.op("math.gt", least, -2)]

        sizes = self.maker.dims.fresh("k")
        types = [TensorType(F32, (sizes, 4)), ListType(ROW)]
        return list(self.maker.each(source, body, types, filtered=filtered))


def _is_plane(value: Value) -> bool:
    type = value.type
    return (
        isinstance(type, TensorType)
        and type.dtype is F32
        and len(type.dims) == 3
        and type.dims[0] == 3
    )


def _is_rows(value: Value) -> bool:
    if isinstance(value.type, ListType):
        return value.type.item == ROW
    return isinstance(value.type, TensorType) and _ends_with_four(value.type)


def _ends_with_four(type: TensorType) -> bool:
    return type.dtype is F32 and len(type.dims) == 2 and type.dims[1] == 4


def _takes(params: tuple[Field, ...], value: Value) -> bool:
    type = params[0].type
    if len(params) != 1 or not isinstance(type, TensorType):
        return False
    return (len(type.dims) == 3) == _is_plane(value)
