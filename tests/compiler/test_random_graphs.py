"""Random graphs: every pass leaves a sound graph, has nothing left to do, and changes no result."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from headrace.compiler.graph import Graph, ModelDef
from headrace.compiler.graph_pass import PassContext
from headrace.compiler.optimize import load_passes, optimize
from headrace.compiler.verify import verify
from headrace.stdlib.op import Item
from tests.compiler.draw_graphs import FUNCTIONS, Drawn, drawn_graphs
from tests.compiler.evaluate import Evaluator

SLOW_TO_DRAW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)
CI = settings(derandomize=True, suppress_health_check=SLOW_TO_DRAW)


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


class Companion(Evaluator):
    """Runs each row once alone and once with another row, which must not matter to it."""

    def batch(self, model: ModelDef, columns: Sequence[Sequence[Any]]) -> list[list[Any]]:
        alone = super().batch(model, columns)
        if model.batches:
            pairs = [[one, np.flip(np.asarray(one))] for [one] in columns]
            for together, [one] in zip(super().batch(model, pairs), alone, strict=True):
                # sums of a matrix product may be taken in another order for more rows
                np.testing.assert_allclose(together[0], one, rtol=1e-5)
        return alone


@CI
@given(drawn_graphs())
def test_each_pass_keeps_the_graph_sound_and_its_results(drawn: Drawn) -> None:
    check_passes(drawn)


@pytest.mark.slow
@settings(CI, max_examples=500, derandomize=False)
@given(drawn_graphs())
def test_each_pass_does_so_for_many_graphs_that_differ_from_run_to_run(drawn: Drawn) -> None:
    check_passes(drawn)


def check_passes(drawn: Drawn) -> None:
    """Run all passes one after the other, and the graph before and after each."""
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


@settings(CI, max_examples=40)
@given(drawn_graphs())
def test_rows_of_fused_models_do_not_see_each_other(drawn: Drawn) -> None:
    Companion(FUNCTIONS).run(optimize(drawn.graph).graph, *drawn.inputs)
