"""`loop`, `try`, `emit`: the regions they become, what is planned of them, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.compiler import compile_with_warnings
from headrace.compiler.explain_graph import explain_graph
from headrace.compiler.graph import Emit, If, Loop, Node, OpCall, Region, Try
from headrace.compiler.literal_codec import Malformed
from headrace.compiler.plan import CallStep, EmitStep, LoopStep, Plan, TryStep
from headrace.compiler.plan_file import read, to_bytes
from headrace.compiler.plan_walk import steps_of
from headrace.compiler.verify import GraphError, verify
from headrace.compiler.verify_plan import verify_plan
from headrace.dsl.source import Source
from tests.compiler.sources import errors_in, found_in, graph_of, nodes_in, results, stage

GROWING = """
pipeline p(x: f32[N], most: i32) -> (ids: f32[M], n: i64) {
    ids, n = loop (ids: f32[_] = x, n: i64 = 0) max most {
        next ids = concat(ids, [0.5]), n = n + 1
        stop when n > 3
    }
    return ids = ids, n = n
}
"""
STREAM = """
pipeline p(x: f32[N], most: i64) -> stream (y: f32[N]) {
    emit y = x
    loop (y: f32[N] = x) max most {
        emit y = y when y[0] > 1.0
        next y = y + 1
    }
}
"""
TRYING = """
pipeline p(x: f32[N]) -> (y: f32[N], z: f32[N]) {
    r = try { a = x / 2
        nn.softmax(a) } within 20ms else x
    return y = r, z = try nn.softmax(x) else x
}
"""


def plan_of(text: str) -> Plan:
    return compile_with_warnings(Source("<text>", text)).plan


def test_a_loop_has_one_region_that_takes_and_gives_what_it_carries() -> None:
    graph = graph_of(GROWING)
    loop = stage(graph, "loop")
    assert loop.kind == Loop(stops=True)
    assert [value.name for value in loop.inputs] == ["most", "x", "n"]
    (body,) = loop.regions
    assert [value.name for value in body.params] == ["ids", "n"]
    assert [str(value.type) for value in body.results] == ["f32[_ + 1]", "i64", "bool"]
    assert [value.name for value in loop.outputs] == ["ids", "n"]


def test_a_size_that_may_change_is_one_in_each_turn_and_another_in_the_end() -> None:
    loop = stage(graph_of(GROWING), "loop")
    start, inside, after = loop.inputs[1], loop.regions[0].params[0], loop.outputs[0]
    assert len({str(one.type) for one in (inside, after)}) == 1
    assert len({one.type for one in (start, inside, after)}) == 3


def test_a_carried_size_that_is_named_stays_what_it_was() -> None:
    graph = graph_of("""
pipeline p(x: f32[N], most: i64) -> (y: f32[N]) {
    y = loop (a: f32[L] = x, b: f32[L] = x) max most { next a = b, b = a }
    return y = y.a
}
""")
    assert results(graph) == [graph.body.params[0].type]


def test_names_of_the_pipeline_s_sizes_mean_the_same_in_a_loop() -> None:
    text = """
pipeline p(x: f32[N], y: f32[M]) -> (z: f32[M]) {
    z = loop (z: f32[N] = y) max 3 { next z = z }
    return z = z
}
"""
    assert errors_in(text) == ["`z` is carried as f32[N] in every turn, but `y` is f32[M]"]


def test_a_loop_without_a_stop_and_with_a_literal_bound() -> None:
    graph = graph_of("""
pipeline p(x: f32) -> (y: f32) {
    y = loop (y: f32 = 1) max 8 { next y = y * x }
    return y = y
}
""")
    assert stage(graph, "loop").kind == Loop(stops=False)


def test_loops_stand_in_loops_and_in_the_items_of_a_for() -> None:
    graph = graph_of("""
pipeline p(xs: i64[N]) -> (ys: i64[N]) {
    ys = for x in xs {
        y = loop (y: i64 = x) max x {
            inner = loop (z: i64 = y) max 2 { next z = z + x }
            next y = inner
        }
        yield y
    }
    return ys = ys
}
""")
    assert [type(node.kind) for node in nodes_in(graph.body)].count(Loop) == 2


def test_a_loop_is_not_dropped_when_its_result_is_read_and_is_when_it_is_not() -> None:
    text = """
