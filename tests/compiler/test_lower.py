"""Pipelines become graphs: names, records, literals, calls, what is inlined."""

from pathlib import Path

import numpy as np
import pytest

from headrace.compiler.graph import Constant, FunctionCall, If, ModelCall
from headrace.dsl.types import DType, TensorType
from tests.compiler.sources import (
    errors_in,
    found_in,
    graph_of,
    literals_of,
    lowered,
    nodes_in,
    results,
    stage,
    stages,
)

MODEL = 'model score = onnx "score.onnx" (x: f32[3]) -> (p: f32[2])\n'


def test_values_have_the_names_of_the_source() -> None:
    graph = graph_of(
        MODEL + "pipeline p(x: f32[3]) -> (y: f32) {\n  odds = score(x)\n  return y = odds[1]\n}"
    )
    assert [value.name for value in graph.body.params] == ["x"]
    assert stage(graph, "score").outputs[0].name == "odds"
    assert graph.body.results[0].name == "y"
    assert str(stage(graph, "score").span) == "p.pipe:3:10"


def test_a_record_is_unpacked_by_position_or_taken_by_field() -> None:
    graph = graph_of("""
use nn
pipeline p(x: f32[9]) -> (v: f32[3], i: i64[3], w: f32[3]) {
    v, _ = nn.topk(x, 3)
    top = nn.topk(x, 3)
    return v = v, i = top.indices, w = nn.topk(x, k = 3).values
}
""")
    assert stages(graph) == ["nn.topk"] * 3
    assert [str(one) for one in results(graph)] == ["f32[3]", "i64[3]", "f32[3]"]


def test_a_record_with_one_field_stands_for_that_field() -> None:
    graph = graph_of(
        MODEL
        + "pipeline p(x: f32[3]) -> (a: f32[2], b: f32[2]) {\n"
        + "  r = score(x)\n  return a = r + 1, b = r.p\n}"
    )
    assert graph.body.results[1] is stage(graph, "score").outputs[0]


def test_every_argument_of_an_op_is_a_value_and_defaults_are_literals() -> None:
    graph = graph_of("""
use image
pipeline p(img: u8[H, W, 3]) -> (page: u8[_, _, 3]) {
    page, _ = image.fit(img, max_side = 32 * 30, multiple = 32)
    return page = page
}
""")
    assert literals_of(graph, "image.fit") == {
        "max_side": 960,
        "min_side": None,
        "multiple": 32,
        "interpolation": "linear",
    }


def test_expressions_of_literals_are_computed() -> None:
    graph = graph_of("""
const half: f32 = 1 / 2
const k: i64 = 3
use image
pipeline p(img: u8[H, W, 3], x: f32[9]) -> (y: f32[H, W, 3], z: f32, h: f32) {
    return y = image.normalize(img, scale = 1 / 255), z = x[k - 1], h = half
}
""")
    assert literals_of(graph, "image.normalize")["scale"] == pytest.approx(1 / 255)
    assert literals_of(graph, "getitem") == {"spec": (2,)}
    (literal,) = (
        n.kind.literal
        for n in graph.body.nodes
        if isinstance(n.kind, Constant) and n.outputs[0] is graph.body.results[2]
    )
    assert literal == np.float32(0.5)


def test_number_literals_take_the_dtype_of_the_other_side() -> None:
    graph = graph_of("""
pipeline p(a: u8[N], b: f16[N]) -> (y: u8[N], z: f16[N], w: bool[N]) {
    return y = a + 1, z = 2 * b, w = 0.5 < b
}
""")
    assert [str(one) for one in results(graph)] == ["u8[N]", "f16[N]", "bool[N]"]
    types = [str(node.outputs[0].type) for node in graph.body.nodes if not node.inputs]
    assert types == ["u8", "f16", "f16"]


def test_literals_outside_of_ops_are_arrays_of_their_dtype() -> None:
    graph = graph_of(
        MODEL
        + "pipeline p() -> (p: f32[2], n: i16, t: string[2]) {\n"
        + '  return p = score([1, 2, 3.5]), n = 7, t = ["a", "b"]\n}'
    )
    (x,) = literals_of(graph, "score").values()
    assert isinstance(x, np.ndarray)
    assert (x.dtype, x.tolist()) == (np.float32, [1.0, 2.0, 3.5])
    assert [str(one) for one in results(graph)] == ["f32[2]", "i16", "string[2]"]


