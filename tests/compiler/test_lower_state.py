"""`state` and `next`: parameters and results of the body, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.compiler import plan_file
from tests.compiler.sources import errors_in, found_in, graph_of


def test_a_state_is_a_parameter_of_the_body_and_what_it_becomes_a_result() -> None:
    graph = graph_of("""
pipeline p(x: f32[2]) -> (y: f32[2]) per sequence idle 2s {
    state total: f32[2] = zeros
    state count: i64 = 3
    more = total + x
    next total = more
    next count = count + 1
    return y = more
}
""")
    assert graph.idle == 2
    assert [value.name for value in graph.body.params] == ["x", "total", "count"]
    assert [value.name for value in graph.body.results] == ["more", "more", "count"]
    total, count = graph.states
    assert np.asarray(total.initial).tolist() == [0, 0]
    assert count.initial == 3


def test_a_state_without_idle_is_kept_for_a_minute() -> None:
    graph = graph_of("""
pipeline p(x: f32) -> (y: f32) per sequence {
    state last: f32 = 0
    next last = x
    return y = last
}
""")
    assert graph.idle == 60


@pytest.mark.parametrize(
    ("declared", "initial"),
    [
        ("f32[2, 2] = full([2, 2], 0.5)", [[0.5, 0.5], [0.5, 0.5]]),
        ("f32[2] = [1, 2]", [1, 2]),
        ("i64[_] = []", []),
        ("f32[_, 2] = [[1, 2]]", [[1, 2]]),
        ("bool = false", False),
        ("u8[3] = zeros", [0, 0, 0]),
        ("f32 = -(2 * 3)", -6),
    ],
)
def test_a_state_begins_with_what_is_known_when_compiling(declared: str, initial: object) -> None:
    graph = graph_of(f"""
pipeline p(x: f32) -> (y: f32) per sequence {{
    state s: {declared}
    next s = s
    return y = x
}}
""")
    assert np.asarray(graph.states[0].initial).tolist() == initial


def test_a_state_may_be_text_a_list_or_absent() -> None:
    with (
        headrace.load("""
pipeline p(x: string) -> (before: string, n: i64, had: bool) per sequence {
    state last: string = "none"
    state all: list<f32[_]> = []
    next last = x
    next all = [cast(range(2), f32), cast(range(3), f32)]
    return before = last, n = len(all), had = len(all) > 0
}
""") as app,
        app.p.sequence() as calls,
    ):
        assert [calls(x="a").before, calls(x="b").before] == ["none", "a"]
        answer = calls(x="c")
        assert (answer.before, answer.n, answer.had) == ("b", 2, True)


def test_a_pipeline_that_returns_early_has_set_its_states_before() -> None:
    source = """
pipeline p(x: f32) -> (y: f32, n: i64) per sequence {
    state n: i64 = 0
    next n = if x > 0.0 { n + 1 } else { n }
    return y = x, n = n when x < 0.0
    return y = x * 2, n = n
}
"""
    with headrace.load(source) as app, app.p.sequence() as calls:
        assert [int(calls(x=x).n) for x in (1, -1, 1, 1)] == [0, 1, 1, 2]


def test_states_are_used_in_branches_and_loops() -> None:
    source = """
pipeline p(xs: f32[N]) -> (ys: f32[N]) per sequence {
    state scale: f32 = 1
    ys = for x in xs { yield y = if x > 0.0 { x * scale } else { x } }
    next scale = scale * 2
    return ys = ys
}
"""
    with headrace.load(source) as app, app.p.sequence() as calls:
        assert calls(xs=[1, -1]).ys.tolist() == [1, -1]
        assert calls(xs=[1, -1, 3]).ys.tolist() == [2, -1, 6]


def test_a_plan_file_keeps_the_states(tmp_path: Path) -> None:
    plan = headrace.compile("""