pipeline p(x: f32) -> (y: f32) {
    _ = loop (y: f32 = x) max 8 { next y = y * x }
    return y = x
}
"""
    assert not list(steps_of(plan_of(text).pipelines[0].body))
    assert any(isinstance(one, LoopStep) for one in steps_of(plan_of(GROWING).pipelines[0].body))


@pytest.mark.parametrize(
    ("loop", "codes"),
    [
        ("loop (y: f32 = x) max most { _ = y }", ["HR330"]),
        ("loop () max most { next y = 1 }", ["HR330", "HR331"]),
        ("loop (y: f32 = x) max most { next z = y }", ["HR331"]),
        ("loop (y: f32 = x, n: i64 = 0) max most { next y = y }", ["HR331"]),
        ("loop (y: f32 = x) max most { next y = y, y = y }", ["HR105"]),
        ("loop (y: f32 = most) max most { next y = y }", ["HR332"]),
        ("loop (y: f32 = x) max most { next y = [y] }", ["HR332"]),
        ("loop (y: u8 = 300) max most { next y = y }", ["HR332"]),
        ("loop (y: f32 = x) max x { next y = y }", ["HR333"]),
        ("loop (y: f32 = x) max -1 { next y = y }", ["HR333"]),
        ("loop (y: f32 = x) max most { next y = y \n stop when y }", ["HR206"]),
        ("loop (y: f32 = x) max most { next y = y \n next y = y }", ["HR334"]),
        ("loop (y: f32 = x) max most { stop when y > 1 \n next y = y }", ["HR334"]),
        ("loop (y: f32 = x, y: f32 = x) max most { next y = y }", ["HR105"]),
    ],
)
def test_what_a_loop_may_not_be(loop: str, codes: list[str]) -> None:
    text = f"pipeline p(x: f32, most: i64) -> (y: f32) {{\n y = {loop}\n return y = x\n}}"
    found = [one.split()[0] for one in found_in(text)]
    assert [code for code in found if code != "HR109"] == codes


def test_a_next_within_an_arm_is_told_to_stand_at_the_end() -> None:
    text = """
pipeline p(x: f32, most: i64) -> (y: f32) {
    y = loop (y: f32 = x) max most {
        z = if y > 1 { next y = 1 } else { y }
        next y = z
    }
    return y = y
}
"""
    assert found_in(text) == ["HR334 4:24"]


def test_a_try_has_two_regions_and_a_limit_in_seconds() -> None:
    graph = graph_of("use nn" + TRYING)
    first, second = (node for node in nodes_in(graph.body) if node.stage == "try")
    assert (first.kind, second.kind) == (Try(0.02), Try(None))
    assert [len(region.params) for region in first.regions] == [0, 0]
    assert first.regions[1].results == (graph.body.params[0],)


def test_arms_of_a_try_have_one_type_and_its_limit_is_a_time() -> None:
    text = "pipeline p(x: f32[2]) -> (y: f32[2]) {{ return y = try x {} else {} }}"
    assert found_in(text.format("", "x[0]")) == ["HR205 1:63"]
    assert found_in(text.format("within 0ms", "x")) == ["HR335 1:64"]
    assert found_in(text.format("within 20", "x")) == ["HR335 1:64"]


def test_an_emit_is_a_node_of_its_own_and_stands_under_its_condition() -> None:
    graph = graph_of(STREAM)
    emits = [node for node in nodes_in(graph.body) if isinstance(node.kind, Emit)]
    assert len(emits) == 2
    assert graph.stream
    assert graph.body.results == ()
    (choice,) = (node for node in nodes_in(graph.body) if isinstance(node.kind, If))
    assert (choice.outputs, choice.regions[0].nodes[-1]) == ((), emits[1])


def test_arms_that_only_emit_give_nothing() -> None:
    graph = graph_of("""
