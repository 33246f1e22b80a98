"""Ops that stay outside of models, and why."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper

from headrace.compiler.graph import (
    Check,
    Settings,
    StageSettings,
)
from headrace.compiler.graph_pass import PassContext
from headrace.compiler.passes.glue_into_models import PASS
from headrace.dsl.types import DType, ListType, TensorType
from tests.compiler.glued import (
    LINE,
    MEAN,
    PAGE,
    ROW,
    glued,
    model,
    nodes,
    page_of,
    ready,
    reasons,
    stages,
)
from tests.compiler.graphs import (
    BOOL,
    F32,
    U8,
    Maker,
    convolution,
    layer,
    sizes,
    small_model,
    tensor,
)


@pytest.fixture
def make() -> Maker:
    return Maker()


def test_a_transpose_that_would_split_planes_into_rows_of_channels_stays_behind(
    make: Maker,
) -> None:
    x = make.param("x", tensor(F32, 3, "h", "w"))
    identity = [helper.make_node("Identity", ["x"], ["y"])]
    type = tensor(F32, "H", "W", 3)
    make.define("m", small_model(identity, {"x": type}, {"y": type}))
    mean = make.literal(np.array(MEAN, np.float32).reshape(3, 1, 1))
    value = make.op("core.transpose", make.op("math.sub", x, mean), (1, 2, 0))
    result = glued(make.graph(make.call("m", value)), np.ones((3, 2, 5), np.float32))
    assert nodes(model(result.graph)) == ["Sub", "Transpose", "Identity"]


def test_what_others_read_stays_outside(make: Maker) -> None:
    page = page_of(make)
    make.define("detect", convolution())
    x = ready(make, page)
    seen = make.function("f", x, results=[x.type])[0]
    result = glued(make.graph(make.call("detect", x), seen), PAGE)
    assert not result.changed
    assert reasons(result) == ["`image.to_chw` stays outside of `detect`: `x` is also read by `f`"]


def test_an_op_stays_outside_when_its_argument_is_a_result_too(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("m", layer(0))
    y = make.call("m", x)
    result = glued(make.graph(y, make.op("math.neg", y)), LINE)
    assert reasons(result) == ["`math.neg` stays outside of `m`: `y` is also a result"]


def test_all_readers_of_a_value_join_or_none(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("m", layer(0))
    y = make.call("m", x)
    best, top = make.op("core.argmax", y, 0, False), make.op("core.max", y, 0, False)
    result = glued(make.graph(best, top), LINE)
    assert stages(result.graph) == ["m"]
    assert str(model(result.graph).signature) == "(x: f32[4]) -> (y: i64, y_2: f32)"


def test_giving_back_one_op_gives_back_what_follows_it(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("m", layer(0))
    y = make.call("m", x)
    low, high = make.op("math.neg", y), make.op("math.abs", y)
    (seen,) = make.function("f", y, results=[ROW])
    result = glued(make.graph(make.op("math.add", low, high), seen), LINE)
    assert not result.changed
    assert reasons(result) == [
        "`math.neg` stays outside of `m`: `y` is also read by `f`",
        "`math.abs` stays outside of `m`: `y` is also read by `f`",
        "`math.add` stays outside of `m`: `math.neg` stays outside",
    ]


def test_an_op_that_runs_once_is_not_run_for_each_item(make: Maker) -> None:
    x, rows = make.param("x", ROW), make.param("rows", tensor(F32, 3, 4))
    two = tensor(F32, 4)
    add = [helper.make_node("Add", ["x", "z"], ["y"])]
    make.define("m", small_model(add, {"x": two, "z": two}, {"y": two}))
    scaled = make.op("math.mul", x, 2)
    (out,) = make.each(rows, lambda item: [make.call("m", item, scaled)], [tensor(F32, 3, 4)])
    result = glued(make.graph(out), LINE, np.ones((3, 4), np.float32))
    assert not result.changed
    assert reasons(result) == ["`math.mul` stays outside of `m`: it runs once, `m` for each item"]


def test_an_op_that_only_one_arm_needs_moves_into_it(make: Maker) -> None:
    x, flag = make.param("x", ROW), make.param("flag", tensor(BOOL))
    make.define("m", layer(0))
    scaled = make.op("math.mul", x, 2)
    (y,) = make.branch(flag, lambda: [make.call("m", scaled)], lambda: [x])
    graph = make.graph(y)
    for taken in (True, False):
        result = glued(graph, LINE, np.array(taken))
        assert stages(result.graph) == ["if"]


def test_an_op_that_both_arms_need_stays_outside_of_them(make: Maker) -> None:
    x, flag = make.param("x", ROW), make.param("flag", tensor(BOOL))
    make.define("m", layer(0))
    scaled = make.op("math.mul", x, 2)
    (y,) = make.branch(flag, lambda: [make.call("m", scaled)], lambda: [scaled])
    assert not glued(make.graph(y), LINE, np.array(True)).changed


def test_an_op_in_an_arm_does_not_run_for_all_rows(make: Maker) -> None:
    x, flag = make.param("x", ROW), make.param("flag", tensor(BOOL))
    make.define("m", layer(0))
    y = make.call("m", x)
    (z,) = make.branch(flag, lambda: [make.op("math.neg", y)], lambda: [x])
    result = glued(make.graph(z), LINE, np.array(True))
    assert reasons(result) == ["`math.neg` stays outside of `m`: it does not run whenever `m` does"]


def test_rows_made_equal_in_front_of_a_model_are_not_made_unequal_again(make: Maker) -> None:
    x = make.param("x", tensor(F32, make.size("a"), make.size("b")))
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    flat = tensor(F32, "L")
    make.define("m", small_model(relu, {"x": flat}, {"y": flat}))
    graph = make.graph(make.call("m", make.op("core.reshape", x, (-1,))))
    result = glued(graph, np.ones((2, 3), np.float32))
    assert not result.changed
    assert reasons(result) == [
        "`core.reshape` stays outside of `m`: it gives rows of different sizes the same size; "
        "inside `m` they could no longer share a run"
    ]
    off = Settings(stages=(("m", StageSettings(batching_off=True)),))
    assert glued(replace(graph, settings=off), np.ones((2, 3), np.float32)).changed


def test_a_small_part_of_a_large_tensor_is_cut_before_the_model(make: Maker) -> None:
    x = make.param("x", tensor(F32, 8, 4))
    make.define("m", layer(0))
    result = glued(
        make.graph(make.call("m", make.op("core.getitem", x, (0,)))), np.ones((8, 4), np.float32)
    )
    assert reasons(result) == [
        "`core.getitem` stays outside of `m`: it makes little of much: `m` would be given the "
        "larger tensor"
    ]


def test_an_op_that_needs_what_comes_later_stays_outside(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("m", layer(0))
    y = make.call("m", x)
    (later,) = make.function("f", y, results=[ROW])
    result = glued(make.graph(make.op("math.add", y, later)), LINE)
    assert reasons(result) == [
        "`math.add` stays outside of `m`: it needs `r0`, which is made after `m`"
    ]


def test_the_side_on_which_all_calls_are_alike_is_glued(make: Maker) -> None:
    page, other = page_of(make), make.param("other", tensor(U8, make.size("a"), make.size("b"), 3))
    make.define("detect", convolution())
    one = make.op("math.abs", make.call("detect", ready(make, page)))
    two = make.call("detect", ready(make, other))
    result = glued(make.graph(one, two), PAGE, PAGE[::-1].copy())
    assert stages(result.graph) == ["detect", "math.abs", "detect"]
    assert any("with other steps around it" in reason for reason in reasons(result))


def test_a_size_that_another_stage_checks_stays_in_sight(make: Maker) -> None:
    x = make.param("x", ROW)
    same = [helper.make_node("Identity", ["x"], ["y"])]
    make.define("m", small_model(same, {"x": ROW}, {"y": tensor(F32, "T")}))
    y = make.call("m", x)
    check = Check(sizes(y)[0], "==", 4, "T == 4")
    last = make.op("core.max", y, 0, False)
    (seen,) = make.function("f", last, results=[last.type])
    make.nodes[-1] = replace(make.nodes[-1], checks=(check,))
    result = PASS.run(make.graph(seen), PassContext())
    assert not result.changed
    assert any("the size `T` is checked and would be inside" in one for one in reasons(result))


def test_a_list_stays_outside(make: Maker) -> None:
    items = make.param("items", ListType(tensor(F32, 4), 2))
    two = tensor(F32, 2, 4)
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    make.define("m", small_model(relu, {"x": two}, {"y": two}))
    stacked = make.op("math.neg", items)
    make.nodes[-1] = replace(make.nodes[-1], outputs=(replace(stacked, type=two),))
    result = PASS.run(make.graph(make.call("m", make.nodes[-1].outputs[0])), PassContext())
    assert reasons(result) == [
        "`math.neg` stays outside of `m`: `items` is a list<f32[4], 2> and no tensor"
    ]


def test_a_model_whose_file_was_not_read_is_left_alone(make: Maker) -> None:
    x = make.param("x", ROW)
    make.models["m"] = replace(make.define("m", layer(0)), content=None)
    assert not PASS.run(make.graph(make.call("m", make.op("math.neg", x))), PassContext()).changed


def test_text_and_functions_stay_outside(make: Maker) -> None:
    photo = make.param("photo", TensorType(DType.BYTES))
    make.define("detect", convolution())
    x = ready(make, make.op("image.decode", photo))
    result = PASS.run(make.graph(make.call("detect", x)), PassContext())
    assert stages(result.graph) == ["image.decode", "detect"]
    assert reasons(result) == ["`image.decode` stays outside of `detect`: it has no ONNX form"]
