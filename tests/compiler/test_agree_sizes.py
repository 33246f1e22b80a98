"""Batches of neighbours that were measured: their sizes go into each other, or explain says why."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from headrace.compiler.batch_points import BatchPoint, batch_points
from headrace.compiler.graph import Graph, Settings, StageSettings
from headrace.compiler.policies import Batching
from headrace.compiler.profile import Machine, ModelTimes, Profile, Timing
from headrace.dsl.types import DType, ListType, TensorType
from tests.compiler.make_graphs import GraphMaker

F32 = TensorType(DType.F32, (3,))
MACHINE = Machine("Some CPU", 2, "onnxruntime 1", 1)

Times = dict[str, dict[int, float]]
FAST: Times = {"b": {1: 0.01, 4: 0.016, 8: 0.024, 12: 0.032}}  # 2.50x, 3.33x, 3.75x
SLOW: Times = {"a": {1: 0.1, 4: 0.2, 8: 0.3, 10: 0.4}}  # 2x, 2.67x, 2.50x


def decided(graph: Graph, times: Times) -> dict[str, BatchPoint]:
    """Return how rows meet at each stage, when models took so many seconds for so many rows."""
    models: list[ModelTimes] = []
    for name, seconds in times.items():
        content = graph.model(name).content
        assert content is not None
        timings = tuple(Timing(rows, one) for rows, one in seconds.items())
        models.append(ModelTimes(content.digest, name, "cpu", (), timings))
    graph = replace(graph, profile=Profile(MACHINE, tuple(models)))
    return {node.stage: point for node, point in batch_points(graph).items()}


def sizes(graph: Graph, times: Times) -> dict[str, int | None]:
    return {
        stage: point.batching.maximum if point.batching is not None else None
        for stage, point in decided(graph, times).items()
    }


def chain(make: GraphMaker, settings: Settings | None = None) -> Graph:
    a = make.model("a", make.param("x", F32), type=F32)
    return make.graph(
        make.model("b", make.op("core.any", a, type=F32), type=F32), settings=settings
    )


def test_the_stage_whose_rows_take_longest_chooses_and_its_neighbour_follows(
    make: GraphMaker,
) -> None:
    points = decided(chain(make), {**SLOW, **FAST})
    assert points["a"] == BatchPoint(Batching(8), 8, "batch up to 8, no wait (measured 2.67x at 8)")
    assert points["b"] == BatchPoint(
        Batching(8), 8, "batch up to 8, no wait (measured 3.75x at 12; to go with `a`)"
    )


def test_it_matters_not_which_of_both_comes_first(make: GraphMaker) -> None:
    b = make.model("b", make.param("x", F32), type=F32)
    graph = make.graph(make.model("a", b, type=F32))
    assert sizes(graph, {**SLOW, **FAST}) == {"a": 8, "b": 8}


def test_sizes_that_divide_each_other_are_left_as_they_are(make: GraphMaker) -> None:
    quick: Times = {"b": {1: 0.01, 2: 0.012, 4: 0.02, 16: 0.1}}
    assert sizes(chain(make), {**SLOW, **quick}) == {"a": 8, "b": 4}


def test_the_size_of_a_schedule_holds_and_the_other_goes_with_it(make: GraphMaker) -> None:
    asked = Settings("s", (("b", StageSettings(batching=Batching(6))),))
    points = decided(chain(make, asked), SLOW)
    assert points["b"].batching == Batching(6)
    assert points["a"].batching == Batching(6)
    assert points["a"].why.endswith("(measured 2.67x at 8; to go with `b`)")


def test_a_stage_that_would_gain_too_little_keeps_its_own_and_says_so(make: GraphMaker) -> None:
    asked = Settings("s", (("b", StageSettings(batching=Batching(7))),))
    late: Times = {"a": {1: 0.1, 7: 0.7, 8: 0.3}}
    points = decided(chain(make, asked), late)
    assert points["a"].batching == Batching(8)
    assert points["a"].why == (
        "batch up to 8, no wait (measured 2.67x at 8; goes with no batch of `b`)"
    )


@pytest.mark.parametrize("parted", ["by a for", "by an if", "by a queue between", "by nothing"])
def test_only_neighbours_agree(make: GraphMaker, parted: str) -> None:
    a = make.model("a", make.param("x", F32), type=F32)
    xs, yes = make.param("xs", ListType(F32)), make.param("yes", TensorType(DType.BOOL))
    between: Callable[[], object] = {
        "by a for": lambda: make.each(
            xs, F32, lambda item: [make.model("b", item, a, type=F32)], ListType(F32)
        ),
        "by an if": lambda: make.branch(
            yes, lambda: [make.model("b", a, type=F32)], lambda: [a], F32
        ),
        "by a queue between": lambda: make.model("b", make.model("m", a, type=F32), type=F32),
        "by nothing": lambda: make.model("b", a, type=F32),
    }[parted]
    between()
    middle: Times = {"m": {1: 0.01, 24: 0.012}} if parted == "by a queue between" else {}
    found = sizes(make.graph(a), {**SLOW, **FAST, **middle})
    assert found["b"] == (8 if parted == "by nothing" else 12)
