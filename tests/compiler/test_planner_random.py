"""Random graphs on random devices: plans keep to their rules, and running one changes no result."""

from collections import Counter
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.compiler.graph import (
    Blob,
    FunctionDef,
    Graph,
    If,
    Loop,
    Match,
    ModelCall,
    Region,
    Settings,
    StageSettings,
    Together,
    Transfer,
    Try,
    Value,
)
from headrace.compiler.graph_pass import Phase
from headrace.compiler.optimize import load_passes, optimize
from headrace.compiler.pictures.columns import cards_of
from headrace.compiler.pictures.plan_scene import plan_scene
from headrace.compiler.pictures.scene import Look
from headrace.compiler.pictures.svg import svg
from headrace.compiler.plan import CallStep, Plan
from headrace.compiler.plan_file import read, to_bytes
from headrace.compiler.plan_walk import copies_of, steps_of
from headrace.compiler.planner import plan_pipeline
from headrace.compiler.rewrite import walk
from headrace.compiler.segments import Segments
from headrace.compiler.verify_plan import verify_plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Request
from headrace.stdlib.op import Item
from tests.compiler.draw_graphs import FUNCTIONS, Drawn, drawn_graphs
from tests.compiler.evaluate import Evaluator

SLOW_TO_DRAW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
TRIES = settings(suppress_health_check=SLOW_TO_DRAW)

SOURCE = b"def note(x):\n    return x\n\n\ndef double(x):\n    return x * 2\n"
ENGINE = EngineConfig(workers=1, intra_op_threads=1)


@st.composite
def placed_graphs(draw: st.DrawFn) -> tuple[Drawn, Graph]:
    """Draw a graph, put each of its models on a device, and run all passes or placement alone."""
    drawn = draw(drawn_graphs())
    stages = dict.fromkeys(n.stage for n in walk(drawn.graph.body) if isinstance(n.kind, ModelCall))
    devices = st.sampled_from(("cpu", "sim", "sim:1"))
    chosen = tuple((stage, StageSettings(device=draw(devices))) for stage in stages)
    graph = replace(
        drawn.graph,
        settings=Settings(stages=chosen),
        functions=tuple(map(with_source, drawn.graph.functions)),
    )
    passes = load_passes()
    placing = [one for one in passes if one.phase is Phase.PLACE]
    return drawn, optimize(graph, passes if draw(st.booleans()) else placing).graph


def with_source(function: FunctionDef) -> FunctionDef:
    return replace(function, source=Blob(sha256(SOURCE).hexdigest(), SOURCE))


def planned(graph: Graph) -> Plan:
    segments = Segments()
    pipeline = plan_pipeline(graph, segments, Path.cwd()).pipeline
    return Plan("0", (pipeline,), segments.all, (), (), (), segments.blobs)


def check_homes(graph: Graph, region: Region, homes: dict[Value, str]) -> None:
    """Assert that everything is read on the device that it is on."""
    for value in region.params:
        homes.setdefault(value, "cpu")
    for node in region.nodes:
        device = "cpu"
        if isinstance(node.kind, ModelCall):
            model = graph.model(node.kind.model)
            names = (node.stage, *model.members)
            device = next((d for n in names if (d := graph.settings.stage(n).device)), "cpu")
        if isinstance(node.kind, Transfer):
            assert homes[node.inputs[0]] != node.kind.device, "a copy to where it is already"
            device = node.kind.device
        elif isinstance(node.kind, Loop):
            most, *starts = node.inputs
            assert homes[most] == "cpu"
            homes |= zip(node.regions[0].params, map(homes.__getitem__, starts), strict=True)
        else:
            assert {homes[value] for value in node.inputs} <= {device}
        for inner in node.regions:
            check_homes(graph, inner, homes)
        homes.update(dict.fromkeys(node.outputs, device))
        if isinstance(node.kind, Loop):
            # it carries the same from turn to turn, there and out of it; whether to stop is last
            kept = [homes[value] for value in node.regions[0].params]
            stop = ["cpu"] if node.kind.stops else []
            assert [homes[value] for value in node.regions[0].results] == [*kept, *stop]
            homes |= zip(node.outputs, kept, strict=True)
        elif isinstance(node.kind, If | Match | Try):
            for index, value in enumerate(node.outputs):
                (homes[value],) = {homes[region.results[index]] for region in node.regions}
        elif isinstance(node.kind, Together):
            given = (value for region in node.regions for value in region.results)
            homes.update((v, homes[one]) for v, one in zip(node.outputs, given, strict=True))
        elif node.regions:
            assert {homes[value] for value in node.regions[0].results} <= {"cpu"}


def same(left: Item, right: Item) -> bool:
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return np.array_equal(np.asarray(left), np.asarray(right), equal_nan=True)


@settings(TRIES, max_examples=15)
@given(placed_graphs())
def test_a_plan_keeps_to_its_rules_and_gives_what_the_graph_means(
    made: tuple[Drawn, Graph],
) -> None:
    check_all(*made)


@pytest.mark.slow
@settings(TRIES, derandomize=False)
@given(placed_graphs())
def test_it_does_so_for_graphs_that_differ_from_run_to_run(made: tuple[Drawn, Graph]) -> None:
    check_all(*made)


def check_all(drawn: Drawn, graph: Graph) -> None:
    """Assert that values are where they are read, and what the plan, its file and a run are."""
    homes: dict[Value, str] = {}
    check_homes(graph, graph.body, homes)
    assert {homes[value] for value in graph.body.results} <= {"cpu"}
    plan = planned(graph)
    verify_plan(plan)
    assert to_bytes(read(to_bytes(plan))) == to_bytes(plan)
    check_run(drawn, graph, plan)


def check_run(drawn: Drawn, graph: Graph, plan: Plan) -> None:
    wanted = Evaluator(FUNCTIONS).run(drawn.graph, *drawn.inputs)
    names = [field.name for field in graph.signature.params]
    engine = Engine(plan, ENGINE)
    try:
        inputs = dict(zip(names, drawn.inputs, strict=True))
        outputs = engine.call(Request(graph.name, inputs)).outputs
    finally:
        engine.close()
    assert len(outputs) == len(wanted)
    assert all(map(same, wanted, outputs.values()))


@settings(TRIES, max_examples=15)
@given(placed_graphs())
def test_a_picture_of_the_plan_has_a_card_for_each_step(made: tuple[Drawn, Graph]) -> None:
    plan = planned(made[1])
    body = plan.pipelines[0].body
    scene = plan_scene("p", plan, [plan.pipelines[0].name], None)
    found = Counter(card.look for frame in scene.frames for card in cards_of(frame))
    calls = [step for step in steps_of(body) if isinstance(step, CallStep)]
    assert found[Look.MODEL] + found[Look.FUNCTION] + found[Look.OP] == len(calls)
    assert found[Look.COPY] == len(copies_of(body))
    drawn = ElementTree.fromstring(svg(scene))
    assert len(drawn.findall(".//*[@class='node']")) == found.total()
    assert len(drawn.findall(".//*[@class='edge']")) == len(scene.wires)
