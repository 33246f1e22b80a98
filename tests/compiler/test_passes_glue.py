"""Ops glued into models: what joins, what stays outside and why, and that the bits are equal."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from headrace.compiler.graph import (
    Check,
    Graph,
    ModelCall,
    ModelDef,
    Settings,
    StageSettings,
    Value,
)
from headrace.compiler.graph_pass import PassContext, PassResult
from headrace.compiler.passes.glue_into_models import PASS
from headrace.compiler.verify import verify
from headrace.dsl.types import DimArith, DimVar, DType, Field, ListType, TensorType
from headrace.stdlib.op import Array, Item
from tests.compiler.evaluate import Evaluator, equal, same
from tests.compiler.graphs import (
    BOOL,
    F32,
    I64,
    U8,
    Maker,
    SmallModel,
    convolution,
    layer,
    sizes,
    small_model,
    tensor,
)

ROW = tensor(F32, 4)
PAGE = np.random.default_rng(0).integers(0, 256, (6, 5, 3)).astype(np.uint8)
LINE = np.arange(4, dtype=np.float32) - 1
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture
def make() -> Maker:
    return Maker()


def glued(graph: Graph, *inputs: Item) -> PassResult:
    """Run the pass; the graph must stay sound, have nothing left to glue, and give the same."""
    result = PASS.run(graph, PassContext())
    verify(result.graph)
    assert not PASS.run(result.graph, PassContext()).changed
    before, after = Evaluator(FUNCTIONS), Evaluator(FUNCTIONS)
    assert all(map(equal, before.run(graph, *inputs), after.run(result.graph, *inputs)))
    assert after.calls == before.calls
    return result


FUNCTIONS = {"f": same}


def stages(graph: Graph) -> list[str]:
    return [node.stage for node in graph.body.nodes if node.stage != "literal"]


def model(graph: Graph) -> ModelDef:
    (found,) = graph.models
    return found


def nodes(definition: ModelDef) -> list[str]:
    assert definition.content is not None
    proto = onnx.ModelProto.FromString(definition.content.content)
    onnx.checker.check_model(proto, full_check=True)
    return [node.op_type for node in proto.graph.node]


def reasons(result: PassResult) -> list[str]:
    return [one.reason for one in result.declined]


def page_of(make: Maker) -> Value:
    return make.param("page", tensor(U8, make.size("h"), make.size("w"), 3))


def ready(make: Maker, page: Value) -> Value:
    """Return the page as a network wants it."""
    return make.op("image.to_chw", make.op("image.normalize", page, MEAN, STD))


def test_normalize_and_to_chw_become_part_of_the_detector(make: Maker) -> None:
    page = page_of(make)
    make.define("detect", convolution())
    result = glued(make.graph(make.call("detect", ready(make, page))), PAGE)
    assert stages(result.graph) == ["detect"]
    found = model(result.graph)
    assert str(found.signature) == "(x: u8[H, W, 3]) -> (y: f32[2, H, W])"
    assert found.members == ("image.normalize", "image.to_chw", "detect")
    assert found.input_axes == (0,)


def test_bytes_are_transposed_before_they_become_floats(make: Maker) -> None:
    page = page_of(make)
    make.define("detect", convolution())
    result = glued(make.graph(make.call("detect", ready(make, page))), PAGE)
    assert nodes(model(result.graph)) == ["Transpose", "Cast", "Mul", "Sub", "Div", "Conv"]


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


def test_ops_behind_a_model_join_it(make: Maker) -> None:
    page = page_of(make)
    make.define("classes", convolution())
    y = make.call("classes", ready(make, page))
    result = glued(make.graph(make.op("core.argmax", y, 0, False)), PAGE)
    assert stages(result.graph) == ["classes"]
    found = model(result.graph)
    assert str(found.signature) == "(x: u8[H, W, 3]) -> (y: i64[H, W])"
    assert found.members[-1] == "core.argmax"


def test_rows_that_share_a_run_get_what_each_gets_alone(make: Maker) -> None:
    page = page_of(make)
    make.define("classes", convolution())
    y = make.call("classes", ready(make, page))
    picked = make.op("core.getitem", make.op("math.add", y, 0.5), (1,))
    result = glued(make.graph(picked), PAGE)
    found, evaluator = model(result.graph), Evaluator()
    rows = [PAGE, PAGE[::-1].copy(), PAGE * 0]
    (together,) = evaluator.batch(found, [rows])
    alone = [evaluator.batch(found, [[row]])[0][0] for row in rows]
    assert all(map(equal, together, alone))


def test_a_model_without_a_batch_axis_is_glued_as_it_is(make: Maker) -> None:
    page = page_of(make)
    proto = convolution(batch=False)
    weights = proto.proto.graph.initializer
    flat = [
        helper.make_node("Unsqueeze", ["x", "axes"], ["x4"]),
        helper.make_node("Conv", ["x4", "w"], ["y4"]),
        helper.make_node("Squeeze", ["y4", "axes"], ["y"]),
    ]
    given = {one.name: onnx.numpy_helper.to_array(one) for one in weights}
    given["axes"] = np.array([0])
    item = small_model(
        flat,
        {"x": tensor(F32, 3, "H", "W")},
        {"y": tensor(F32, 2, "H", "W")},
        given,
        batch=False,
    )
    make.define("detect", item)
    y = make.op("core.max", make.call("detect", ready(make, page)), 0, False)
    found = model(glued(make.graph(y), PAGE).graph)
    assert (found.input_axes, found.output_axes) == ((None,), (None,))


@pytest.mark.parametrize("opset", [11, 12, 13, 18, 21])
def test_what_is_glued_fits_the_opset_of_the_model(make: Maker, opset: int) -> None:
    x = make.param("x", tensor(F32, 4, 1))
    make.define("m", layer(0, opset=opset))
    y = make.call("m", make.op("core.squeeze", x, 1))
    y = make.op("core.max", make.op("core.expand_dims", y, 0), 1, False)
    result = glued(make.graph(y), LINE[:, None])
    assert stages(result.graph) == ["m"]
    assert nodes(model(result.graph))


def test_softmax_of_an_old_opset_means_the_same_along_the_last_axis(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("m", layer(0, opset=11))
    graph = make.graph(make.op("nn.softmax", make.call("m", x)))
    result = PASS.run(graph, PassContext())
    assert stages(result.graph) == ["m"]
    wanted, got = Evaluator().run(graph, LINE), Evaluator().run(result.graph, LINE)
    np.testing.assert_allclose(np.asarray(wanted[0]), np.asarray(got[0]), rtol=1e-6)


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


def test_an_op_behind_may_bring_one_more_input(make: Maker) -> None:
    x, y = make.param("x", ROW), make.param("y", ROW)
    make.define("m", layer(0))
    result = glued(make.graph(make.op("math.add", make.call("m", x), y)), LINE, LINE * 3)
    found = model(result.graph)
    assert str(found.signature) == "(x: f32[4], given: f32[4]) -> (y: f32[4])"
    assert found.input_axes == (0, 0)


def test_an_op_that_needs_what_comes_later_stays_outside(make: Maker) -> None:
    x = make.param("x", ROW)
    make.define("m", layer(0))
    y = make.call("m", x)
    (later,) = make.function("f", y, results=[ROW])
    result = glued(make.graph(make.op("math.add", y, later)), LINE)
    assert reasons(result) == [
        "`math.add` stays outside of `m`: it needs `r0`, which is made after `m`"
    ]


def test_equal_ops_around_every_call_are_glued_once(make: Maker) -> None:
    page, other = page_of(make), make.param("other", tensor(U8, 4, 7, 3))
    make.define("detect", convolution())
    one = make.call("detect", ready(make, page))
    two = make.call("detect", ready(make, other))
    result = glued(make.graph(one, two), PAGE, PAGE[:4].repeat(2, 1)[:, :7])
    # the sizes that `other` has are not those of every page
    assert not result.changed
    assert "one copy of its weights serves all calls" in reasons(result)[0]


def test_equal_calls_share_the_glued_model(make: Maker) -> None:
    page, other = page_of(make), make.param("other", tensor(U8, make.size("a"), make.size("b"), 3))
    make.define("detect", convolution())
    one = make.call("detect", ready(make, page))
    two = make.call("detect", ready(make, other))
    result = glued(make.graph(one, two), PAGE, PAGE[::-1].copy())
    assert stages(result.graph) == ["detect", "detect"]
    assert len(result.graph.models) == 1


def test_the_side_on_which_all_calls_are_alike_is_glued(make: Maker) -> None:
    page, other = page_of(make), make.param("other", tensor(U8, make.size("a"), make.size("b"), 3))
    make.define("detect", convolution())
    one = make.op("math.abs", make.call("detect", ready(make, page)))
    two = make.call("detect", ready(make, other))
    result = glued(make.graph(one, two), PAGE, PAGE[::-1].copy())
    assert stages(result.graph) == ["detect", "math.abs", "detect"]
    assert any("with other steps around it" in reason for reason in reasons(result))


def test_a_check_of_the_model_follows_its_sizes_through_the_glue(make: Maker) -> None:
    page = page_of(make)
    h = DimVar("H")
    check = Check(DimArith("%", h, 2), "==", 0, "H % 2 == 0")
    make.define("detect", convolution(), (check,))
    found = model(glued(make.graph(make.call("detect", ready(make, page))), PAGE).graph)
    assert found.checks == (check,)
    assert str(found.signature) == "(x: u8[H, W, 3]) -> (y: f32[2, H, W])"


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


def test_ops_join_a_model_whose_batch_axis_is_elsewhere_than_in_front(make: Maker) -> None:
    x = make.param("x", tensor(F32, 4, 3))
    scale = [helper.make_node("Mul", ["x", "w"], ["y"])]
    weights: dict[str, Array] = {"w": np.array([[[1], [2], [3]]], np.float32)}
    sideways = small_model(
        scale, {"x": tensor(F32, 4, 3)}, {"y": tensor(F32, 4, 3)}, weights, batch=False
    )
    for value in (sideways.proto.graph.input[0], sideways.proto.graph.output[0]):
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, [4, 3, "N"]))
    definition = make.define("m", sideways)
    make.models["m"] = replace(definition, input_axes=(2,), output_axes=(2,))
    size = make.op("math.abs", x)
    y = make.op("math.add", make.call("m", make.op("math.neg", x)), size)
    result = glued(
        make.graph(make.op("core.transpose", y, (1, 0))), PAGE[:4, :3, 0] - np.float32(9)
    )
    assert result.graph.models[0].input_axes == (0,)
    assert result.graph.models[0].output_axes == (0,)
    assert stages(result.graph) == ["m"]
    rows = [PAGE[:4, :3, i].astype(np.float32) for i in range(3)]
    (together,) = Evaluator().batch(result.graph.models[0], [rows])
    alone = [Evaluator().batch(result.graph.models[0], [[row]])[0][0] for row in rows]
    assert all(map(equal, together, alone))


def test_padding_by_fixed_amounts_joins_since_rows_that_could_meet_still_can(make: Maker) -> None:
    x = make.param("x", tensor(F32, 3, make.size("h"), make.size("w")))
    make.define("m", convolution())
    graph = make.graph(make.call("m", make.op("core.pad", x, (0, 1, 2), (0, 0, 3))))
    assert stages(glued(graph, np.ones((3, 2, 2), np.float32)).graph) == ["m"]


@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("core.argmax", (-1, False)),
        ("core.getitem", (((1, 3, 1),),)),
        ("core.getitem", ((-1,),)),
        ("nn.topk", (2,)),
    ],
)
def test_what_follows_a_model_joins_bit_for_bit(
    make: Maker, name: str, rest: tuple[object, ...]
) -> None:
    x = make.param("x", ROW)
    make.define("m", layer(0))
    assert stages(glued(make.graph(*make.ops(name, make.call("m", x), *rest)), LINE).graph) == ["m"]


@pytest.mark.parametrize(("name", "rest"), [("nn.softmax", (-1,)), ("nn.sigmoid", ())])
def test_what_follows_a_model_and_rounds_joins_within_its_tolerance(
    make: Maker, name: str, rest: tuple[object, ...]
) -> None:
    x = make.param("x", ROW)
    make.define("m", layer(0))
    graph = make.graph(make.op(name, make.call("m", x), *rest))
    result = PASS.run(graph, PassContext())
    assert stages(result.graph) == ["m"]
    (wanted,), (got,) = Evaluator().run(graph, LINE), Evaluator().run(result.graph, LINE)
    np.testing.assert_allclose(np.asarray(wanted), np.asarray(got), rtol=1e-6)


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


def test_the_same_graph_gives_the_same_bytes() -> None:
    digests: set[str] = set()
    for _ in range(2):
        make = Maker()
        page = page_of(make)
        make.define("detect", convolution())
        y = make.op("math.abs", make.call("detect", ready(make, page)))
        content = model(PASS.run(make.graph(y), PassContext()).graph).content
        assert content is not None
        digests.add(content.digest)
    assert len(digests) == 1


def test_an_op_between_two_models_joins_the_one_it_widens_for(make: Maker) -> None:
    page = make.param("page", tensor(U8, 2, 3))
    small = tensor(U8, 2, 3)
    same = [helper.make_node("Identity", ["x"], ["y"])]
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    make.define("a", small_model(same, {"x": small}, {"y": small}))
    make.define("b", small_model(relu, {"x": tensor(F32, 2, 3)}, {"y": tensor(F32, 2, 3)}))
    y = make.call("b", make.op("core.cast", make.call("a", page), F32))
    result = glued(make.graph(y), PAGE[:2, :3, 0].copy())
    members = {found.name: found.members for found in result.graph.models}
    assert members == {"a": (), "b": ("core.cast", "b")}


def test_text_and_functions_stay_outside(make: Maker) -> None:
    photo = make.param("photo", TensorType(DType.BYTES))
    make.define("detect", convolution())
    x = ready(make, make.op("image.decode", photo))
    result = PASS.run(make.graph(make.call("detect", x)), PassContext())
    assert stages(result.graph) == ["image.decode", "detect"]
    assert reasons(result) == ["`image.decode` stays outside of `detect`: it has no ONNX form"]


def fields(types: dict[str, TensorType]) -> tuple[Field, ...]:
    return tuple(Field(*one) for one in types.items())


MODELS = (
    (
        "ch_PP-OCRv4_det_infer.onnx",
        {"x": tensor(F32, 3, "H", "W")},
        {"sigmoid_0.tmp_0": tensor(F32, 1, "H", "W")},
        (64, 96, 3),
    ),
    (
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        {"x": tensor(F32, 3, 48, 192)},
        {"save_infer_model/scale_0.tmp_1": tensor(F32, 2)},
        (48, 192, 3),
    ),
    (
        "ch_PP-OCRv4_rec_infer.onnx",
        {"x": tensor(F32, 3, 48, "W")},
        {"softmax_11.tmp_0": tensor(F32, "T", 6625)},
        (48, 80, 3),
    ),
)


@pytest.mark.skipif(find_spec("rapidocr_onnxruntime") is None, reason="its models are not here")
@pytest.mark.parametrize(("file", "params", "results", "shape"), MODELS)
def test_real_models_give_the_same_bits_with_all_of_the_runtimes_own_optimisations(
    make: Maker,
    file: str,
    params: dict[str, TensorType],
    results: dict[str, TensorType],
    shape: tuple[int, ...],
) -> None:
    spec = find_spec("rapidocr_onnxruntime")
    assert spec is not None
    assert spec.origin is not None
    proto = onnx.load(Path(spec.origin).parent / "models" / file)
    height = 48 if shape[0] == 48 else make.size("h")
    width = 192 if shape[1] == 192 else make.size("w")
    page = make.param("page", tensor(U8, height, width, 3))
    make.define("m", SmallModel(proto, fields(params), fields(results)))
    graph = make.graph(make.call("m", ready(make, page)))
    result = PASS.run(graph, PassContext())
    assert stages(result.graph) == ["m"]
    image = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    before, after = Evaluator(optimize_models=True), Evaluator(optimize_models=True)
    assert all(map(equal, before.run(graph, image), after.run(result.graph, image)))


def test_calls_of_the_glued_model_keep_their_stage_and_place(make: Maker) -> None:
    x = make.param("x", tensor(I64, 4))
    make.define("m", layer(0))
    y = make.call("m", make.op("core.cast", x, F32))
    call = make.nodes[-1]
    result = glued(make.graph(y), np.arange(4))
    (new,) = [n for n in result.graph.body.nodes if isinstance(n.kind, ModelCall)]
    assert (new.stage, new.span, new.outputs) == (call.stage, call.span, call.outputs)
