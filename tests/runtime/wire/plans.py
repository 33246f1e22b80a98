"""Small pipelines for the tests of the wire: most give back what they get."""

from headrace.compiler.plan import Plan
from headrace.dsl.types import Field, OptionalType
from headrace.runtime.protocols.models import Model, model_of
from headrace.stdlib.op import Literal
from tests.runtime.plans import PlanMaker, block, call, fields, kind

# Waits until somebody opens the named pipe for writing, then gives back its content.
WAIT = """
from pathlib import Path

def wait(path: str) -> bytes:
    return Path(path).read_bytes()
"""
FAIL = """
def fail(text: str) -> str:
    if text == "marker":
        raise ValueError("the marker is here")
    return text
"""
SQUARES = """
import numpy as np

def squares(n: np.ndarray) -> list:
    return [np.full((i, i), i, np.float32) for i in range(int(n))]
"""
BOXES = """
import numpy as np

def boxes(n: np.ndarray) -> tuple:
    numbers = range(int(n))
    return [np.full((4, 2), i, np.float32) for i in numbers], [f"box {i}" for i in numbers]
"""


def echo(
    maker: PlanMaker,
    name: str,
    *types: str,
    batch: int | None = None,
    defaults: dict[str, Literal] | None = None,
) -> None:
    """Add a pipeline that gives back x0, x1, ... as y0, y1, ..."""
    slots = range(len(types))
    maker.pipeline(
        name,
        tuple(Field(f"x{i}", kind(text)) for i, text in enumerate(types)),
        tuple(Field(f"y{i}", kind(text)) for i, text in enumerate(types)),
        block(slots, (), slots),
        batch=batch,
        defaults=defaults,
    )


def function(maker: PlanMaker, name: str, source: str, inputs: str, **outputs: str) -> None:
    """Add a pipeline that calls one Python function with one input."""
    parameter, _, type = inputs.partition(": ")
    given, results = fields(**{parameter: type}), fields(**outputs)
    segment = maker.python(name, source, given, results)
    slots = range(1, len(results) + 1)
    maker.pipeline(name, given, results, block([0], [call(segment, [0], slots)], slots))


NUMBERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")


def toy_plan() -> Plan:
    """All pipelines that the server tests use."""
    maker = PlanMaker()
    for dtype in ("bool", *NUMBERS, "string", "bytes"):
        echo(maker, f"echo_{dtype}", f"{dtype}[N]")
        echo(maker, f"scalar_{dtype}", dtype)
    echo(maker, "matrix", "f32[3, N]")
    echo(maker, "two", "f32[N]", "string")
    echo(maker, "rows", "f32[3]", "string", batch=8)
    echo(maker, "optional", "f32[N]", "f32", defaults={"x1": 0.5})
    echo(maker, "quads", "list<f32[4, 2]>")
    echo(maker, "words", "list<string>")
    echo(maker, "ragged", "list<f32[2, W]>")
    echo(maker, "rows_of_lists", "list<f32[2]>", batch=8)
    function(maker, "wait", WAIT, "path: string", content="bytes")
    function(maker, "fail", FAIL, "text: string", result="string")
    function(maker, "squares", SQUARES, "n: i64", square="list<f32[N, M]>")
    function(maker, "boxes", BOXES, "n: i64", box="list<f32[4, 2]>", label="list<string>")
    return maker.plan()


def optional_model() -> Model:
    """A model of one optional parameter and result."""
    maker = PlanMaker()
    field = Field("x", OptionalType(kind("f32[N]")))
    result = Field("y", OptionalType(kind("f32[N]")))
    maker.pipeline("maybe", (field,), (result,), block([0], (), [0]))
    plan = maker.plan()
    return model_of(plan, plan.pipelines[0], "1")


def toy_model(name: str) -> Model:
    """One of the toy pipelines, prepared for the wire."""
    plan = toy_plan()
    return model_of(plan, plan.pipeline(name), "1")
