"""Ops glued into models: what joins, and that the bits are equal."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from headrace.compiler.graph import (
    Check,
    ModelCall,
)
from headrace.compiler.graph_pass import PassContext
from headrace.compiler.passes.glue_into_models import PASS
from headrace.dsl.types import DimArith, DimVar, Field, TensorType
from headrace.stdlib.op import Array
from tests.compiler.evaluate import Evaluator, equal
from tests.compiler.glued import (
    LINE,
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
    F32,
    I64,
    U8,
    Maker,
    SmallModel,
    convolution,
    layer,
    small_model,
    tensor,
)


@pytest.fixture
def make() -> Maker:
    return Maker()


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


def test_an_op_behind_may_bring_one_more_input(make: Maker) -> None:
    x, y = make.param("x", ROW), make.param("y", ROW)
    make.define("m", layer(0))
    result = glued(make.graph(make.op("math.add", make.call("m", x), y)), LINE, LINE * 3)
    found = model(result.graph)
    assert str(found.signature) == "(x: f32[4], given: f32[4]) -> (y: f32[4])"
    assert found.input_axes == (0, 0)


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


def test_a_check_of_the_model_follows_its_sizes_through_the_glue(make: Maker) -> None:
    page = page_of(make)
    h = DimVar("H")
    check = Check(DimArith("%", h, 2), "==", 0, "H % 2 == 0")
    make.define("detect", convolution(), (check,))
    found = model(glued(make.graph(make.call("detect", ready(make, page))), PAGE).graph)
    assert found.checks == (check,)
    assert str(found.signature) == "(x: u8[H, W, 3]) -> (y: f32[2, H, W])"


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
