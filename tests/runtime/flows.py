"""Plans of boxes, and engines that run them in the caller's thread."""

from collections.abc import Iterator

import pytest

from headrace.compiler.plan import (
    BranchStep,
    EachStep,
)
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Request
from tests.runtime.plans import PlanMaker, add_model, block, call, fields, kind, place

BOXES = """
import numpy as np

def boxes(n):
    return np.arange(int(n) * 4, dtype=np.float32).reshape(int(n), 4)

def mean(x):
    return x.mean(dtype=np.float32)

def positive(x):
    return bool(x >= 0)

def label(x):
    return f"v{float(x):g}"

def fail(x):
    if x < 0:
        raise ValueError("negative: secret")
    return x

def parts(n):
    return [np.full((i,), i, np.float32) for i in range(int(n))]

def total(x):
    return x.sum(dtype=np.float32)
"""


@pytest.fixture
def maker() -> PlanMaker:
    return PlanMaker()


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    opened: list[Engine] = []
    yield opened
    for engine in opened:
        engine.close()


def start(maker: PlanMaker, engines: list[Engine]) -> Engine:
    engine = Engine(maker.plan(), EngineConfig(workers=1, intra_op_threads=1))
    engines.append(engine)
    return engine


def ask(engine: Engine, name: str, **inputs: object) -> dict[str, object]:
    return dict(engine.call(Request(name, inputs)).outputs)  # type: ignore[arg-type]


def fan_out(maker: PlanMaker, *, group: int = 1, filtered: bool = False) -> None:
    """boxes(n) -> for b in boxes: y = b + 1, s = mean(b) [when s >= low] -> y, s, names"""
    boxes = maker.python("boxes", BOXES, fields(n="i64"), fields(box="f32[N, 4]"))
    add = maker.onnx(
        "classify", add_model(1.0, 4), fields(x="f32[4]"), fields(y="f32[4]"), group=group
    )
    mean = maker.python("mean", BOXES, fields(x="f32[4]"), fields(s="f32"))
    label = maker.python("label", BOXES, fields(x="f32"), fields(t="string"))
    steps = [call(add, [0], [1]), call(mean, [0], [2]), call(label, [2], [3])]
    results = [1, 2, 3]
    captures = []
    if filtered:
        keep = maker.op("math.ge", "bool")
        steps.append(call(keep, [2, 5], [4]))
        results.append(4)
        captures = [(2, 5)]
    body = block([0], steps, results, captures=captures)
    types = tuple(map(kind, ("f32[N, 4]", "f32[N]", "string[N]")))
    each = EachStep((1,), body, filtered, (3, 4, 5), types, place(8))
    maker.pipeline(
        "pages",
        fields(n="i64", low="f32"),
        fields(y="f32[N, 4]", s="f32[N]", t="string[N]"),
        block([0, 2], [call(boxes, [0], [1]), each], [3, 4, 5]),
        defaults={"low": 0.0},
    )


def branches(maker: PlanMaker) -> None:
    """if x >= 0 { expensive(x) } else { x }, for a batch of rows"""
    positive = maker.python("positive", BOXES, fields(x="f32"), fields(p="bool"))
    big = maker.onnx("expensive", add_model(100.0), fields(x="f32"), fields(y="f32"), group=16)
    then = block([], [call(big, [0], [1])], [1], captures=[(0, 0)])
    other = block([], [], [0], captures=[(0, 0)])
    branch = BranchStep(1, then, other, (2,), place(4))
    maker.pipeline(
        "gate",
        fields(x="f32"),
        fields(y="f32"),
        block([0], [call(positive, [0], [1]), branch], [2]),
        batch=16,
    )


def nested(maker: PlanMaker, parts: str = "np.full((i,), i, np.float32)") -> None:
    """for xs in parts(n) { for x in xs { fail(x) + 1 } }: items of all rows in one group"""
    source = BOXES.replace("np.full((i,), i, np.float32)", parts)
    lists = maker.python("parts", source, fields(n="i64"), fields(xs="list<f32[K]>"))
    fail = maker.python("fail", source, fields(x="f32"), fields(y="f32"))
    add = maker.onnx("add", add_model(1.0), fields(x="f32"), fields(y="f32"), group=64)
    inner = block([0], [call(fail, [0], [1], line=7), call(add, [1], [2])], [2], captures=[(1, 3)])
    walk = EachStep((0,), inner, False, (2,), (kind("f32[K]"),), place(6))
    outer = block([0], [walk], [2], captures=[(0, 1)])
    each = EachStep((1,), outer, False, (2,), (kind("list<f32[K]>"),), place(5))
    maker.pipeline(
        "nest",
        fields(n="i64"),
        fields(ys="list<f32[K]>"),
        block([0], [call(lists, [0], [1]), each], [2]),
    )


def two_branches(maker: PlanMaker) -> None:
    left = maker.onnx("left", add_model(1.0), fields(x="f32"), fields(y="f32"))
    right = maker.onnx("right", add_model(2.0), fields(x="f32"), fields(y="f32"))
    maker.pipeline(
        "both",
        fields(x="f32"),
        fields(a="f32", b="f32"),
        block([0], [call(left, [0], [1]), call(right, [0], [2])], [1, 2]),
    )