pipeline p(x: f32) -> stream (y: f32) {
    if x > 1 { emit y = x } else { emit y = 1 - x }
    match x > 2 { true => { emit y = 2 }, false => { emit y = 3 } }
}
""")
    assert len([node for node in nodes_in(graph.body) if isinstance(node.kind, Emit)]) == 4


@pytest.mark.parametrize(
    ("head", "body", "codes"),
    [
        ("-> (y: f32)", "emit y = x\n return y = x", ["HR336 2:1"]),
        ("-> stream (y: f32)", "return y = x", ["HR337 2:1"]),
        ("-> stream (y: f32)", "_ = x", ["HR337 1:10"]),
        ("-> stream (y: f32) batch 4", "emit y = x", ["HR337 1:45"]),
        ("-> stream (y: f32)", "emit z = x", ["HR212 2:6"]),
        ("-> stream (y: f32)", "emit y = [x]", ["HR213 2:10"]),
        ("-> stream (y: f32)", "_ = try { emit y = x } else x\n emit y = x", ["HR336 2:11"]),
        ("-> stream (y: f32)", "for v in [x] { emit y = v\n yield v }", ["HR336 2:16"]),
        (
            "-> stream (y: f32)",
            "a = if x > 1 { emit y = x } else { emit y = 1 }\n emit y = a",
            None,
        ),
    ],
)
def test_where_a_pipeline_may_not_emit(head: str, body: str, codes: list[str]) -> None:
    found = found_in(f"pipeline p(x: f32) {head} {{\n{body}\n}}")
    assert found == (codes or ["HR314 3:11"])


def test_a_stream_cannot_be_called_by_another_pipeline() -> None:
    text = STREAM + "pipeline q(x: f32[N]) -> (y: f32[N]) { return y = p(x, 3) }"
    assert [one.split()[0] for one in found_in(text)] == ["HR338"]


# ---- what follows the checker


def test_explain_says_what_a_loop_carries_when_it_stops_and_what_is_sent() -> None:
    text = explain_graph(graph_of(GROWING), Path("/nowhere"))
    assert "loop (%0, 0) max %1" in text
    assert "stop when" in text
    text = explain_graph(graph_of(STREAM), Path("/nowhere"))
    assert "-> stream (y: f32[N])" in text
    assert "emit %0" in text
    text = explain_graph(graph_of("use nn" + TRYING), Path("/nowhere"))
    assert "try within 0.02 s" in text
    assert "\nelse\n" in text


def test_plans_with_loops_tries_and_streams_come_back_from_their_files() -> None:
    plan = plan_of("use nn" + TRYING + GROWING.replace("p(", "q(") + STREAM.replace("p(", "s("))
    kinds = {type(step) for one in plan.pipelines for step in steps_of(one.body)}
    assert kinds >= {LoopStep, TryStep, EmitStep}
    assert read(to_bytes(plan)) == plan


def broken(region: Region, wanted: type, **changes: object) -> Region:
    """Return the region with its first node of a kind changed."""
    nodes: list[Node] = []
    for node in region.nodes:
        if isinstance(node.kind, wanted):
            node = replace(node, **changes)
        nodes.append(node)
    return replace(region, nodes=tuple(nodes))


def test_the_verifier_knows_what_a_loop_a_try_and_an_emit_are() -> None:
    graph = graph_of(GROWING)
    loop = stage(graph, "loop")
    less = replace(loop.regions[0], results=loop.regions[0].results[:-1])
    for changes in (
        {"kind": Loop(stops=False)},
        {"inputs": loop.inputs[1:]},
        {"inputs": (loop.inputs[1], *loop.inputs[1:])},
        {"regions": (less,)},
        {"inputs": (loop.inputs[0], loop.inputs[0], loop.inputs[2])},
    ):
        with pytest.raises(GraphError):
            verify(replace(graph, body=broken(graph.body, Loop, **changes)))
    graph = graph_of("use nn" + TRYING)
    for changes in ({"kind": Try(0.0)}, {"regions": ()}):
        with pytest.raises(GraphError):
            verify(replace(graph, body=broken(graph.body, Try, **changes)))
    graph = graph_of(STREAM)
    with pytest.raises(GraphError, match="no stream"):
        verify(
            replace(graph, stream=False, body=replace(graph.body, results=graph.body.params[:1]))
        )
    with pytest.raises(GraphError):
        verify(replace(graph, body=broken(graph.body, Emit, inputs=())))


def test_a_plan_whose_loop_or_stream_does_not_fit_is_refused() -> None:
    plan = plan_of(STREAM)
    (pipeline,) = plan.pipelines
    with pytest.raises(Malformed, match="slots differ"):
        verify_plan(replace(plan, pipelines=(replace(pipeline, stream=False),)))
    steps = tuple(
        replace(step, carried=()) if isinstance(step, LoopStep) else step
        for step in pipeline.body.steps
    )
    bad = replace(pipeline, body=replace(pipeline.body, steps=steps))
    with pytest.raises(Malformed, match="carried"):
        verify_plan(replace(plan, pipelines=(bad,)))


def test_what_is_the_same_in_every_turn_is_computed_once_if_it_was_before() -> None:
    plan = plan_of("""
pipeline p(x: f32[N], most: i64) -> (y: f32[N], z: f32[N]) {
    z = x * 3
    y = loop (y: f32[N] = x) max most { next y = y + x * 3 }
    return y = y, z = z
}
""")
    calls = [one for one in steps_of(plan.pipelines[0].body) if isinstance(one, CallStep)]
    assert [plan.segments[one.segment].name for one in calls] == ["math.mul", "math.add"]


def test_what_may_fail_stays_under_its_try() -> None:
    inner = stage(graph_of("use nn" + TRYING), "try").regions[0]
    assert any(isinstance(node.kind, OpCall) for node in inner.nodes)
