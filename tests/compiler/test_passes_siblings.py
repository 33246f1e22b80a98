"""Models side by side on one input: which become one, with what feeds them, and why not."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import helper

from headrace.compiler.graph import Check, Graph, ModelDef, Settings, StageSettings
from headrace.compiler.graph_pass import PassContext, PassResult
from headrace.compiler.model_cost import multiply_adds
from headrace.compiler.optimize import optimize
from headrace.compiler.passes.drop_unread_outputs import PASS as DROP
from headrace.compiler.passes.merge_siblings import PASS
from headrace.compiler.policies import Batching
from headrace.compiler.sibling_groups import SMALL
from headrace.compiler.verify import verify
from headrace.dsl.types import DimVar, TensorType
from headrace.stdlib.op import Array, Item
from tests.compiler.evaluate import Evaluator, equal, same
from tests.compiler.graphs import F32, Maker, layer, small_model, tensor, two_in_two_out

ROW = tensor(F32, 4)
LINE = np.arange(4, dtype=np.float32) - 1
FUNCTIONS = {"f": same}


@pytest.fixture
def make() -> Maker:
    return Maker()


def merged(graph: Graph, *inputs: Item) -> PassResult:
    """Run the pass; the graph must stay sound, have nothing left to merge, and give the same."""
    verify(graph)
    result = PASS.run(graph, PassContext())
    verify(result.graph)
    assert not PASS.run(result.graph, PassContext()).changed
    wanted = Evaluator(FUNCTIONS).run(graph, *inputs)
    assert all(map(equal, wanted, Evaluator(FUNCTIONS).run(result.graph, *inputs)))
    return result


def stages(graph: Graph) -> list[str]:
    return [node.stage for node in graph.body.nodes if node.stage != "literal"]


def reasons(result: PassResult) -> list[str]:
    return [one.reason for one in result.declined]


def proto(model: ModelDef) -> onnx.ModelProto:
    assert model.content is not None
    return onnx.ModelProto.FromString(model.content.content)


def test_heads_of_one_input_become_one_model_with_one_input(make: Maker) -> None:
    x = make.param("x", ROW)
    for i, name in enumerate(("left", "right", "third")):
        make.define(name, layer(i))
    result = merged(make.graph(*(make.call(n, x) for n in ("left", "right", "third"))), LINE)
    assert stages(result.graph) == ["left+right+third"]
    (model,) = result.graph.models
    assert len(model.input_names) == 1
    assert len(model.output_names) == 3
    assert model.members == ("left", "right", "third")


def test_equal_weights_of_siblings_are_kept_once(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(1))
    make.define("b", layer(1))
    result = merged(make.graph(make.call("a", x), make.call("b", x)), LINE)
    assert len(proto(result.graph.models[0]).graph.initializer) == 1


def test_models_on_parts_of_one_input_are_siblings(make: Maker) -> None:
    x = make.param("x", tensor(F32, 8))
    make.define("a", layer(0))
    make.define("b", layer(1))
    y = make.call("a", make.op("core.getitem", x, ((0, 4, 1),)))
    z = make.call("b", make.op("core.getitem", x, ((4, 8, 1),)))
    result = merged(make.graph(make.op("math.add", y, z)), np.arange(8, dtype=np.float32))
    assert stages(result.graph) == ["core.getitem", "core.getitem", "a+b", "math.add"]


def test_models_that_share_no_input_are_none(make: Maker) -> None:
    x, y = make.param("x", ROW), make.param("y", ROW)
    make.define("a", layer(0))
    make.define("b", layer(1))
    result = merged(make.graph(make.call("a", x), make.call("b", y)), LINE, LINE)
    assert not result.changed
    assert not reasons(result)


def test_siblings_that_siblings_feed_are_siblings(make: Maker) -> None:
    x = make.param("x", ROW)
    for i, name in enumerate(("a", "b", "c", "d")):
        make.define(name, layer(i))
    y = make.op("math.neg", make.call("a", x))
    z = make.op("math.neg", make.call("b", x))
    result = merged(make.graph(make.call("c", y), make.call("d", z)), LINE)
    assert stages(result.graph) == ["a+b", "math.neg", "math.neg", "c+d"]


def test_a_large_head_is_not_run_for_a_caller_who_wants_the_other(make: Maker) -> None:
    x = make.param("x", tensor(F32, 1024))
    make.define("small", layer(0, 1024))
    make.define("large", layer(1, 1024))
    graph = make.graph(make.call("small", x), make.call("large", x))
    result = merged(graph, np.ones(1024, np.float32))
    assert not result.changed
    (reason,) = reasons(result)
    assert "a caller may ask for results that do not need `small`" in reason
    assert f"takes 1,049,600 multiply-adds; up to {SMALL:,} are run for nothing" in reason


def test_large_heads_join_when_every_result_needs_both(make: Maker) -> None:
    x = make.param("x", tensor(F32, 1024))
    make.define("a", layer(0, 1024))
    make.define("b", layer(1, 1024))
    y = make.op("math.add", make.call("a", x), make.call("b", x))
    assert stages(merged(make.graph(y), np.ones(1024, np.float32)).graph) == ["a+b", "math.add"]


def test_a_large_backbone_joins_heads_that_all_need_it(make: Maker) -> None:
    x = make.param("x", tensor(F32, 1024))
    make.define("back", layer(0, 1024))
    slim = small_model(
        [helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
        {"x": tensor(F32, 1024)},
        {"y": tensor(F32)},
        {"axes": np.array([1])},
    )
    make.define("left", slim)
    make.define("right", slim)
    y = make.call("back", x)
    graph = make.graph(make.call("left", y), make.call("right", y))
    assert stages(merged(graph, np.ones(1024, np.float32)).graph) == ["back+left+right"]


def test_a_model_whose_cost_is_not_known_counts_as_large(make: Maker) -> None:
    type = tensor(F32, "T")
    x = make.param("x", tensor(F32, make.size("t")))
    relu = small_model([helper.make_node("Relu", ["x"], ["y"])], {"x": type}, {"y": type})
    make.define("a", relu)
    make.define("b", relu)
    result = merged(make.graph(make.call("a", x), make.call("b", x)), LINE)
    assert "a number of multiply-adds that is not known" in reasons(result)[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (StageSettings(device="sim"), StageSettings()),
        (StageSettings(batching=Batching(8)), StageSettings(batching=Batching(4))),
        (StageSettings(batching=Batching(8)), StageSettings(batching_off=True)),
        (StageSettings(instances=2), StageSettings()),
    ],
)
def test_siblings_that_run_differently_stay_apart(
    make: Maker, one: StageSettings, other: StageSettings
) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("b", layer(1))
    settings = Settings(stages=(("a", one), ("b", other)))
    graph = make.graph(make.call("a", x), make.call("b", x), settings=settings)
    assert not PASS.run(graph, PassContext()).changed


def test_a_sibling_that_may_not_join_the_first_joins_the_next(make: Maker) -> None:
    x = make.param("x", ROW)
    for i, name in enumerate(("a", "b", "c")):
        make.define(name, layer(i))
    settings = Settings(stages=(("a", StageSettings(instances=2)),))
    graph = make.graph(*(make.call(name, x) for name in "abc"), settings=settings)
    result = merged(graph, LINE)
    assert stages(result.graph) == ["a", "b+c"]
    assert reasons(result) == [
        "`a` and `b+c` stay two models: the schedule gives them different settings"
    ]


def test_rows_that_wait_for_each_other_keep_meeting(make: Maker) -> None:
    x, y = make.param("x", ROW), make.param("y", tensor(F32, make.size("t")))
    make.define("a", layer(0))
    adds = [
        helper.make_node("ReduceSum", ["y", "axes"], ["z"]),
        helper.make_node("Add", ["x", "z"], ["s"]),
    ]
    given = {"x": ROW, "y": tensor(F32, "T")}
    make.define("b", small_model(adds, given, {"s": ROW}, {"axes": np.array([1])}))
    waits = StageSettings(batching=Batching(8))
    total = make.op("math.add", make.call("a", x), make.call("b", x, y))
    graph = make.graph(total, settings=Settings(stages=(("a", waits), ("b", waits))))
    result = merged(graph, LINE, np.ones(3, np.float32))
    assert reasons(result) == [
        "`a` and `b` stay two models: rows that could share a run of one differ in size for the "
        "other"
    ]
    assert merged(replace(graph, settings=Settings()), LINE, np.ones(3, np.float32)).changed


def test_what_runs_between_siblings_keeps_them_apart(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("b", two_in_two_out())
    y = make.call("a", x)
    (seen,) = make.function("f", y, results=[ROW])
    result = merged(make.graph(make.call("b", x, seen)), LINE)
    assert reasons(result) == ["`a` and `b` stay two models: `f` runs between them"]


def test_siblings_in_an_arm_join_there_and_not_with_one_outside(make: Maker) -> None:
    x, flag = make.param("x", ROW), make.param("flag", tensor(F32))
    for i, name in enumerate(("a", "b", "c")):
        make.define(name, layer(i))
    outside = make.call("a", x)
    test = make.op("math.gt", flag, 0)

    def arm() -> Sequence[object]:
        return [make.op("math.add", make.call("b", x), make.call("c", x))]

    (y,) = make.branch(test, arm, lambda: [x])  # pyright: ignore[reportArgumentType]
    result = merged(make.graph(outside, y), LINE, np.asarray(1, np.float32))
    (branch,) = [node for node in result.graph.body.nodes if node.regions]
    assert [n.stage for n in branch.regions[0].nodes if n.stage != "literal"] == ["b+c", "math.add"]
    assert "runs only in one arm" in reasons(result)[0]


def test_what_flows_between_two_groups_must_fit_too(make: Maker) -> None:
    """`a` and `c` are siblings of `b`, and `a` gives `b` its batch axis in the wrong place."""
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("c", layer(1))
    make.define("b", two_in_two_out())
    make.models["b"] = replace(make.models["b"], input_axes=(0, None))
    y, z = make.call("a", x), make.call("c", x)
    total = make.op("math.add", z, make.call("b", x, y))
    result = PASS.run(make.graph(total), PassContext())
    assert stages(result.graph) == ["a+c", "b", "math.add"]
    assert any("batches along axis 0" in one for one in reasons(result))


def test_mel_embedding_and_six_heads_are_one_session(make: Maker) -> None:
    x = make.param("x", tensor(F32, 8))
    make.define("mel", layer(0, 8))
    make.define("embedding", layer(1, 8))
    features = make.call("embedding", make.op("math.div", make.call("mel", x), 2.0))
    scores = []
    for i in range(6):
        make.define(f"head{i}", layer(i, 8))
        scores.append(make.op("nn.sigmoid", make.call(f"head{i}", features)))
    graph = make.graph(*scores)
    optimized = optimize(graph)
    assert stages(optimized.graph) == ["mel+embedding..head5"]
    line = np.arange(8, dtype=np.float32)
    wanted = Evaluator().run(graph, line)
    for one, other in zip(wanted, Evaluator().run(optimized.graph, line), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-6)


# ---- what a run costs


@pytest.mark.parametrize(
    ("op", "x", "weight", "expected"),
    [
        ("MatMul", (5, 8), (8, 3), 5 * 3 * 8),
        ("Gemm", (8,), (8, 3), 3 * 8),
        ("Conv", (3, 10, 10), (2, 3, 3, 3), 2 * 8 * 8 * 27),
        ("ConvTranspose", (3, 4, 4), (3, 2, 3, 3), 3 * 4 * 4 * 18),
        ("Add", (5, 8), (8,), 40),
    ],
)
def test_a_cost_is_what_is_multiplied(
    make: Maker, op: str, x: tuple[int, ...], weight: tuple[int, ...], expected: int
) -> None:
    made = small_model(
        [helper.make_node(op, ["x", "w"], ["y"])],
        {"x": TensorType(F32, x)},
        {"y": TensorType(F32, x)},
        {"w": np.ones(weight, np.float32)},
    )
    assert multiply_adds(make.define("m", made), made.proto) == expected


def test_a_recurrent_layer_costs_its_weights_for_each_step(make: Maker) -> None:
    weights: dict[str, Array] = {
        "w": np.ones((1, 12, 5), np.float32),
        "r": np.ones((1, 12, 4), np.float32),
    }
    nodes = [helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=4)]
    made = small_model(
        nodes, {"x": tensor(F32, 7, 1, 5)}, {"y": tensor(F32, 7, 1, 1, 4)}, weights, batch=False
    )
    assert multiply_adds(make.define("m", made), made.proto) == 7 * (12 * 5 + 12 * 4)


# ---- outputs that nobody reads


def dropped(graph: Graph, *inputs: Item) -> PassResult:
    verify(graph)
    result = DROP.run(graph, PassContext())
    verify(result.graph)
    assert not DROP.run(result.graph, PassContext()).changed
    wanted = Evaluator().run(graph, *inputs)
    assert all(map(equal, wanted, Evaluator().run(result.graph, *inputs)))
    return result


def test_an_unread_output_goes_with_what_computes_nothing_else(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("m", two_in_two_out())
    _, most = make.calls("m", x, x)
    (model,) = dropped(make.graph(most), LINE).graph.models
    assert model.output_names == ("most",)
    assert [node.op_type for node in proto(model).graph.node] == ["Max"]
    assert not proto(model).graph.initializer


def test_an_output_stays_when_one_of_two_calls_reads_it(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("m", two_in_two_out())
    total, _ = make.calls("m", x, x)
    _, most = make.calls("m", x, total)
    assert not dropped(make.graph(total, most), LINE).changed


def test_an_output_stays_when_its_shape_alone_tells_a_size_that_is_checked(make: Maker) -> None:
    x = make.param("x", ROW)
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("Identity", ["x"], ["t"]),
        helper.make_node("Identity", ["x"], ["u"]),
    ]
    results = {"y": ROW, "t": tensor(F32, "T"), "u": ROW}
    check = Check(DimVar("T"), "<=", 9, "T <= 9")
    make.define("m", small_model(nodes, {"x": ROW}, results), checks=(check,))
    y, _, _ = make.calls("m", x)
    result = dropped(make.graph(y), LINE)
    assert result.graph.models[0].output_names == ("y", "t")
    assert reasons(result) == ["`t` of `m` stays, unread: its shape alone tells a size"]
