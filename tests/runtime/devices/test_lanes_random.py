"""Random graphs with stages on several devices at random: each lane gives what the graph means,
copies as it says, and gives all back."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.compiler.graph import Graph, ModelCall, Settings, StageSettings
from headrace.compiler.lanes import lanes_of, spread_block
from headrace.compiler.optimize import load_passes, optimize
from headrace.compiler.plan import Plan
from headrace.compiler.plan_file import read, to_bytes
from headrace.compiler.plan_walk import copies_of
from headrace.compiler.planner import plan_pipeline
from headrace.compiler.rewrite import walk
from headrace.compiler.segments import Segments
from headrace.compiler.verify_plan import verify_plan
from tests.compiler.draw_graphs import FUNCTIONS, Drawn, drawn_graphs
from tests.compiler.evaluate import Evaluator
from tests.compiler.test_planner_random import TRIES, same, with_source
from tests.runtime.devices.copies import CheckedPipeline

PLACES = (
    StageSettings(),
    StageSettings(device="sim"),
    StageSettings(spread=(("sim", 1), ("sim:1", 1))),
    StageSettings(spread=(("cpu", 2), ("sim:1", 1))),
    StageSettings(spread=(("sim", 1), ("cpu", 1), ("sim:2", 2))),
)


@st.composite
def spread_graphs(draw: st.DrawFn) -> tuple[Drawn, Graph]:
    """Draw a graph, and devices for each of its models."""
    drawn = draw(drawn_graphs())
    stages = dict.fromkeys(n.stage for n in walk(drawn.graph.body) if isinstance(n.kind, ModelCall))
    chosen = tuple((stage, draw(st.sampled_from(PLACES))) for stage in stages)
    functions = tuple(map(with_source, drawn.graph.functions))
    return drawn, replace(drawn.graph, settings=Settings(stages=chosen), functions=functions)


def laid_out(graph: Graph) -> Plan:
    segments, passes = Segments(), load_passes()
    lanes = lanes_of(graph)
    placed = [optimize(lane.graph, passes).graph for lane in lanes]
    pipelines = [plan_pipeline(one, segments, Path.cwd()).pipeline for one in placed]
    first = pipelines[0]
    if len(lanes) > 1:
        bodies, shares = [one.body for one in pipelines], [lane.share for lane in lanes]
        first = replace(first, body=spread_block(bodies, shares, first.place))
    return Plan("0", (first,), segments.all, (), (), (), segments.blobs)


@settings(TRIES, max_examples=60)
@given(spread_graphs(), st.sampled_from((None, 5)))
@pytest.mark.slow
def test_random_graphs_in_lanes(made: tuple[Drawn, Graph], delay: int | None) -> None:
    drawn, graph = made
    plan = laid_out(graph)
    verify_plan(plan)
    assert to_bytes(read(to_bytes(plan))) == to_bytes(plan)
    if not {*copies_of(plan.pipelines[0].body)} - {"cpu"}:
        return
    wanted = Evaluator(FUNCTIONS).run(drawn.graph, *drawn.inputs)
    inputs = dict(zip((field.name for field in graph.signature.params), drawn.inputs, strict=True))
    checked = CheckedPipeline(plan, graph.name, delay=delay)
    for _ in range(len(lanes_of(graph))):
        answered = checked(inputs)
        assert all(map(same, wanted, answered.outputs.values()))
        del answered
    checked.settle()
    assert checked.balanced
    checked.close()
