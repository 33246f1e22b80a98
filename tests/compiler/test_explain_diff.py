"""The difference of two plans."""

from dataclasses import replace
from pathlib import Path

from headrace.compiler.explain import explain_plan
from headrace.compiler.explain_diff import explain_diff
from headrace.compiler.graph import Graph, Settings, StageSettings
from headrace.compiler.graph_pass import PassContext
from headrace.compiler.memory import plan_memory
from headrace.compiler.passes.place_transfers import PASS
from headrace.compiler.plan import Plan
from headrace.compiler.planner import plan_pipeline
from headrace.compiler.policies import Batching
from headrace.compiler.segments import Segments
from headrace.dsl.types import DType, TensorType
from tests.compiler.make_graphs import GraphMaker

FACE = TensorType(DType.F32, (3,))


def graph_of(*stages: str, settings: Settings | None = None, name: str = "p") -> Graph:
    make = GraphMaker()
    value = make.param("x", FACE)
    for stage in stages:
        value = make.model(stage, value, type=FACE)
    return make.graph(value, settings=settings, name=name)


def planned(*graphs: Graph) -> Plan:
    segments = Segments()
    placed = [PASS.run(graph, PassContext()).graph for graph in graphs]
    pipelines = tuple(plan_pipeline(graph, segments, Path()).pipeline for graph in placed)
    memory = tuple(one for graph in placed for one in plan_memory(graph))
    text = "\n".join(
        explain_plan(graph, [one for one in memory if one.pipeline == graph.name], Path())
        for graph in placed
    )
    return Plan("0", pipelines, segments.all, memory, (("plan", text),), (), segments.blobs)


def test_equal_plans_differ_in_nothing() -> None:
    plan = planned(graph_of("a"))
    assert explain_diff("a.plan", plan, "b.plan", plan) == "both plans do the same\n"


def test_the_summary_names_what_changed_before_the_text_does() -> None:
    schedule = Settings(
        "server",
        (
            ("b", StageSettings(device="sim", instances=2)),
            ("c", StageSettings(batching=Batching(8, 0.0))),
        ),
    )
    before, after = planned(graph_of("a", "b", "c")), planned(graph_of("b", "c", settings=schedule))
    shown = explain_diff("a.plan", before, "b.plan", after)
    summary, _, text = shown.partition("--- a.plan\n")
    assert summary.splitlines() == [
        "pipeline p",
        "    segments  3 to 2 (a is gone)",
        "    copies    none to 1 in, 1 out",
        "    peak      sim nothing to 512 B (lower bound 512)",
        "    device    b: cpu to sim",
        "    served    b: by default to instances 2",
        "    batch     c: batch off to batch up to 8, no wait",
    ]
    assert text.startswith("+++ b.plan\n@@ ")
    assert "\n+-- segment c · onnx · c · batch up to 8, no wait (schedule 'server') --\n" in text
    assert "\n-%1 a(%0)" in text


def test_a_model_of_the_same_name_and_other_bytes_is_told() -> None:
    graph = graph_of("a")
    (model,) = graph.models
    assert model.content is not None
    other = replace(model, content=replace(model.content, digest="f" * 64))
    shown = explain_diff(
        "a", planned(graph), "b", planned(replace(graph, models=(other,)))
    ).splitlines()
    assert shown == ["pipeline p", f"    model     a: {model.content.digest[:12]} to ffffffffffff"]


def test_pipelines_that_come_and_go_are_named() -> None:
    one, other = planned(graph_of("a")), planned(graph_of("a", name="q"))
    assert explain_diff("a", one, "b", other).splitlines()[:2] == [
        "pipeline p is gone",
        "pipeline q is new",
    ]