def test_functions_in_the_language_and_pipelines_are_inlined() -> None:
    graph = graph_of(
        MODEL
        + """
fn twice(x: f32[N]) -> (y: f32[N]) { return y = x * 2 }
fn shifted(x: f32[N], by: f32 = 1.5) -> (y: f32[N]) { twice(x) + by }
pipeline inner(x: f32[3], strict: bool = true) -> (p: f32[2], ok: bool) {
    return p = score(shifted(x)), ok = strict
}
pipeline outer(x: f32[3]) -> (a: f32, b: f32[2]) {
    first = inner(twice(x))
    second, ok = inner(x, strict = false)
    return a = first.p[0], b = if ok { first.p } else { second }
}
"""
    )
    calls = [node.stage for node in nodes_in(graph.body) if isinstance(node.kind, ModelCall)]
    assert calls == ["score", "score"]
    assert {type(node.kind).__name__ for node in nodes_in(graph.body)} == {
        "OpCall",
        "ModelCall",
        "If",
    }


def test_an_inlined_body_sees_the_sizes_of_its_arguments() -> None:
    graph = graph_of("""
fn both(x: f32[N], y: f32[N]) -> (z: f32[N]) { return z = x + y }
pipeline p(x: f32[4]) -> (z: f32[4]) { return z = both(x, x * 2) }
""")
    assert str(results(graph)[0]) == "f32[4]"


def test_only_pipelines_give_graphs_in_the_order_written() -> None:
    result = lowered("""
pipeline b(x: f32) -> (y: f32) deadline 2s { return y = a(x) }
fn f(x: f32) -> (y: f32) { return y = x }
pipeline a(x: f32) -> (y: f32) batch 8 { return y = f(x) }
test "same" for a { given x = 1.0
 expect y == 1.0 }
schedule a on "server" { queue { size = 4 } }
""")
    assert [(graph.name, graph.deadline, graph.batch) for graph in result.graphs] == [
        ("b", 2.0, None),
        ("a", None, 8),
    ]
    assert [test.title.value for test in result.tests] == ["same"]
    assert [schedule.pipeline.text for schedule in result.schedules] == ["a"]


def test_a_graph_holds_the_signature_as_written_with_its_defaults() -> None:
    graph = graph_of("""
pipeline p(x: f32[N], least: f32 = 0.5, name: string?) -> (y: f32[M], n: string?) {
    kept = for v in x { yield v when v >= least }
    return y = kept, n = name
}
""")
    assert str(graph.signature) == (
        "(x: f32[N], least: f32, name: string?) -> (y: f32[M], n: string?)"
    )
    assert [known for known, _ in graph.defaults] == [False, True, True]
    assert graph.defaults[1][1] == np.float32(0.5)
    assert graph.defaults[2][1] is None


