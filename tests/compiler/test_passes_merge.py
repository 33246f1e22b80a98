"""Models merged into one: which, in what order, with which outputs, and why not."""

from dataclasses import replace
from time import process_time

import numpy as np
import pytest
from onnx import helper

from headrace.compiler.graph import (
    Check,
    Settings,
    StageSettings,
)
from headrace.compiler.graph_pass import PassContext
from headrace.compiler.optimize import optimize
from headrace.compiler.passes.glue_into_models import PASS as GLUE
from headrace.compiler.passes.merge_models import PASS
from headrace.compiler.policies import Batching
from headrace.dsl.types import DimArith, DimVar
from tests.compiler.evaluate import Evaluator, equal
from tests.compiler.graphs import (
    BOOL,
    F32,
    Maker,
    layer,
    small_model,
    tensor,
    two_in_two_out,
)
from tests.compiler.merged import LINE, ROW, chain, merged, proto, reasons, stages


@pytest.fixture
def make() -> Maker:
    return Maker()


def test_a_chain_of_ten_becomes_one_model(make: Maker) -> None:
    result = merged(make.graph(chain(make, 10)), LINE)
    assert stages(result.graph) == ["m0..m9"]
    (model,) = result.graph.models
    assert model.members == tuple(f"m{i}" for i in range(10))
    assert [node.op_type for node in proto(model).graph.node] == ["MatMul", "Relu"] * 10


