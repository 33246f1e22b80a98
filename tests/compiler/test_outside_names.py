"""Names in quotes: what callers and files of models call something, when the language cannot."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import headrace
from headrace.compiler import compile_source
from headrace.dsl.diagnostic import CompileError
from headrace.dsl.format import format_module
from headrace.dsl.parse import parse
from headrace.dsl.source import Source

TWO_OUTPUTS = """
model m = onnx "m.onnx" ("b:0" as b: f32[3], "a:0" as a: f32[3]) -> ("less:0" as d: f32[3])

pipeline "x.y-z" as xyz("in:0" as x: f32[3], y: f32[3]) -> ("out:0" as o: f32[3]) batch 4 {
    return o = m(a = x, b = y)
}

test "tests go by the names of the file" for xyz {
    given x = [[1, 2, 3]]
    given y = [[1, 1, 1]]
    expect o == [[0, 1, 2]]
}
"""


def _write_model(folder: Path) -> None:
    def tensor(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3])

    nodes = [
        helper.make_node("Add", ["a:0", "b:0"], ["more:0"]),
        helper.make_node("Sub", ["a:0", "b:0"], ["less:0"]),
    ]
    inputs, outputs = [tensor("a:0"), tensor("b:0")], [tensor("more:0"), tensor("less:0")]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")


def test_callers_and_files_have_their_names_and_the_language_its_own(tmp_path: Path) -> None:
    _write_model(tmp_path)
    (tmp_path / "p.pipe").write_text(TWO_OUTPUTS)
    with headrace.load(tmp_path / "p.pipe") as app:
        given = {"in:0": np.full((2, 3), 5, np.float32), "y": np.ones((2, 3), np.float32)}
        assert app.plan.pipelines[0].results[0].name == "out:0"
        np.testing.assert_array_equal(getattr(app, "x.y-z")(**given)[0], np.full((2, 3), 4))


def test_what_is_formatted_is_the_same_program() -> None:
    module = parse(Source("p.pipe", TWO_OUTPUTS))
    text = format_module(module)
    assert parse(Source("p.pipe", text)) == module
    assert format_module(parse(Source("p.pipe", text))) == text


@pytest.mark.parametrize(
    "source",
    [
        'fn f("x:0" as x: f32) -> (y: f32) { x }\n'
        "pipeline p(x: f32) -> (y: f32) { return y = f(x) }",
        'pipeline p("" as x: f32) -> (y: f32) { return y = x + 1.0 }',
        'pipeline p(x: f32) -> (y: f32, "y" as z: f32) { return y = x, z = x + 1.0 }',
        "pipeline a(x: f32) -> (y: f32) { return y = -x }\n"
        'pipeline "a" as b(x: f32) -> (y: f32) { return y = -x }',
    ],
)
def test_a_name_that_nobody_could_call_is_a_mistake(source: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_source(Source("p.pipe", source))
    assert [one.code for one in caught.value.diagnostics] == ["HR119"]