def test_models_and_functions_of_a_graph_are_those_it_calls(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(x):\n    return x\n")
    graph = graph_of(
        MODEL
        + 'model unused = onnx "u.onnx" (x: f32) -> (y: f32)\n'
        + 'fn f(x: f32[N]) -> (y: f32[N]) = python "f.py:f" pure batched\n'
        + "pipeline p(x: f32[3]) -> (p: f32[2]) { return p = score(f(x)) }",
        tmp_path,
    )
    assert [model.name for model in graph.models] == ["score"]
    (function,) = graph.functions
    assert (function.name, function.attribute, function.pure, function.batched) == (
        "f",
        "f",
        True,
        True,
    )
    assert function.source is not None
    assert function.source.content == b"def f(x):\n    return x\n"


def test_an_unused_result_of_a_function_that_is_not_pure_is_kept(tmp_path: Path) -> None:
    (tmp_path / "log.py").write_text("def log(x):\n    return x\n")
    graph = graph_of(
        'fn log(x: f32) -> (y: f32) = python "log.py:log"\n'
        "pipeline p(x: f32) -> (y: f32) {\n  _ = log(x)\n  return y = x\n}",
        tmp_path,
    )
    assert [type(node.kind) for node in graph.body.nodes] == [FunctionCall]


def test_an_early_return_holds_what_follows_in_its_other_arm() -> None:
    graph = graph_of(
        MODEL
        + """
pipeline p(x: f32[3]) -> (p: f32[2], quick: bool) {
    return p = [0, 0], quick = true when sum(x) == 0
    odds = score(x)
    return p = odds, quick = true when odds[0] > 0.9
    return p = score(x * 2), quick = false
}
"""
    )
    *_, last = graph.body.nodes
    assert isinstance(last.kind, If)
    assert graph.body.results == last.outputs
    then, rest = last.regions
    assert all(isinstance(node.kind, Constant) for node in then.nodes)
    assert [n.stage for n in nodes_in(rest)].count("score") == 2
    assert isinstance(rest.nodes[-1].kind, If)


def test_optional_inputs_that_are_left_out_are_none() -> None:
    graph = graph_of("""
model step = onnx "s.onnx" (x: f32[3], h: f32[2]?) -> (y: f32[3], hn: f32[2])
pipeline p(x: f32[3], h: f32[2]?) -> (y: f32[3]) {
    a, h1 = step(x)
    b, _ = step(a, h)
    c, _ = step(b, h1)
    return y = c
}
""")
    first = stage(graph, "step")
    assert literals_of(graph, "step") == {"h": None}
    assert str(first.inputs[1].type) == "f32[2]?"


def test_dtypes_are_named_as_they_are_written() -> None:
    graph = graph_of("pipeline p(x: u8[N]) -> (y: bf16[N]) { return y = cast(x, bf16) }")
    assert literals_of(graph, "cast") == {"dtype": DType.BF16}
    given = graph.body.params[0].type
    assert isinstance(given, TensorType)
    assert results(graph)[0] == TensorType(DType.BF16, given.dims)


def test_a_list_of_tensors_of_one_shape_is_a_tensor_and_of_others_a_list() -> None:
    graph = graph_of("""
pipeline p(x: f32[N], y: f32[M]) -> (a: f32[2, N], b: list<f32[_]>, c: f32[3]) {
    return a = [x, x * 2], b = [x, y], c = [x[0], 1, y[0]]
}
""")
    assert [str(one) for one in results(graph)] == ["f32[2, N]", "list<f32[_], 2>", "f32[3]"]
    assert stages(graph).count("stack") == 2


def test_tensors_become_lists_and_lists_tensors_where_they_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(x): ...\ndef g(x): ...\n")
    graph = graph_of(
        """
fn boxes(x: f32[N, 4]) -> (box: list<f32[4], 100>) = python "f.py:f"
fn areas(box: list<f32[4]>) -> (area: f32[N]) = python "f.py:g"
pipeline p(x: f32[N, 4]) -> (y: f32[M, 4], z: f32[K]) {
    return y = boxes(x), z = areas(x)
}
""",
        tmp_path,
    )
    assert stages(graph) == ["boxes", "stack", "unstack", "areas"]
    assert str(results(graph)[0]) == "f32[n, 4]"


def test_a_broken_node_causes_no_second_mistake() -> None:
    assert found_in("""
use image
pipeline p(img: u8[H, W, 3]) -> (y: f32[3]) {
    a = image.nothing(img)
    b = a + 1
    c, d = b
    e = if c > d { a } else { 3 }
    f = for x in e { yield x + f1(x) }
    return y = f.z
}
""") == ["HR103 4:15", "HR101 8:32"]


def test_mistakes_in_an_inlined_body_are_reported_once() -> None:
    assert errors_in("""
fn f(x: f32[N]) -> (y: f32[N]) { return y = x + nothing }
pipeline p(x: f32[3]) -> (y: f32[3]) { return y = f(f(x)) }
pipeline q(x: f32[3]) -> (y: f32[3]) { return y = p(f(x)) }
""") == ["there is no value `nothing`"]


def test_a_mistake_that_only_one_call_makes_names_the_call() -> None:
    result = lowered("""
model m = onnx "m.onnx" (x: f32[W]) -> (y: f32[W]) where W % 8 == 0
fn f(x: f32[N]) -> (y: f32[N]) { return y = m(x) }
pipeline p(x: f32[12]) -> (y: f32[12]) { return y = f(x) }
""")
    (found,) = result.diagnostics
    assert (found.code, found.message) == ("HR316", "`m` asks for `W % 8 == 0`, but `W` is 12")
    assert [label.text for label in found.secondary] == ["asked for here", "called from here"]
    assert found.secondary[1].span.line == 4


def test_graphs_of_sound_pipelines_are_there_beside_broken_ones() -> None:
    result = lowered("""
pipeline bad(x: f32) -> (y: f32) { return y = z }
pipeline good(x: f32) -> (y: f32) { return y = x }
""")
    assert [graph.name for graph in result.graphs] == ["good"]