pipeline p(x: f32) -> (y: f32) per sequence idle 5s {
    state last: f32[2] = [1, 2]
    next last = [x, x]
    return y = last[0]
}
""")
    plan.save(tmp_path / "p.plan")
    (pipeline,) = plan_file.read(tmp_path / "p.plan").pipelines
    assert pipeline.idle == 5
    assert np.asarray(pipeline.states[0].initial).tolist() == [1, 2]


def body(*lines: str) -> str:
    inside = "".join(f"    {line}\n" for line in lines)
    return f"pipeline p(x: f32) -> (y: f32) per sequence {{\n{inside}    return y = x\n}}\n"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("state n: i64 = 0", "_ = n"), "`n` has no `next` when this returns"),
        (("state n: i64 = 0", "next m = n", "next n = n"), "there is no state `m`"),
        (("state n: i64 = 0", "state m: i64 = n", "next n = n"), "there is no value `n`"),
        (
            ("state n: i64 = 0", "next n = n", "next n = n + 1"),
            "`n` is given twice",
        ),
        (("state n: i64 = 0.5", "next n = n"), "not a whole number"),
        (("state n: i64[3] = [1, 2]", "next n = n"), "`n` is i64[3]"),
        (("state n: f32[N] = zeros", "next n = n"), "they are numbers, or `_`"),
        (("state n: string = zeros", "next n = n"), "`zeros` fills a tensor of numbers"),
        (("state n: i64 = 0", "next n = x"), "`n` is i64, but `x` is f32"),
        (("state n: i64 = 0", "next n = 0.5"), "not a whole number"),
        (
            ("state n: i64 = 0", "m = if x > 0.0 { next n = n", "x } else { x }", "next n = n"),
            "`next` ends the block of a `loop`",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(lines: tuple[str, ...], said: str) -> None:
    found = errors_in(body(*lines))
    assert any(said in message for message in found), found


def test_what_is_not_per_sequence_has_no_state() -> None:
    assert found_in("""
fn f(x: f32) -> (y: f32) {
    state n: i64 = 0
    return y = x
}
""") == ["HR340 3:5"]
    assert found_in("""
pipeline p(x: f32) -> (y: f32) per sequence {
    return y = x
}
""") == ["HR340 2:10"]
    assert found_in("""
pipeline p(x: f32) -> stream (y: f32) per sequence idle 0s {
    state n: i64 = 0
    next n = n
    emit y = x
}
""") == ["HR230 2:57"]


def test_what_is_read_of_a_sequence_is_a_parameter_between_inputs_and_states() -> None:
    graph = graph_of("""
pipeline p(x: f32) -> (y: bool, z: string) per sequence {
    state n: i64 = 0
    next n = n + 1
    return y = sequence.end or sequence.start and not sequence.end, z = sequence.id
}
""")
    assert [value.name for value in graph.body.params] == ["x", "start", "end", "id", "n"]
    assert [field.name for field in graph.controls] == ["start", "end", "id"]


def test_a_pipeline_that_reads_of_its_sequence_need_not_keep_anything() -> None:
    graph = graph_of("""
pipeline p(x: f32) -> (y: u64) per sequence {
    return y = sequence.number
}
""")
    assert (graph.states, graph.idle) == ((), 60)


def test_a_name_of_the_source_hides_what_is_read_of_a_sequence() -> None:
    assert not errors_in("""
fn both(x: f32) -> (start: f32, end: f32) {
    return start = x, end = x
}

pipeline p(x: f32) -> (y: f32) {
    sequence = both(x)
    return y = sequence.start
}
""")


@pytest.mark.parametrize(
    ("clause", "read", "place"),
    [
        ("", "sequence.start", "HR348 7:16"),
        (" per sequence", "f(sequence.starts)", "HR348 7:27"),
        (" per sequence", "if sequence.id == sequence.id { x } else { cast(sequence.number, f32) }",
         "HR348 7:64"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_of_a_sequence_is_refused(clause: str, read: str, place: str) -> None:
    assert place in found_in(f"""
fn f(x: bool) -> (y: f32) {{
    return y = if x {{ 1 }} else {{ 0 }}
}}

pipeline p(x: f32) -> (y: f32){clause} {{
    return y = {read}
}}
""")


def test_a_function_is_told_of_a_sequence_by_who_calls_it() -> None:
    assert "HR348 3:19" in found_in("""
fn f(x: f32) -> (y: f32) {
    return y = if sequence.start { x } else { 0 }
}

pipeline p(x: f32) -> (y: f32) per sequence {
    state n: f32 = 0
    next n = f(x)
    return y = n
}
""")
