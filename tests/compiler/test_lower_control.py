"""`if`, `match`, `for`: regions, what they give, and what is refused."""

import pytest

from headrace.compiler.graph import For, If, Match
from tests.compiler.sources import errors_in, found_in, graph_of, results, stage


def test_an_if_has_one_region_an_arm_and_captures_what_it_uses() -> None:
    graph = graph_of("""
pipeline p(x: f32[N], wide: bool) -> (y: f32[N]) {
    twice = x * 2
    y = if wide { twice + 1 } else { x }
    return y = y
}
""")
    node = graph.body.nodes[-1]
    assert isinstance(node.kind, If)
    then, orelse = node.regions
    assert then.params == orelse.params == ()
    assert then.nodes[-1].inputs[0] is graph.body.nodes[1].outputs[0]
    assert orelse.results == (graph.body.params[0],)
    assert node.outputs[0].name == "y"


def test_else_if_is_an_if_in_the_other_arm() -> None:
    graph = graph_of("""
pipeline p(x: f32) -> (y: f32) {
    return y = if x > 1.0 { 1 } else if x < 0.0 { 0 } else { x }
}
""")
    (inner,) = (n for n in stage(graph, "if").regions[1].nodes if isinstance(n.kind, If))
    assert str(inner.outputs[0].type) == "f32"


def test_arms_that_are_records_give_records_with_the_same_fields() -> None:
    graph = graph_of("""
use nn
pipeline p(x: f32[9], c: bool) -> (v: f32[2], i: i64[2]) {
    r = if c { nn.topk(x, 2) } else { nn.topk(-x, 2) }
    return v = r.values, i = r.indices
}
""")
    assert [value.name for value in stage(graph, "if").outputs] == ["r.values", "r.indices"]


def test_one_arm_may_be_a_literal_of_the_other_s_dtype() -> None:
    graph = graph_of("pipeline p(x: f16, c: bool) -> (y: f16) { return y = if c { 0 } else { x } }")
    assert str(stage(graph, "if").regions[0].results[0].type) == "f16"
    assert errors_in(
        "pipeline p(x: u8, c: bool) -> (y: u8) { return y = if c { -1 } else { x } }"
    ) == ["the other arm is u8, but -1 does not fit u8, which holds 0 to 255"]


def test_a_match_has_a_region_for_each_arm_and_the_last_takes_the_rest() -> None:
    graph = graph_of("""
pipeline p(lang: string, x: f32) -> (y: f32) {
    return y = match lang {
        "en" | "de" => x * 2
        "zh" => { half = x / 2
            half + 1 }
        _ => x
    }
}
""")
    node = stage(graph, "match")
    assert node.kind == Match((("en", "de"), ("zh",)))
    assert len(node.regions) == 3


def test_a_match_of_a_bool_needs_no_wildcard() -> None:
    graph = graph_of(
        "pipeline p(c: bool, x: f32) -> (y: f32) { return y = match c { false => 0, true => x } }"
    )
    assert stage(graph, "match").kind == Match(((False,),))


@pytest.mark.parametrize(
    ("arms", "found"),
    [
        ("1 => x", "HR220 2:16"),
        ("1 => x, 1 => x, _ => x", "HR222 2:34"),
        ("_ => x, 1 => x", "HR222 2:34"),
        ('"one" => x, _ => x', "HR221 2:26"),
        ("300 => x, _ => x", "HR221 2:26"),
        ("1.5 => x, _ => x", "HR221 2:26"),
        ("1 => x, _ => [x, x]", "HR205 2:39"),
    ],
)
def test_a_match_that_makes_no_sense_is_refused(arms: str, found: str) -> None:
    text = f"pipeline p(k: u8, x: f32) -> (y: f32) {{\n    return y = match k {{ {arms} }}\n}}"
    assert found_in(text) == [found]


def test_a_for_over_a_tensor_keeps_its_length_and_a_filter_makes_a_new_one() -> None:
    graph = graph_of("""
pipeline p(xs: f32[N, 4]) -> (a: f32[N], b: f32[M, 4]) {
    a = for x in xs { yield sum(x) }
    b = for x in xs { yield x when sum(x) > 0 }
    return a = a, b = b
}
""")
    assert [str(one) for one in results(graph)] == ["f32[N]", "f32[n, 4]"]
    whole, kept = (n for n in graph.body.nodes if isinstance(n.kind, For))
    assert whole.kind == For(filtered=False)
    assert kept.kind == For(filtered=True)
    assert [str(value.type) for value in kept.regions[0].results] == ["f32[4]", "bool"]


