"""Sizes across a pipeline: names unified, checks where nothing is known, `where`."""

from pathlib import Path

from headrace.compiler.graph import Graph
from headrace.dsl.types import DimVar, TensorType
from tests.compiler.sources import errors_in, found_in, graph_of, results, stage

PAIR = 'model pair = onnx "pair.onnx" (a: f32[N], b: f32[N]) -> (y: f32[N])\n'


def checks(graph: Graph, name: str) -> list[str]:
    return [check.text for check in stage(graph, name).checks]


def test_a_name_is_one_size_within_a_signature_and_anew_in_each_call() -> None:
    graph = graph_of(
        PAIR
        + "pipeline p(x: f32[3], z: f32[K]) -> (y: f32[3], w: f32[K]) {\n"
        + "  return y = pair(x, x), w = pair(z, z * 2)\n}"
    )
    assert [str(one) for one in results(graph)] == ["f32[3]", "f32[K]"]


def test_two_names_of_one_signature_are_not_taken_to_be_equal() -> None:
    assert found_in(
        PAIR + "pipeline p(x: f32[N], z: f32[M]) -> (y: f32[N]) { return y = pair(x, z) }"
    ) == ["HR204 2:70"]


def test_a_size_known_only_at_run_time_is_compared_then(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(x): ...\n")
    graph = graph_of(
        PAIR
        + 'fn f(x: f32[N]) -> (y: f32[M], z: f32[M]) = python "f.py:f"\n'
        + "pipeline p(x: f32[N]) -> (y: f32[M]) {\n"
        + "  a, b = f(x)\n  c = pair(a, b)\n  return y = pair(c, x)\n}",
        tmp_path,
    )
    first, second = (n for n in graph.body.nodes if n.stage == "pair")
    assert first.checks == ()
    assert [check.text for check in second.checks] == ["N == M"]
    (check,) = second.checks
    types = [value.type for value in second.inputs]
    known = {dim for type in types if isinstance(type, TensorType) for dim in type.dims}
    assert {check.left, check.right} <= known


def test_results_that_must_be_of_one_size_are_compared_by_the_last_stage_of_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "f.py").write_text("def f(x): ...\n")
    graph = graph_of(
        'fn f(x: f32[N]) -> (y: f32[M]) = python "f.py:f"\n'
        "pipeline p(x: f32[4]) -> (a: f32[K], b: f32[K]) {\n"
        "  a = f(x)\n  b = f(x)\n  return a = a, b = b\n}",
        tmp_path,
    )
    first, second = graph.body.nodes
    assert first.checks == ()
    assert [check.text for check in second.checks] == ["M == M"]


def test_a_where_clause_is_proved_checked_or_refuted() -> None:
    model = 'model m = onnx "m.onnx" (x: f32[H]) -> (y: f32[H / 4]) where H % 32 == 0\n'
    proved = graph_of(model + "pipeline p(x: f32[64]) -> (y: f32[16]) { return y = m(x) }")
    assert checks(proved, "m") == []
    unknown = graph_of(model + "pipeline p(x: f32[N]) -> (y: f32[N / 4]) { return y = m(x) }")
    assert checks(unknown, "m") == ["H % 32 == 0"]
    assert errors_in(model + "pipeline p(x: f32[40]) -> (y: f32[10]) { return y = m(x) }") == [
        "`m` asks for `H % 32 == 0`, but `H` is 40"
    ]


def test_arithmetic_of_sizes_is_carried_through() -> None:
    graph = graph_of("""
model down = onnx "d.onnx" (x: f32[2 * T]) -> (y: f32[T])
model up = onnx "u.onnx" (y: f32[T]) -> (x: f32[2 * T + 1])
pipeline p(x: f32[64]) -> (a: f32[32], b: f32[65]) {
    y = down(x)
    return a = y, b = up(y)
}
""")
    assert [str(one) for one in results(graph)] == ["f32[32]", "f32[65]"]


