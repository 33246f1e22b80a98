"""What `verify` refuses: each test breaks a sound graph in one way."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from headrace.compiler.graph import (
    Constant,
    For,
    Graph,
    If,
    Match,
    Node,
    Region,
    Transfer,
    Value,
)
from headrace.compiler.verify import GraphError, verify
from headrace.dsl.types import UNKNOWN, DType, ListType, TensorType
from tests.compiler.sources import graph_of
from tests.growth import times_as_long

SOUND = """
model score = onnx "score.onnx" (x: f32[3]) -> (p: f32[2])
pipeline p(x: f32[3], xs: f32[N, 3], k: i64) -> (y: f32[2], z: f32[M]) {
    a = score(x)
    b = if sum(x) > 0 { a * 2 } else { a }
    c = match k { 1 => b, 2 => a, _ => a + b }
    z = for v in xs { yield sum(v) when sum(v) > 0 }
    return y = c, z = z
}
"""


@pytest.fixture
def graph() -> Graph:
    return graph_of(SOUND)


def with_nodes(graph: Graph, change: Callable[[Node], Node | None]) -> Graph:
    """Return the graph with each node of its body changed; None takes a node out."""
    nodes = tuple(new for node in graph.body.nodes if (new := change(node)) is not None)
    return replace(graph, body=replace(graph.body, nodes=nodes))


def only(kind: type, change: Callable[[Node], Node | None]) -> Callable[[Node], Node | None]:
    return lambda node: change(node) if isinstance(node.kind, kind) else node


def renewed(node: Node, type: object = None) -> Node:
    """Return the node with outputs of its own, of another type if one is given."""
    outputs = tuple(replace(value, type=type or value.type) for value in node.outputs)
    return replace(node, outputs=outputs)


def refused(graph: Graph) -> str:
    with pytest.raises(GraphError) as caught:
        verify(graph)
    return str(caught.value)


def test_a_sound_graph_is_accepted(graph: Graph) -> None:
    verify(graph)


def test_a_value_used_before_it_is_made(graph: Graph) -> None:
    body = replace(graph.body, nodes=tuple(reversed(graph.body.nodes)))
    assert "is used before it is made" in refused(replace(graph, body=body))


def test_a_value_of_another_region(graph: Graph) -> None:
    branch = next(node for node in graph.body.nodes if isinstance(node.kind, If))
    inner = branch.regions[0].results[0]
    body = replace(graph.body, results=(inner, graph.body.results[1]))
    assert "is used from outside its region" in refused(replace(graph, body=body))


def test_a_value_of_the_other_arm(graph: Graph) -> None:
    def swap(node: Node) -> Node:
        then, orelse = node.regions
        return replace(node, regions=(then, replace(orelse, results=then.results)))

    assert "is used from outside its region" in refused(with_nodes(graph, only(If, swap)))


def test_a_value_made_twice(graph: Graph) -> None:
    body = replace(graph.body, nodes=(*graph.body.nodes, graph.body.nodes[0]))
    assert "is made a second time" in refused(replace(graph, body=body))


def test_a_value_of_unknown_type(graph: Graph) -> None:
    bad = with_nodes(graph, only(Constant, lambda node: renewed(node, ListType(UNKNOWN))))
    assert "the type of" in refused(bad)


def test_a_stage_without_a_name(graph: Graph) -> None:
    bad = with_nodes(graph, only(If, lambda node: replace(node, stage="")))
    assert "has no stage" in refused(bad)


def test_a_model_that_the_graph_does_not_hold(graph: Graph) -> None:
    assert "calls `score`, which the graph does not hold" in refused(replace(graph, models=()))


def test_two_models_of_one_name(graph: Graph) -> None:
    bad = replace(graph, models=graph.models * 2)
    assert "two models are called `score`" in refused(bad)


def test_a_model_with_names_or_axes_missing(graph: Graph) -> None:
    (model,) = graph.models
    bad = replace(graph, models=(replace(model, input_names=()),))
    assert "has 1 inputs, 0 names and 1 batch axes" in refused(bad)
    bad = replace(graph, models=(replace(model, input_axes=(None,)),))
    assert "has a batch axis in its outputs only" in refused(bad)


def test_inputs_of_another_number_or_type(graph: Graph) -> None:
    def without_inputs(node: Node) -> Node:
        return replace(node, inputs=()) if node.stage == "score" else node

    assert "has 0 inputs" in refused(with_nodes(graph, without_inputs))

    def another_input(node: Node) -> Node:
        return replace(node, inputs=(graph.body.params[2],)) if node.stage == "score" else node

    assert "has `x` of inputs as i64 where f32[3] is wanted" in refused(
        with_nodes(graph, another_input)
    )


def test_an_op_with_too_few_inputs(graph: Graph) -> None:
    def fewer(node: Node) -> Node:
        return replace(node, inputs=node.inputs[:1]) if node.stage == "sum" else node

    assert "has 1 inputs, 1 outputs and 0 regions, not 3, 1 and 0" in refused(
        with_nodes(graph, fewer)
    )


def test_a_condition_that_is_no_bool(graph: Graph) -> None:
    bad = with_nodes(graph, only(If, lambda node: replace(node, inputs=(graph.body.params[0],))))
    assert "has its condition as f32[3] where bool is wanted" in refused(bad)


def test_arms_that_do_not_give_what_comes_out(graph: Graph) -> None:
    def one_arm(node: Node) -> Node:
        return replace(node, regions=node.regions[:1])

    assert "1 regions" in refused(with_nodes(graph, only(If, one_arm)))

    def empty_arm(node: Node) -> Node:
        return replace(node, regions=(node.regions[0], Region((), (), ())))

    assert "an arm with 0 results for 1 outputs" in refused(with_nodes(graph, only(If, empty_arm)))

    def other_arm(node: Node) -> Node:
        return replace(node, regions=(node.regions[0], Region((), (), (graph.body.params[2],))))

    assert "as i64 where f32[2] is wanted" in refused(with_nodes(graph, only(If, other_arm)))


def test_a_match_with_equal_cases_or_missing_regions(graph: Graph) -> None:
    bad = with_nodes(graph, only(Match, lambda node: replace(node, kind=Match(((1,), (1,))))))
    assert "two cases are called `1`" in refused(bad)
    bad = with_nodes(graph, only(Match, lambda node: replace(node, kind=Match(((1,),)))))
    assert "3 regions, not 1, 1 and 2" in refused(bad)


def test_a_for_whose_region_does_not_fit(graph: Graph) -> None:
    bad = with_nodes(graph, only(For, lambda node: replace(node, kind=For(False))))
    assert "gathers 2 results in 1 outputs" in refused(bad)
    bad = with_nodes(graph, only(For, lambda node: replace(node, inputs=())))
    assert "0 lists to walk" in refused(bad)
    bad = with_nodes(graph, only(For, lambda node: replace(node, inputs=(graph.body.params[2],))))
    assert "walks or gathers `k`, which is i64" in refused(bad)
    scalar = TensorType(DType.F32)
    bad = with_nodes(graph, only(For, lambda node: renewed(node, scalar)))
    assert "walks or gathers" in refused(bad)


def test_a_copy_that_changes_the_type(graph: Graph) -> None:
    x = graph.body.params[0]
    copy = Value(TensorType(DType.F16), "copy", x.span)
    node = Node(Transfer("sim"), (x,), (copy,), x.span, "transfer")
    body = replace(graph.body, nodes=(node, *graph.body.nodes))
    assert "is a copy that names no device or changes the type" in refused(
        replace(graph, body=body)
    )


def test_a_body_that_is_not_that_of_the_signature(graph: Graph) -> None:
    body = replace(graph.body, results=graph.body.results[:1])
    assert "the body's results are 1, and the signature has 2" in refused(replace(graph, body=body))
    body = replace(graph.body, results=tuple(reversed(graph.body.results)))
    refused(replace(graph, body=replace(body, results=(graph.body.params[2],) * 2)))
    assert "0 defaults for 3 parameters" in refused(replace(graph, defaults=()))


def test_a_refusal_names_the_pipeline_the_stage_and_its_place(graph: Graph) -> None:
    assert refused(replace(graph, models=())).startswith(
        "pipeline `p`: stage `score` at p.pipe:4:9 calls"
    )


@pytest.mark.slow
def test_verifying_takes_time_in_proportion() -> None:
    def verifying(stages: int) -> Callable[[], object]:
        lines = [f"v{i + 1} = v{i} * 2" for i in range(stages)]
        body = "\n".join(["v0 = x", *lines, f"return y = v{stages}"])
        large = graph_of(f"pipeline p(x: f32[N]) -> (y: f32[N]) {{\n{body}\n}}")
        return partial(verify, large)

    assert times_as_long(verifying(2000), verifying(250)) < 24
