"""Random graphs whose models are on a device: kernels change no result, and cost no copy."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from headrace.compiler.graph import Settings
from headrace.compiler.optimize import load_passes, optimize
from headrace.compiler.plan_walk import copies_of
from tests.compiler.draw_graphs import FUNCTIONS, Drawn, drawn_graphs
from tests.compiler.evaluate import Evaluator
from tests.compiler.test_planner_random import planned, same, with_source
from tests.runtime.devices.copies import CheckedPipeline

PASSES = [one for one in load_passes() if one.name in ("generate_kernels", "place_transfers")]
TRIES = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)


@pytest.mark.slow
def test_kernels_change_no_result_and_save_copies() -> None:
    seen: Counter[str] = Counter()

    @TRIES
    @given(drawn_graphs())
    def check(drawn: Drawn) -> None:
        functions = tuple(map(with_source, drawn.graph.functions))
        graph = replace(drawn.graph, settings=Settings(device="sim"), functions=functions)
        optimized = optimize(graph, PASSES).graph
        made = [model for model in optimized.models if model.backend == "kernel"]
        seen["graphs"] += 1
        seen["kernels"] += len(made)
        if not made:
            return
        plan, without = planned(optimized), planned(optimize(graph, PASSES[1:]).graph)
        copies, more = (len(copies_of(one.pipelines[0].body)) for one in (plan, without))
        assert copies <= more
        seen["fewer"] += copies < more
        names = (field.name for field in graph.signature.params)
        checked = CheckedPipeline(plan, graph.name, delay=3)
        answered = checked(dict(zip(names, drawn.inputs, strict=True)))
        wanted = Evaluator(FUNCTIONS).run(drawn.graph, *drawn.inputs)
        assert all(map(same, wanted, answered.outputs.values()))
        checked.close()

    check()
    assert seen["kernels"] > 3, seen