def test_arguments_with_arithmetic_are_compared_after_those_with_names() -> None:
    graph = graph_of("""
model m = onnx "m.onnx" (mask: f32[H / 8], x: f32[H]) -> (y: f32)
pipeline p(x: f32[64], mask: f32[8]) -> (y: f32) { return y = m(mask, x) }
""")
    assert checks(graph, "m") == []
    assert found_in("""
model m = onnx "m.onnx" (mask: f32[H / 8], x: f32[H]) -> (y: f32)
pipeline p(x: f32[64], mask: f32[9]) -> (y: f32) { return y = m(mask, x) }
""") == ["HR204 3:65"]


def test_a_constant_s_names_take_its_sizes(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("a\nb\nc\n")
    graph = graph_of(
        'const labels: string[K] = lines("labels.txt")\n'
        'model m = onnx "m.onnx" (x: f32[4]) -> (p: f32[C])\n'
        'fn name(p: f32[K], labels: string[K]) -> (label: string) = python "f.py:f"\n'
        "pipeline p(x: f32[4]) -> (label: string) { return label = name(m(x), labels) }",
        _with_python(tmp_path),
    )
    assert checks(graph, "name") == ["C == 3"]
    assert [str(value.type) for value in stage(graph, "name").inputs] == ["f32[C]", "string[3]"]


def _with_python(folder: Path) -> Path:
    (folder / "f.py").write_text("def f(p, labels): ...\n")
    return folder


def test_sizes_made_anew_for_each_item_are_not_taken_to_be_equal_among_them(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(x): ...\n")
    head = 'fn f(x: f32) -> (y: f32[M]) = python "f.py:f"\n'
    graph = graph_of(
        head
        + "pipeline p(xs: f32[N]) -> (ys: list<f32[_]>) { return ys = for x in xs { yield f(x) } }",
        tmp_path,
    )
    assert str(results(graph)[0]) == "list<f32[_]>"
    graph = graph_of(
        head
        + PAIR
        + "pipeline p(xs: f32[N]) -> (y: f32[K]) {\n"
        + "  ys = for x in xs { yield f(x) }\n  return y = pair(ys[0], ys[1])\n}",
        tmp_path,
    )
    (check,) = stage(graph, "pair").checks
    assert isinstance(check.left, DimVar)
    assert check.left != check.right


def test_unknown_sizes_match_anything() -> None:
    graph = graph_of(
        PAIR + "pipeline p(x: f32[_], z: f32[5]) -> (y: f32[_]) { return y = pair(x, z) }"
    )
    assert checks(graph, "pair") in (["_ == 5"], ["5 == _"])


def test_arms_may_differ_in_sizes_that_only_the_run_tells(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(x): ...\n")
    graph = graph_of(
        'fn f(x: f32[N]) -> (y: f32[M]) = python "f.py:f"\n'
        "pipeline p(x: f32[4], c: bool) -> (y: f32[K]) {\n"
        "  return y = [] when c\n"
        "  y = if c { f(x) } else { x }\n  return y = y\n}",
        tmp_path,
    )
    assert str(results(graph)[0]).startswith("f32[")
    assert found_in(
        "pipeline p(a: f32[3], b: f32[4], c: bool) -> (y: f32[3]) {"
        " return y = if c { a } else { b } }"
    ) == ["HR205 1:89"]


def test_a_mismatch_shows_both_sides_and_where_the_size_comes_from() -> None:
    from tests.compiler.sources import lowered

    (found,) = lowered(
        PAIR + "pipeline p(x: f32[3], z: f32[4]) -> (y: f32[3]) { return y = pair(x, z) }"
    ).diagnostics
    assert found.message == "`pair` wants f32[N] for `b`, but `z` is f32[4]"
    assert found.notes == ("dimension 0 is 4 where `N` is 3",)
    assert [label.text for label in found.secondary] == ["`z` is given here", "`N` is 3 here"]