def test_a_for_gives_a_record_of_lists() -> None:
    graph = graph_of("""
pipeline p(xs: list<f32[3], 9>) -> (total: f32[N], all: f32[N, 3]) {
    seen = for x in xs { yield total = sum(x), part = x }
    return total = seen.total, all = seen.part
}
""")
    assert [value.name for value in stage(graph, "for").outputs] == ["seen.total", "seen.part"]


def test_lists_are_walked_side_by_side() -> None:
    graph = graph_of("""
pipeline p(xs: f32[N], ys: f32[N], zs: list<f32[_]>) -> (r: f32[N]) {
    return r = for x, y, z in zip(xs, ys, zs) { yield x * y + sum(z) }
}
""")
    node = stage(graph, "for")
    assert [value.name for value in node.regions[0].params] == ["x", "y", "z"]
    assert node.checks == ()


def test_loops_nest_and_capture() -> None:
    graph = graph_of("""
pipeline p(rows: f32[N, M], by: f32) -> (y: f32[N, M]) {
    return y = for row in rows {
        first = row[0]
        yield for v in row { yield v * by - first }
    }
}
""")
    outer = stage(graph, "for")
    inner = outer.regions[0].nodes[-1]
    assert isinstance(inner.kind, For)
    used = {value for node in inner.regions[0].nodes for value in node.inputs}
    assert graph.body.params[1] in used
    assert str(results(graph)[0]) == "f32[N, M]"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("r = for x in n { yield x }", ["HR207 2:14"]),
        ("r = for x, y in xs { yield x }", ["HR210 2:12"]),
        ("r = for x in zip(xs, xs) { yield x }", ["HR210 2:9"]),
        ("r = for x in xs { x }", ["HR319 2:19"]),
        ("r = for x in xs { y = x }", ["HR319 2:19"]),
        ("r = for x in xs { yield x when x }", ["HR206 2:32"]),
        ("r = for x in xs { yield a = x, x }", ["HR211 2:32"]),
        ("r = for x in xs { return r = x\n yield x }", ["HR320 2:19"]),
        ("r = if n > 1 { xs }", ["HR225 2:5"]),
        ("r = if n { xs } else { xs }", ["HR206 2:8"]),
        ("r = if n > 1 { xs } else { n }", ["HR205 2:28"]),
        ("r = if n > 1 { s = xs } else { xs }", ["HR109 2:16", "HR314 2:16"]),
        ("r = [n, xs]", ["HR217 2:9"]),
    ],
)
def test_control_flow_that_makes_no_sense_is_refused(body: str, found: list[str]) -> None:
    text = f"pipeline p(n: i64, xs: f32[3]) -> (r: f32[3]) {{\n{body}\nreturn r = xs + sum(r)\n}}"
    text = text.replace("xs + sum(r)", "r")
    assert [one for one in found_in(text) if one.split()[1] != "3:12"] == found


@pytest.mark.parametrize(
    ("returns", "found"),
    [
        ("return y = x", []),
        ("return x", []),
        ("x", []),
        ("return y = x when x > 0.0", ["HR314 2:1"]),
        ("z = x", ["HR314 2:1"]),
        ("return y = x\nreturn y = x", ["HR315 3:1"]),
        ("return z = x", ["HR212 2:8"]),
        ("return y = x, z = x", ["HR212 2:15"]),
        ("return y = x, y = x", ["HR105 2:15"]),
        ('return y = "x"', ["HR213 2:12"]),
        ("return y = x when x\nreturn y = x", ["HR206 2:19"]),
        ('return y = "x" when x > 0.0\nreturn y = [x]', ["HR213 2:12", "HR213 3:12"]),
    ],
)
def test_returns_fit_the_signature(returns: str, found: list[str]) -> None:
    assert found_in(f"pipeline p(x: f32) -> (y: f32) {{\n{returns}\n}}") == found
