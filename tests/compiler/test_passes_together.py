"""What runs at once: arms of steps that need not wait for each other, where a hop pays."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.compiler.agree_sizes import rows_flow
from headrace.compiler.deadline_split import deadline_split
from headrace.compiler.explain_graph import explain_graph
from headrace.compiler.graph import (
    Check,
    Emit,
    Graph,
    Region,
    Settings,
    StageSettings,
    Together,
    Value,
)
from headrace.compiler.graph_pass import PassContext, PassResult
from headrace.compiler.memory import plan_memory
from headrace.compiler.passes.run_together import PASS
from headrace.compiler.pictures.graph_scene import graph_scene
from headrace.compiler.pictures.plan_scene import plan_scene
from headrace.compiler.pictures.scene import Frame
from headrace.compiler.plan import CheckStep, Plan, TogetherStep
from headrace.compiler.plan_file import read, to_bytes
from headrace.compiler.plan_walk import steps_of
from headrace.compiler.policies import Batching
from headrace.compiler.profile import Machine, ModelTimes, Profile, StageTime, Timing
from headrace.compiler.rewrite import walk
from headrace.compiler.verify import GraphError, verify
from tests.compiler.graphs import BOOL, F32, Maker, layer, tensor
from tests.compiler.sources import graph_of
from tests.compiler.test_planner_random import planned, with_source

ROW = tensor(F32, 4)


MACHINE = Machine("test", 2, "onnxruntime", 1)


class Toys(Maker):
    """A maker whose functions take one row and give one."""

    def pure(self, name: str, *rows: Value) -> Value:
        return self.function(name, *rows, results=[ROW], pure=True)[0]

    def opaque(self, name: str, *rows: Value) -> Value:
        return self.function(name, *rows, results=[ROW])[0]


def ran(graph: Graph) -> PassResult:
    verify(graph)
    result = PASS.run(graph, PassContext())
    verify(result.graph)
    assert result.changed == (result.graph is not graph)
    assert not PASS.run(result.graph, PassContext()).changed
    return result


def shape(region: Region) -> list[object]:
    """Return the stages of a region, each fork as a list of what its arms are."""
    found: list[object] = []
    for node in region.nodes:
        if isinstance(node.kind, Together):
            found.append([shape(arm) for arm in node.regions])
        elif node.stage != "literal":
            found.append((node.stage, *map(shape, node.regions)) if node.regions else node.stage)
    return found


def shaped(graph: Graph) -> list[object]:
    return shape(ran(graph).graph.body)


def measured(graph: Graph, seconds: float) -> Graph:
    """The graph with a profile in which each model takes so long."""
    digests = {one.content.digest: one.name for one in graph.models if one.content is not None}
    times = tuple(
        ModelTimes(digest, name, device, (), (Timing(1, seconds),))
        for digest, name in digests.items()
        for device in ("cpu", "sim")
    )
    return replace(graph, profile=Profile(MACHINE, times))


def test_two_functions_on_one_value_run_at_once_and_what_joins_them_after() -> None:
    make = Toys()
    x = make.param("x", ROW)
    graph = make.graph(make.pure("both", make.pure("a", x), make.pure("b", x)))
    assert shaped(graph) == [[["a"], ["b"]], "both"]


def test_arms_are_chains_that_do_not_wait_for_each_other_on_the_way() -> None:
    make = Toys()
    x = make.param("x", ROW)
    a = make.pure("a2", make.pure("a1", x))
    b = make.pure("b3", make.pure("b2", make.pure("b1", x)))
    assert shaped(make.graph(make.pure("both", a, b))) == [
        [["a1", "a2"], ["b1", "b2", "b3"]],
        "both",
    ]


def test_what_comes_before_the_arms_runs_before_them() -> None:
    make = Toys()
    x = make.pure("first", make.param("x", ROW))
    graph = make.graph(make.pure("a", x), make.pure("b", x))
    assert shaped(graph) == ["first", [["a"], ["b"]]]


def test_arms_have_arms_of_their_own() -> None:
    make = Toys()
    x = make.param("x", ROW)
    left = make.pure("left", make.pure("a", x), make.pure("b", x))
    right = make.pure("c", x)
    assert shaped(make.graph(make.pure("both", left, right))) == [
        [[[["a"], ["b"]], "left"], ["c"]],
        "both",
    ]


def test_where_arms_cross_they_meet_in_between() -> None:
    make = Toys()
    x = make.param("x", ROW)
    a, b, c = (make.pure(name, x) for name in "abc")
    assert shaped(make.graph(make.pure("ab", a, b), make.pure("bc", b, c))) == [
        [["a"], ["b"], ["c"]],
        [["ab"], ["bc"]],
    ]


def test_an_op_goes_into_the_arm_that_alone_needs_it_or_gives_to_it() -> None:
    make = Toys()
    x = make.param("x", ROW)
    shared = make.op("math.neg", x)
    a = make.op("math.abs", make.pure("a", make.op("math.floor", shared)))
    b = make.pure("b", make.op("math.add", shared, 1))
    graph = make.graph(make.op("math.sub", a, b), make.op("math.mul", x, 2))
    assert shaped(graph) == [
        "math.neg",
        [["math.floor", "a", "math.abs"], ["math.add", "b"]],
        "math.sub",
        "math.mul",
    ]


def test_ops_alone_are_no_arm() -> None:
    make = Toys()
    x = make.param("x", ROW)
    graph = make.graph(make.op("math.neg", x), make.op("math.abs", x), make.pure("a", x))
    result = ran(graph)
    assert result.graph is graph
    assert not result.declined


def test_a_small_model_is_not_worth_a_hop_and_says_so() -> None:
    make = Toys()
    x = make.param("x", ROW)
    make.define("small", layer(0))
    graph = make.graph(make.call("small", x), make.pure("a", x))
    result = ran(graph)
    assert result.graph is graph
    (declined,) = result.declined
    assert declined.stage == "small"
    assert declined.reason == (
        "`small` does not run beside others: it takes about 0.001 us, and a hop to another thread "
        "60 us"
    )


def test_a_large_model_is_worth_a_hop() -> None:
    make = Toys()
    x = make.param("x", tensor(F32, 1200))
    make.define("m", layer(0, 1200))
    make.define("n", layer(1, 1200))
    assert shaped(make.graph(make.call("m", x), make.call("n", x))) == [[["m"], ["n"]]]


@pytest.mark.parametrize(("seconds", "at_once"), [(59e-6, False), (61e-6, True)])
def test_what_was_measured_decides(seconds: float, at_once: bool) -> None:
    make = Toys()
    x = make.param("x", ROW)
    for name in ("m", "n"):
        make.define(name, layer(len(make.models)))
    graph = measured(make.graph(make.call("m", x), make.call("n", x)), seconds)
    assert ran(graph).changed is at_once


@pytest.mark.parametrize(("seconds", "at_once"), [(59e-6, False), (61e-6, True)])
def test_what_a_function_took_in_its_pipeline_decides(seconds: float, at_once: bool) -> None:
    make = Toys()
    x = make.param("x", ROW)
    graph = make.graph(make.pure("a", x), make.pure("b", x))
    times = tuple(StageTime(graph.name, name, 1, seconds) for name in "ab")
    assert ran(replace(graph, profile=Profile(MACHINE, (), times))).changed is at_once


def test_small_models_wait_in_their_queues_at_the_same_time() -> None:
    make = Toys()
    x = make.param("x", ROW)
    for name in ("m", "n"):
        make.define(name, layer(len(make.models)))
    graph = make.graph(make.call("m", x), make.call("n", x))
    waiting = StageSettings(batching=Batching(8, 0.002, ()))
    queued = replace(graph, settings=Settings(stages=(("m", waiting), ("n", waiting))))
    assert not ran(graph).changed
    assert shaped(queued) == [[["m"], ["n"]]]


def test_what_is_not_worth_a_hop_hides_no_arms_beside_it() -> None:
    make = Toys()
    x = make.param("x", ROW)
    make.define("small", layer(0))
    small = make.call("small", x)
    both = make.pure("both", make.pure("a", x), make.pure("b", x))
    assert shaped(make.graph(small, both)) == ["small", [["a"], ["b"]], "both"]


def test_rows_go_through_arms_from_queue_to_queue() -> None:
    make = Toys()
    first = make.pure("first", make.param("x", ROW))
    both = make.pure("both", make.pure("a", first), make.pure("b", first))
    graph = ran(make.graph(both)).graph
    calls = [node for node in walk(graph.body) if not node.regions]
    names = {
        node.stage: [one.stage for one in found] for node, found in rows_flow(graph, calls).items()
    }
    assert names == {
        "first": ["a", "b"],
        "a": ["first", "both"],
        "b": ["first", "both"],
        "both": ["a", "b"],
    }


def test_functions_that_are_not_pure_keep_their_order() -> None:
    make = Toys()
    x = make.param("x", ROW)
    graph = make.graph(make.opaque("a", x), make.opaque("b", x), make.pure("c", x))
    result = ran(graph)
    assert shape(result.graph.body) == [[["a", "b"], ["c"]]]
    (declined,) = result.declined
    assert declined.reason == (
        "`b` waits for `a`: functions that are not `pure` run one after the other, as they are "
        "written"
    )


def test_a_for_an_if_and_a_try_are_arms_when_they_hold_a_call() -> None:
    make = Toys()
    rows = make.param("rows", tensor(F32, make.size("n"), 4))
    x, flag = make.param("x", ROW), make.param("flag", tensor(BOOL))
    each = make.each(rows, lambda row: [make.pure("a", row)], [tensor(F32, "k", 4)])
    chosen = make.branch(flag, lambda: [make.pure("b", x)], lambda: [x])
    tried = make.attempt(lambda: [make.pure("c", x)], lambda: [x])
    plain = make.branch(flag, lambda: [make.op("math.neg", x)], lambda: [x])
    assert shaped(make.graph(*each, *chosen, *tried, *plain)) == [
        [[("for", ["a"])], [("if", ["b"], [])], [("try", ["c"], [])]],
        ("if", ["math.neg"], []),
    ]


def test_regions_are_looked_into() -> None:
    make = Toys()
    rows = make.param("rows", tensor(F32, make.size("n"), 4))

    def body(row: Value) -> list[Value]:
        return [make.pure("both", make.pure("a", row), make.pure("b", row))]

    each = make.each(rows, body, [tensor(F32, "k", 4)])
    assert shaped(make.graph(*each)) == [("for", [[["a"], ["b"]], "both"])]


def stream(make: Toys, *emitted: Sequence[Value]) -> Graph:
    """The graph with an `emit` behind what was made when each of `emitted` was."""
    graph = make.graph(*emitted[0])
    return replace(graph, stream=True, body=replace(graph.body, results=()))


def test_nothing_passes_what_emits() -> None:
    make = Toys()
    x = make.param("x", ROW)
    a = make.pure("a", x)
    make.add(Emit(), (a,), (), "emit")
    b, c = make.pure("b", x), make.pure("c", x)
    both = make.pure("both", b, c)
    make.add(Emit(), (both,), (), "emit")
    assert shaped(stream(make, [both])) == ["a", "emit", [["b"], ["c"]], "both", "emit"]


def test_a_graph_that_emits_beside_something_is_unsound() -> None:
    make = Toys()
    x = make.param("x", ROW)

    def sends() -> list[Value]:
        make.add(Emit(), (x,), (), "emit")
        return [x]

    arms = (make.region(sends), make.region(lambda: [x]))
    make.add(Together(), (), [("a", ROW), ("b", ROW)], "together", arms)
    with pytest.raises(GraphError, match="emits beside"):
        verify(stream(make, [x]))


@pytest.mark.parametrize("regions", [1, 3])
def test_a_graph_whose_arms_and_outputs_differ_is_unsound(regions: int) -> None:
    make = Toys()
    x = make.param("x", ROW)
    arms = tuple(make.region(lambda: [x]) for _ in range(regions))
    make.add(Together(), (), [("a", ROW), ("b", ROW)], "together", arms)
    with pytest.raises(GraphError, match=f"{regions} regions with {regions} results"):
        verify(make.graph(x))


def test_a_size_that_is_compared_later_leaves_its_arm() -> None:
    """`c` is checked against the sizes of what `a` gives, whose values only `d` reads."""
    make = Toys()
    x = make.param("x", ROW)
    ragged = [tensor(F32, make.dims.fresh(name)) for name in ("n", "m")]
    a = make.function("a", x, results=[ragged[0]], pure=True)[0]
    a2 = make.function("a2", a, results=[ROW], pure=True)[0]
    b = make.function("b", x, results=[ragged[1]], pure=True)[0]
    b2 = make.function("b2", b, results=[ROW], pure=True)[0]
    graph = make.graph(make.pure("c", a2, b2))
    (n,), (m,) = ragged[0].dims, ragged[1].dims
    last = replace(graph.body.nodes[-1], checks=(Check(n, "==", m, "n == m"),))
    body = replace(graph.body, nodes=(*graph.body.nodes[:-1], last))
    graph = replace(graph, body=body)
    together = ran(graph).graph.body.nodes[0]
    assert [len(arm.results) for arm in together.regions] == [2, 2]
    assert planned_checks(ran(graph).graph) == planned_checks(graph) == 1


def planned_checks(graph: Graph) -> int:
    plan = planned(with_sources(graph))
    return sum(isinstance(s, CheckStep) for s in steps_of(plan.pipelines[0].body))


def with_sources(graph: Graph) -> Graph:
    return replace(graph, functions=tuple(map(with_source, graph.functions)))


def test_what_arms_hold_counts_for_memory_at_the_same_time() -> None:
    make = Toys()
    x = make.param("x", ROW)
    a = make.op("math.abs", make.pure("a", x))
    b = make.op("math.abs", make.pure("b", x))
    graph = make.graph(make.op("math.sub", a, b))
    (before,), (after,) = plan_memory(graph), plan_memory(ran(graph).graph)
    assert before.peak == 3 * 256  # of any size, a buffer takes 256 bytes
    assert after.peak == 4 * 256


def test_memory_that_suffices_one_after_the_other_keeps_them_so() -> None:
    make = Toys()
    x = make.param("x", ROW)
    a = make.op("math.abs", make.pure("a", x))
    b = make.op("math.abs", make.pure("b", x))
    graph = make.graph(make.op("math.sub", a, b))
    tight = replace(graph, settings=Settings(memory=(("cpu", 3 * 256),)))
    result = ran(tight)
    assert not result.changed
    assert "memory of cpu" in result.declined[-1].reason
    assert ran(replace(graph, settings=Settings(memory=(("cpu", 4 * 256),)))).changed


def test_explain_shows_arms() -> None:
    make = Toys()
    x = make.param("x", ROW)
    graph = ran(make.graph(make.pure("both", make.pure("a", x), make.pure("b", x)))).graph
    lines = explain_graph(graph, Path.cwd()).splitlines()[2:]
    assert [line[:26].rstrip() for line in lines] == [
        "%1, %2 together: 2 at once",
        "    %3 a(%0)",
        "    -> %3",
        "and",
        "    %4 b(%0)",
        "    -> %4",
        "%5 both(%1, %2)",
        "-> %5",
    ]


def test_of_a_deadline_each_arm_has_what_the_longest_takes() -> None:
    make = Toys()
    x = make.param("x", ROW)
    graph = make.graph(make.pure("both", make.pure("a", x), make.pure("b", x)))
    took = (
        StageTime(graph.name, name, 1, ms / 1e3)
        for name, ms in zip(("a", "b", "both"), (30, 20, 10), strict=True)
    )
    timed = replace(graph, profile=Profile(MACHINE, (), tuple(took)), deadline=0.08)
    assert deadline_split(timed) == (
        "deadline 80 ms, measured 60 ms · a 40 ms · b 26.7 ms · both 13.3 ms"
    )
    assert deadline_split(ran(timed).graph) == (
        "deadline 80 ms, measured 40 ms · a 60 ms · b 40 ms · both 20 ms"
    )


def test_plans_keep_arms_in_their_files_and_pictures() -> None:
    make = Toys()
    x = make.param("x", ROW)
    graph = ran(make.graph(make.pure("both", make.pure("a", x), make.pure("b", x)))).graph
    plan = planned(with_sources(graph))
    assert [len(step.blocks) for step in forks(plan)] == [2]
    assert forks(read(to_bytes(plan))) == forks(plan)
    for scene in (plan_scene("p", plan, ["p"], None), graph_scene("p", [graph], Path.cwd())):
        (pipeline,) = scene.frames
        (frame,) = [item for item in pipeline.items if isinstance(item, Frame)]
        inner = [item for item in frame.items if isinstance(item, Frame)]
        assert [frame.title, *(one.title for one in inner)] == ["together", "arm 1", "arm 2"]


def forks(plan: Plan) -> list[TogetherStep]:
    return [step for step in steps_of(plan.pipelines[0].body) if isinstance(step, TogetherStep)]


def test_what_is_checked_of_a_stage_s_own_result_does_not_wait_for_it() -> None:
    graph = graph_of("""
model a = onnx "a.onnx" (x: f32[N]) -> (y: f32[_]) batch none
model b = onnx "b.onnx" (x: f32[N]) -> (y: f32[_]) batch none

pipeline p(x: f32[N]) -> (y: f32[4]) {
    return y = b(a(x))
}
""")
    assert [len(node.checks) for node in ran(graph).graph.body.nodes] == [0, 1]
