"""Random graphs whose steps run at once: nothing changes, on whatever driver."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.compiler.graph import Graph, ModelCall, Node, Together, Value
from headrace.compiler.graph_pass import PassContext, Phase
from headrace.compiler.optimize import load_passes, optimize
from headrace.compiler.passes.run_together import PASS
from headrace.compiler.plan_file import to_bytes
from headrace.compiler.rewrite import walk
from headrace.compiler.verify import verify
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Request
from headrace.runtime.simulate import Simulation
from tests.compiler.draw_graphs import FUNCTIONS, Drawn, drawn_graphs
from tests.compiler.evaluate import Evaluator
from tests.compiler.test_passes_together import measured, with_sources
from tests.compiler.test_planner_random import planned, same

CI = settings(
    derandomize=True,
    suppress_health_check=(
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ),
)


@st.composite
def together_graphs(draw: st.DrawFn) -> tuple[Drawn, Drawn]:
    """Draw a graph in which every model is worth a hop, and what all passes make of it."""
    drawn = draw(drawn_graphs())
    context = PassContext()
    early = [one for one in load_passes() if one.phase < Phase.OVERLAP]
    chosen = early if draw(st.booleans()) else [one for one in early if one.phase is Phase.PLACE]
    graph = measured(optimize(with_sources(drawn.graph), chosen, context).graph, 1e-3)
    return drawn, Drawn(PASS.run(graph, context).graph, drawn.inputs)


@settings(CI, max_examples=15)
@given(together_graphs())
def test_nothing_changes_and_arms_are_apart(made: tuple[Drawn, Drawn]) -> None:
    check_all(made)


@pytest.mark.slow
@settings(CI, derandomize=False)
@given(together_graphs())
def test_it_is_so_for_graphs_that_differ_from_run_to_run(made: tuple[Drawn, Drawn]) -> None:
    check_all(made)


def check_all(made: tuple[Drawn, Drawn]) -> None:
    drawn, graph = made[0], made[1].graph
    verify(graph)
    check_results_and_the_order_of_opaque_calls(drawn, graph)
    check_no_arm_reads_what_another_makes(graph)
    assert to_bytes(planned(graph)) == to_bytes(planned(optimize(graph, []).graph))


def check_results_and_the_order_of_opaque_calls(drawn: Drawn, graph: Graph) -> None:
    assert not PASS.run(graph, PassContext()).changed
    wanted, got = Evaluator(FUNCTIONS), Evaluator(FUNCTIONS)
    expected, results = wanted.run(drawn.graph, *drawn.inputs), got.run(graph, *drawn.inputs)
    assert all(map(same, expected, results))
    opaque = [[name for name in one.calls if name == "note"] for one in (wanted, got)]
    assert opaque[0] == opaque[1]


def check_no_arm_reads_what_another_makes(graph: Graph) -> None:
    for node in walk(graph.body):
        if isinstance(node.kind, Together):
            own = [{v for one in walk(arm) for v in one.outputs} for arm in node.regions]
            for index, arm in enumerate(node.regions):
                read = {value for one in walk(arm) for value in one.inputs}
                others = set[Value]().union(*own[:index], *own[index + 1 :])
                assert read.isdisjoint(others)
                assert any(holds_work(one) for one in walk(arm))


def holds_work(node: Node) -> bool:
    return isinstance(node.kind, ModelCall) or node.stage in FUNCTIONS


@CI
@given(together_graphs(), st.integers(0, 1000))
@pytest.mark.slow
def test_plans_give_what_graphs_mean_inline_on_threads_and_in_any_interleaving(
    made: tuple[Drawn, Drawn], seed: int
) -> None:
    drawn, graph = made[0], made[1].graph
    wanted = Evaluator(FUNCTIONS).run(drawn.graph, *drawn.inputs)
    names = [field.name for field in graph.signature.params]
    request = Request(graph.name, dict(zip(names, drawn.inputs, strict=True)))
    plan = planned(graph)
    simulation = Simulation(plan, workers=3, seed=seed)
    outcomes = [simulation.submit(request) for _ in range(3)]
    simulation.run()
    engine = Engine(plan, EngineConfig(workers=2, intra_op_threads=1))
    try:
        answers = [engine.call(request).outputs, engine.submit(request).result(30).outputs]
    finally:
        engine.close()
        simulation.close()
    for outcome in outcomes:
        assert outcome.outputs is not None, outcome.fault
        answers.append(dict(outcome.outputs))
    for outputs in answers:
        assert all(map(same, wanted, outputs.values()))