def test_ops_between_the_models_of_a_chain_end_up_in_the_one_model(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("b", layer(1, opset=13))
    y = make.op("math.abs", make.call("b", make.op("math.neg", make.call("a", x))))
    graph = make.graph(y)
    optimized = optimize(graph).graph
    assert stages(optimized) == ["a+b"]
    (model,) = optimized.models
    assert model.members == ("a", "math.neg", "b", "math.abs")
    assert equal(Evaluator().run(graph, LINE)[0], Evaluator().run(optimized, LINE)[0])


def test_a_value_that_others_read_is_one_more_output(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("b", layer(1))
    y = make.call("a", x)
    z = make.call("b", y)
    (seen,) = make.function("f", y, results=[ROW])
    result = merged(make.graph(make.op("math.add", z, seen)), LINE)
    assert stages(result.graph) == ["a+b", "f", "math.add"]
    assert str(result.graph.models[0].signature) == "(x: f32[4]) -> (y: f32[4], y_2: f32[4])"


def test_what_waits_for_a_merged_model_comes_after_it(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("b", layer(1))
    y = make.call("a", x)
    (early,) = make.function("f", y, results=[ROW])
    z = make.call("b", y)
    result = merged(make.graph(make.op("math.add", z, early)), LINE)
    assert stages(result.graph) == ["a+b", "f", "math.add"]


def test_opaque_calls_keep_their_order(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("b", layer(1))
    y = make.call("a", x)
    (early,) = make.function("f", y, results=[ROW])
    (late,) = make.function("g", x, results=[ROW])
    z = make.call("b", y)
    result = merged(make.graph(make.op("core.stack", 0, early, late, z)), LINE)
    assert stages(result.graph) == ["a+b", "f", "g", "core.stack"]


def test_an_opaque_call_that_must_come_first_keeps_models_apart(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("b", two_in_two_out())
    y = make.call("a", x)
    (early,) = make.function("f", y, results=[ROW])
    (late,) = make.function("g", x, results=[ROW])
    z = make.call("b", y, late)
    result = merged(make.graph(make.op("core.stack", 0, early, z)), LINE)
    assert reasons(result) == ["`a` and `b` stay two models: `f` runs between them"]


def test_a_caller_that_asks_for_less_does_not_run_more(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("b", layer(1))
    y = make.call("a", x)
    result = merged(make.graph(y, make.call("b", y)), LINE)
    assert reasons(result) == [
        "`a` and `b` stay two models: a caller may ask for results that need `a` and not `b`"
    ]


def test_heads_of_one_backbone_and_their_join_become_one_model(make: Maker) -> None:
    x = make.param("x", ROW)
    for i, name in enumerate(("back", "left", "right")):
        make.define(name, layer(i))
    add = [helper.make_node("Add", ["p", "q"], ["y"])]
    make.define("join", small_model(add, {"p": ROW, "q": ROW}, {"y": ROW}))
    back = make.call("back", x)
    y = make.call("join", make.call("left", back), make.call("right", back))
    result = merged(make.graph(y), LINE)
    assert stages(result.graph) == ["back..join"]


def test_a_stage_between_two_models_keeps_them_apart(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    add = [helper.make_node("Add", ["p", "q"], ["y"])]
    make.define("b", small_model(add, {"p": ROW, "q": ROW}, {"y": ROW}))
    y = make.call("a", x)
    (seen,) = make.function("f", y, results=[ROW])
    result = merged(make.graph(make.call("b", y, seen)), LINE)
    assert reasons(result) == ["`a` and `b` stay two models: `f` runs between them"]


def test_a_stage_between_two_models_is_also_found_within_an_if(make: Maker) -> None:
    x, flag = make.param("x", ROW), make.param("flag", tensor(BOOL))
    make.define("a", layer(0))
    add = [helper.make_node("Add", ["p", "q"], ["y"])]
    make.define("b", small_model(add, {"p": ROW, "q": ROW}, {"y": ROW}))
    y = make.call("a", x)
    (seen,) = make.branch(flag, lambda: [make.op("math.neg", y)], lambda: [x])
    result = merged(make.graph(make.call("b", y, seen)), LINE, np.array(True))
    assert reasons(result) == ["`a` and `b` stay two models: `if` runs between them"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            (("a", StageSettings(batching=Batching(8))),),
            "the schedule gives them different settings",
        ),
        ((("b", StageSettings(device="sim")),), "`a` runs on cpu and `b` on sim"),
        ((("b", StageSettings(instances=2)),), "the schedule gives them different settings"),
    ],
)
def test_different_settings_keep_models_apart(
    make: Maker, settings: tuple[tuple[str, StageSettings], ...], reason: str
) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("b", layer(1))
    graph = make.graph(make.call("b", make.call("a", x)), settings=Settings(stages=settings))
    assert reasons(merged(graph, LINE)) == [f"`a` and `b` stay two models: {reason}"]


def test_equal_settings_do_not(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("b", layer(1))
    both = tuple((name, StageSettings(batching=Batching(8))) for name in "ab")
    graph = make.graph(make.call("b", make.call("a", x)), settings=Settings(stages=both))
    assert stages(merged(graph, LINE).graph) == ["a+b"]


def test_rows_that_only_the_first_model_makes_equal_meet_at_the_second(make: Maker) -> None:
    x = make.param("x", tensor(F32, make.size("n"), 4))
    top = [helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)]
    make.define("a", small_model(top, {"x": tensor(F32, "N", 4)}, {"y": ROW}))
    make.define("b", layer(1))
    graph = make.graph(make.call("b", make.call("a", x)))
    rows = np.ones((3, 4), np.float32)
    assert stages(merged(graph, rows).graph) == ["a+b"]
    both = tuple((name, StageSettings(batching=Batching(8))) for name in "ab")
    waiting = replace(graph, settings=Settings(stages=both))
    assert reasons(merged(waiting, rows)) == [
        "`a` and `b` stay two models: rows of different sizes meet at `b` because `a` has made "
        "them equal"
    ]


def test_models_that_batch_differently_stay_apart(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("b", layer(1, batch=False))
    result = merged(make.graph(make.call("b", make.call("a", x))), LINE)
    assert reasons(result) == [
        "`a` and `b` stay two models: `a` batches along axis 0 and `b` batches not there"
    ]


def test_a_model_for_each_item_stays_apart_from_one_that_runs_once(make: Maker) -> None:
    x, rows = make.param("x", ROW), make.param("rows", tensor(F32, 3, 4))
    make.define("a", layer(0))
    add = [helper.make_node("Add", ["p", "q"], ["y"])]
    make.define("b", small_model(add, {"p": ROW, "q": ROW}, {"y": ROW}))
    y = make.call("a", x)
    (z,) = make.each(rows, lambda row: [make.call("b", row, y)], [tensor(F32, 3, 4)])
    result = merged(make.graph(z), LINE, np.ones((3, 4), np.float32))
    assert reasons(result) == ["`a` and `b` stay two models: `b` runs for each item of a `for`"]


def test_models_within_a_for_merge_there(make: Maker) -> None:
    rows = make.param("rows", tensor(F32, 3, 4))
    make.define("a", layer(0))
    make.define("b", layer(1))
    (z,) = make.each(rows, lambda row: [make.call("b", make.call("a", row))], [tensor(F32, 3, 4)])
    result = merged(make.graph(z), np.ones((3, 4), np.float32))
    assert [n.stage for n in result.graph.body.nodes[0].regions[0].nodes] == ["a+b"]


def test_rows_share_a_run_of_the_merged_model(make: Maker) -> None:
    (model,) = merged(make.graph(chain(make, 3)), LINE).graph.models
    rows = [LINE, LINE * 2, LINE * 0]
    (together,) = Evaluator().batch(model, [rows])
    assert all(
        equal(row, Evaluator().batch(model, [[one]])[0][0])
        for row, one in zip(together, rows, strict=True)
    )


def test_checks_of_both_models_are_kept(make: Maker) -> None:
    h = make.size("h")
    x = make.param("x", tensor(F32, h, 4))
    own = DimVar("H")
    type = tensor(F32, own, 4)
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    for name, by in (("a", 2), ("b", 3)):
        check = Check(DimArith("%", own, by), "==", 0, f"H % {by} == 0")
        make.define(name, small_model(relu, {"x": type}, {"y": type}), (check,))
    y = make.call("b", make.call("a", x))
    (model,) = merged(make.graph(y), np.ones((6, 4), np.float32)).graph.models
    assert [check.text for check in model.checks] == ["H % 2 == 0", "H % 3 == 0"]
    assert [check.left for check in model.checks] == [DimArith("%", h, 2), DimArith("%", h, 3)]


def test_a_size_between_them_that_is_checked_keeps_models_apart(make: Maker) -> None:
    x = make.param("x", ROW)
    size = DimVar("T")
    pad = [helper.make_node("Identity", ["x"], ["y"])]
    make.define("a", small_model(pad, {"x": ROW}, {"y": tensor(F32, size)}))
    check = Check(DimArith("%", size, 2), "==", 0, "T % 2 == 0")
    top = [helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)]
    make.define("b", small_model(top, {"x": tensor(F32, size)}, {"y": tensor(F32)}), (check,))
    result = merged(make.graph(make.call("b", make.call("a", x))), LINE)
    assert reasons(result) == [
        "`a` and `b` stay several models: `T % 2 == 0` is checked of sizes between them"
    ]


def test_what_is_glued_to_models_merges_with_them(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("a", layer(0))
    make.define("b", layer(1))
    graph = make.graph(make.call("b", make.op("math.neg", make.call("a", x))))
    context = PassContext()
    result = PASS.run(GLUE.run(graph, context).graph, context)
    assert stages(result.graph) == ["a+b"]
    assert equal(Evaluator().run(graph, LINE)[0], Evaluator().run(result.graph, LINE)[0])


@pytest.mark.slow
def test_a_thousand_stages_compile_in_a_few_seconds(make: Maker) -> None:
    value = make.param("x", ROW)
    for i in range(330):
        make.define(f"m{i}", layer(i % 5))
        value = make.op("math.add", make.op("math.neg", make.call(f"m{i}", value)), 1)
    start = process_time()
    optimized = optimize(make.graph(value))
    assert process_time() - start < 10
    assert len(stages(optimized.graph)) == 1
