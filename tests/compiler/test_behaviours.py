"""Options that would do nothing, and literals as inputs of stages: B09 and B10, from end to end."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import headrace
from headrace.compiler import check
from headrace.compiler.driver import compile_source
from headrace.compiler.plan import CallStep
from headrace.dsl.diagnostic import CompileError, Diagnostic, Severity
from headrace.dsl.source import Source

PIPE = """
model read = onnx "read.onnx" (x: f32[L], n: i64) -> (y: f32[L]) {clause}
pipeline p(x: f32[L]) -> (y: f32[L]) {{ return y = read(x, {argument}) }}
schedule p on "default" {{ {schedule} }}
"""


def mistakes(**parts: str) -> list[Diagnostic]:
    filled = {"clause": "", "argument": "1", "schedule": "", **parts}
    source = Source("p.pipe", PIPE.format(**filled))
    try:
        found = check(source)
    except CompileError as error:
        found = tuple(error.diagnostics)
    return [one for one in found if one.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("parts", "code", "near"),
    [
        ({"schedule": "read { bacth { max = 2 } }"}, "HR402", "`batch`"),
        ({"schedule": "reed { instances = 2 }"}, "HR401", "`read`"),
        ({"schedule": "read { batch { max = 2, wiat = 1ms } }"}, "HR402", "`wait`"),
        ({"argument": "m = 1"}, "HR107", None),
        ({"argument": "nn = 1"}, "HR107", "`n`"),
        ({"clause": "batch axis { xx = 0 }"}, "HR307", "`x`"),
        # known, but with no effect here: the message says what would have one
        ({"schedule": "batch { max = 2 }"}, "HR403", None),
        ({"schedule": "read { queue { size = 2 } }"}, "HR403", None),
        ({"schedule": "read { batch { max = 2, waste = 0.5 } }"}, "HR403", "`pad = "),
        ({"schedule": "read { batch { max = 2, pad = L } }"}, "HR424", None),
        ({"schedule": "read { batch { max = 2 } }", "clause": "batch none"}, "HR408", None),
    ],
    ids=str,
)
def test_b09_an_option_is_never_accepted_and_ignored(
    parts: dict[str, str], code: str, near: str | None
) -> None:
    (found,) = mistakes(**parts)
    assert found.code == code
    if near is not None:
        assert near in (found.help or "")


def test_b09_without_the_option_nothing_is_wrong() -> None:
    assert mistakes() == []


LITERALS = """
model scale = onnx "scale.onnx" (x: f32[2], by: f32[2], n: i64) -> (y: f32[2])
    batch axis { x = 0, y = 0 }
fn name(prefix: string, tags: string[K], x: f32[2]) -> (text: string) = python "name.py:name"

pipeline p(xs: f32[N, 2]) -> (first: f32[2], text: string, table: f32[2, 2]) {
    first = scale(xs[1], [0.5, 2.0], 3)
    text = name("row", ["a", "b"], first)
    return first = first, text = text, table = [[1.0, 2.0], [3.0, 4.0]]
}
"""


@pytest.fixture
def literals(tmp_path: Path) -> Source:
    nodes = [
        helper.make_node("Mul", ["x", "by"], ["scaled"]),
        helper.make_node("Cast", ["n"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["scaled", "number"], ["y"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", 2]),
        helper.make_tensor_value_info("by", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("n", TensorProto.INT64, []),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["B", 2])]
    graph = helper.make_graph(nodes, "scale", inputs, outputs)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    onnx.save(model, tmp_path / "scale.onnx")
    (tmp_path / "name.py").write_text(
        "def name(prefix, tags, x):\n    return f'{prefix} {\".\".join(tags)} {x.dtype}'\n"
    )
    (tmp_path / "p.pipe").write_text(LITERALS)
    return Source("p.pipe", LITERALS, tmp_path / "p.pipe")


@pytest.mark.parametrize("optimise", [False, True])
def test_b10_literals_are_typed_inputs_of_stages(literals: Source, optimise: bool) -> None:
    with headrace.load(compile_source(literals, optimise=optimise)) as app:
        answer = app.p(xs=np.array([[9, 9], [2, 4]], np.float32))
    assert answer.first.dtype == np.float32
    assert answer.first.tolist() == [4.0, 11.0]
    assert answer.text == "row a.b float32"
    assert answer.table.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_b10_a_literal_is_no_stage_that_runs(literals: Source) -> None:
    (pipeline,) = compile_source(literals, optimise=False).pipelines
    calls = [step for step in pipeline.body.steps if isinstance(step, CallStep)]
    assert len(calls) == 3  # xs[1], scale, name
    assert len(pipeline.body.steps) == 3
    assert len(pipeline.body.constants) >= 5


def test_b10_a_literal_of_the_wrong_type_is_a_mistake_at_its_place() -> None:
    (found,) = mistakes(argument='"one"')
    assert (found.code, found.primary.span.text) == ("HR201", '"one"')
    (found,) = mistakes(argument="1.5")
    assert found.primary.span.text == "1.5"
