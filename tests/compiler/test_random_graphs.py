"""Random graphs: every pass leaves a sound graph, has nothing left to do, and changes no result."""

import numpy as np
from hypothesis import HealthCheck, given, settings

from headrace.compiler.graph import Graph
from headrace.compiler.graph_pass import PassContext
from headrace.compiler.optimize import load_passes
from headrace.compiler.verify import verify
from headrace.stdlib.op import Item
from tests.compiler.draw_graphs import FUNCTIONS, Drawn, drawn_graphs
from tests.compiler.evaluate import Evaluator

SLOW_TO_DRAW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
CI = settings(max_examples=100, deadline=None, suppress_health_check=SLOW_TO_DRAW)


def outcome(graph: Graph, inputs: tuple[Item, ...]) -> tuple[list[Item], list[str]]:
    """Return the results and the opaque calls in order."""
    evaluator = Evaluator(FUNCTIONS)
    results = evaluator.run(graph, *inputs)
    return results, [name for name in evaluator.calls if name == "note"]


def same(left: Item, right: Item) -> bool:
    """Tell whether values are equal; the bits of a NaN are the processor's own affair."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    one, other = np.asarray(left), np.asarray(right)
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    )


@CI
@given(drawn_graphs())
def test_each_pass_keeps_the_graph_sound_and_its_results(drawn: Drawn) -> None:
    context, graph = PassContext(), drawn.graph
    verify(graph)
    wanted, calls = outcome(graph, drawn.inputs)
    for one in load_passes():
        result = one.run(graph, context)
        verify(result.graph)
        assert result.changed == (result.graph is not graph)
        again = one.run(result.graph, context)
        assert not again.changed, f"{one.name} was not done after one run"
        graph = result.graph
        got, noted = outcome(graph, drawn.inputs)
        assert noted == calls, one.name
        assert all(map(same, wanted, got)), one.name
