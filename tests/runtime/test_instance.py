"""ONNX segments: batch axes anywhere, inputs left out, text, what a failed run says."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from headrace.compiler.plan import Plan
from headrace.dsl.types import Field, OptionalType
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Fault, Request
from tests.runtime.plans import PlanMaker, add_model, block, call, fields, kind, model


def engine_of(plan: Plan) -> Engine:
    return Engine(plan, EngineConfig(workers=1, intra_op_threads=1))


def ask(engine: Engine, **inputs: object) -> dict[str, object]:
    outputs = engine.call(Request("p", inputs)).outputs  # type: ignore[arg-type]
    engine.close()
    return dict(outputs)


def test_a_batch_axis_may_be_anywhere() -> None:
    """h has its rows in axis 1, as the state of a recurrent model has"""
    step = model(
        [
            helper.make_node("Unsqueeze", ["x", "zero"], ["row"]),
            helper.make_node("Add", ["h", "row"], ["y"]),
        ],
        [("x", TensorProto.FLOAT, ["B", 3]), ("h", TensorProto.FLOAT, [2, "B", 3])],
        [("y", TensorProto.FLOAT, [2, "B", 3])],
        {"zero": np.zeros(1, np.int64)},
    )
    maker = PlanMaker()
    stage = maker.onnx(
        "step",
        step,
        fields(x="f32[3]", h="f32[2, 3]"),
        fields(y="f32[2, 3]"),
        input_axes=[0, 1],
        output_axes=[1],
        group=8,
    )
    maker.pipeline(
        "p",
        fields(x="f32[3]", h="f32[2, 3]"),
        fields(y="f32[2, 3]"),
        block([0, 1], [call(stage, [0, 1], [2])], [2]),
        batch=8,
    )
    random = np.random.default_rng(0)
    x = random.standard_normal((5, 3)).astype(np.float32)
    h = random.standard_normal((5, 2, 3)).astype(np.float32)
    engine = engine_of(maker.plan())
    np.testing.assert_array_equal(ask(engine, x=x, h=h)["y"], h + x[:, None])
    assert engine.metrics.stage("step").sizes == {5: 1}


def test_an_optional_input_may_be_left_out() -> None:
    scaled = model(
        [helper.make_node("Mul", ["x", "k"], ["y"])],
        [("x", TensorProto.FLOAT, ["B", 2]), ("k", TensorProto.FLOAT, [1])],
        [("y", TensorProto.FLOAT, ["B", 2])],
        {"k": np.full(1, 3, np.float32)},
    )
    maker = PlanMaker()
    inputs = (Field("x", kind("f32[2]")), Field("k", OptionalType(kind("f32[1]"))))
    stage = maker.onnx("m", scaled, inputs, fields(y="f32[2]"), input_axes=[0, None])
    maker.pipeline(
        "p",
        inputs,
        fields(y="f32[2]"),
        block([0, 1], [call(stage, [0, 1], [2])], [2]),
        defaults={"k": None},
    )
    plan = maker.plan()
    np.testing.assert_array_equal(ask(engine_of(plan), x=[1, 2])["y"], [3, 6])
    np.testing.assert_array_equal(ask(engine_of(plan), x=[1, 2], k=[5])["y"], [5, 10])


def test_an_input_that_the_file_needs_is_missed_by_name() -> None:
    """k has a value in the file and is no input that must be given, which x is"""
    scaled = model(
        [helper.make_node("Mul", ["x", "k"], ["y"])],
        [("x", TensorProto.FLOAT, ["B", 2]), ("k", TensorProto.FLOAT, [1])],
        [("y", TensorProto.FLOAT, ["B", 2])],
        {"k": np.full(1, 3, np.float32)},
    )
    maker = PlanMaker()
    inputs = (Field("x", OptionalType(kind("f32[2]"))), Field("k", kind("f32[1]")))
    stage = maker.onnx("m", scaled, inputs, fields(y="f32[2]"), input_axes=[0, None])
    maker.pipeline(
        "p",
        inputs,
        fields(y="f32[2]"),
        block([0, 1], [call(stage, [0, 1], [2])], [2]),
        defaults={"x": None},
    )
    with pytest.raises(Fault, match=r"the model failed: .*\['x'\].* missing"):
        ask(engine_of(maker.plan()), k=[5])


def test_a_model_may_take_text() -> None:
    same = model(
        [helper.make_node("Identity", ["x"], ["y"])],
        [("x", TensorProto.STRING, ["B"])],
        [("y", TensorProto.STRING, ["B"])],
        {},
    )
    maker = PlanMaker()
    stage = maker.onnx("m", same, fields(x="string"), fields(y="string"), group=4)
    maker.pipeline(
        "p",
        fields(x="string"),
        fields(y="string"),
        block([0], [call(stage, [0], [1])], [1]),
        batch=4,
    )
    y = ask(engine_of(maker.plan()), x=["a", "ß", ""])["y"]
    assert np.asarray(y).tolist() == ["a", "ß", ""]


@pytest.mark.parametrize("name", ["f16", "f64", "i64", "u8", "bool"])
def test_every_dtype_goes_in_and_out(name: str) -> None:
    numpy = {"f16": np.float16, "f64": np.float64, "i64": np.int64, "u8": np.uint8, "bool": bool}
    onnx_type = helper.np_dtype_to_tensor_dtype(np.dtype(numpy[name]))
    same = model(
        [helper.make_node("Identity", ["x"], ["y"])],
        [("x", onnx_type, ["B", 2])],
        [("y", onnx_type, ["B", 2])],
        {},
    )
    maker = PlanMaker()
    stage = maker.onnx("m", same, fields(x=f"{name}[2]"), fields(y=f"{name}[2]"))
    maker.pipeline(
        "p",
        fields(x=f"{name}[2]"),
        fields(y=f"{name}[2]"),
        block([0], [call(stage, [0], [1])], [1]),
    )
    x = np.array([0, 1], numpy[name])
    y = np.asarray(ask(engine_of(maker.plan()), x=x)["y"])
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


def test_what_a_failed_run_says_reaches_the_caller_without_paths() -> None:
    maker = PlanMaker()
    stage = maker.onnx("m", add_model(1.0, 3), fields(x="f32[N]"), fields(y="f32[N]"))
    maker.pipeline(
        "p", fields(x="f32[N]"), fields(y="f32[N]"), block([0], [call(stage, [0], [1])], [1])
    )
    said = r"stage `m`.*the model failed: .*index: 1 Got: 2 Expected: 3"
    with pytest.raises(Fault, match=said) as caught:
        ask(engine_of(maker.plan()), x=[1, 2])
    assert caught.value.code is Code.FAILED
    assert "/" not in caught.value.message


def test_a_function_may_take_and_give_bf16() -> None:
    maker = PlanMaker()
    stage = maker.python("f", "def f(x):\n    return x\n", fields(x="bf16[2]"), fields(y="bf16[2]"))
    maker.pipeline(
        "p", fields(x="bf16[2]"), fields(y="bf16[2]"), block([0], [call(stage, [0], [1])], [1])
    )
    y = np.asarray(ask(engine_of(maker.plan()), x=[1, 2])["y"])
    assert y.dtype == ml_dtypes.bfloat16
