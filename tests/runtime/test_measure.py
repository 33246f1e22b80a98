"""Measuring: what is run, how often, and what is made of it, with a clock that only runs tell."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from onnx import TensorProto, helper

from headrace.compiler.plan import EachStep
from headrace.compiler.profile import Timing
from headrace.dsl.types import ANY_DIM, DType, Field, ListType, TensorType
from headrace.runtime.measure import MeasureConfig, machine, measure
from headrace.runtime.request import Fault
from tests.runtime.plans import HERE, PlanMaker, add_model, block, call, fields, model

ONE = fields(x="f32[N]"), fields(y="f32[N]")


class Ticks:
    """A clock that moves on by the same time whenever it is read."""

    def __init__(self, seconds: float) -> None:
        self._readings: Iterator[float] = (number * seconds for number in count())

    def __call__(self) -> float:
        return next(self._readings)


def config(seconds: float = 0.25) -> MeasureConfig:
    """Every execution takes as long as every other, whatever its rows."""
    return MeasureConfig(clock=Ticks(seconds), seconds=100.0, size=3)


def maker() -> PlanMaker:
    made = PlanMaker()
    made.onnx("add", add_model(1.0, "N"), *ONE)
    made.pipeline("p", *ONE, block([0], [call(0, [0], [1])], [1]))
    return made


def test_a_model_is_run_alone_and_in_every_batch() -> None:
    found = measure(maker().plan(), {}, config())
    (times,) = found.profile.models
    assert times.timings == tuple(Timing(rows, 0.25) for rows in (1, 2, 4, 8, 16))
    assert (times.stage, times.device, times.inputs) == ("add", "cpu", ("x float32[3]",))
    assert times.best == Timing(16, 0.25)
    assert times.gain(Timing(16, 0.25)) == 16
    assert found.profile.stages == ()
    assert found.profile.machine == machine(1)
    assert found.skipped == ()


def test_a_batch_that_takes_longer_than_there_is_time_is_left_out() -> None:
    found = measure(maker().plan(), {}, replace(config(), seconds=4.6))
    (times,) = found.profile.models
    assert [timing.rows for timing in times.timings] == [1, 2]
    assert times.stopped == "4 rows take longer than the 4.6 s for it"


def test_samples_give_the_shapes_and_the_times_of_stages() -> None:
    samples = {"p": {"x": np.zeros(7, np.float32)}}
    found = measure(maker().plan(), samples, config())
    assert found.profile.models[0].inputs == ("x float32[7]",)
    (took,) = found.profile.stages
    assert (took.pipeline, took.stage, took.rows) == ("p", "add", 1)
    assert took.seconds > 0


def test_rows_of_a_sample_are_measured_by_the_middle_one() -> None:
    strips = (Field("y", ListType(TensorType(DType.F32, (ANY_DIM,)))),)
    made = PlanMaker()
    made.python("cut", "def cut(x):\n    return [x[:1], x[:9], x[:4]]\n", ONE[0], strips)
    made.onnx("add", add_model(1.0, "N"), *ONE)
    body = block([0], [call(1, [0], [1])], [1])
    each = EachStep((1,), body, False, (2,), (strips[0].type,), HERE)
    made.pipeline("p", ONE[0], strips, block([0], [call(0, [0], [1]), each], [2]))
    found = measure(made.plan(), {"p": {"x": np.zeros(9, np.float32)}}, config())
    assert found.profile.models[0].inputs == ("x float32[4]",)
    assert [(one.stage, one.rows) for one in found.profile.stages] == [("cut", 1), ("add", 3)]


def test_a_model_without_a_batch_axis_runs_alone() -> None:
    made = PlanMaker()
    content = model(
        [helper.make_node("Neg", ["x"], ["y"])],
        [("x", TensorProto.FLOAT, ["N"])],
        [("y", TensorProto.FLOAT, ["N"])],
        {},
    )
    made.onnx("neg", content, *ONE, input_axes=[None], output_axes=[None])
    made.pipeline("p", *ONE, block([0], [call(0, [0], [1])], [1]))
    (times,) = measure(made.plan(), {}, config()).profile.models
    assert times.timings == (Timing(1, 0.25),)
    assert times.best is None
    assert times.stopped == "the model has no batch axis"


def test_a_model_whose_batches_fail_is_measured_as_far_as_it_runs() -> None:
    made = PlanMaker()
    made.onnx("fixed", fixed_batch(), *ONE)
    made.pipeline("p", *ONE, block([0], [call(0, [0], [1])], [1]))
    (times,) = measure(made.plan(), {}, config()).profile.models
    assert times.timings == (Timing(1, 0.25),)
    assert times.stopped is not None
    assert times.stopped.startswith("with 2 rows the model failed: ")


def fixed_batch() -> bytes:
    """A model that says that it can batch and cannot."""
    return model(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        [("x", TensorProto.FLOAT, ["B", "N"])],
        [("y", TensorProto.FLOAT, [1, 3])],
        {"shape": np.array([1, 3], np.int64)},
    )


def test_models_that_do_not_run_here_are_named_with_the_reason() -> None:
    made = PlanMaker()
    made.onnx("far", add_model(1.0, "N"), *ONE, device="sim")
    made.onnx("needs", add_model(1.0, 5), fields(x="f32[N]"), fields(y="f32[N]"))
    made.onnx("add", add_model(2.0, "N"), *ONE)
    seen: list[tuple[int, int, str]] = []

    def progress(done: int, total: int, name: str) -> None:
        seen.append((done, total, name))

    found = measure(made.plan(), {}, config(), progress)
    assert [times.stage for times in found.profile.models] == ["add"]
    reasons = dict(found.skipped)
    assert reasons["far"] == "`sim` is for tests, and its times mean nothing"
    assert reasons["needs"].startswith("the model failed: ")
    assert seen == [(0, 3, "far"), (1, 3, "needs"), (2, 3, "add"), (3, 3, "")]


def test_a_model_that_several_stages_run_is_measured_once() -> None:
    made = PlanMaker()
    for name in ("first", "second"):
        made.onnx(name, add_model(1.0, "N"), *ONE)
    assert [times.stage for times in measure(made.plan(), {}, config()).profile.models] == ["first"]


def test_a_sample_that_fails_is_a_fault_of_its_stage() -> None:
    made = PlanMaker()
    made.python("fail", "def fail(x):\n    raise ValueError('no')\n", *ONE)
    made.pipeline("p", *ONE, block([0], [call(0, [0], [1])], [1]))
    with pytest.raises(Fault, match="no") as caught:
        measure(made.plan(), {"p": {"x": np.zeros(2, np.float32)}}, config())
    assert caught.value.stage == "fail"


def test_inputs_are_made_up_in_every_type() -> None:
    made = PlanMaker()
    types = {"a": ("i64", TensorProto.INT64), "b": ("bool", TensorProto.BOOL)}
    types |= {"c": ("f16", TensorProto.FLOAT16), "d": ("string", TensorProto.STRING)}
    for name, (dtype, kind) in types.items():
        content = model(
            [helper.make_node("Identity", ["x"], ["y"])],
            [("x", kind, ["B", "N"])],
            [("y", kind, ["B", "N"])],
            {},
        )
        made.onnx(name, content, fields(x=f"{dtype}[N]"), fields(y=f"{dtype}[N]"))
    found = measure(made.plan(), {}, config())
    assert found.skipped == ()
    assert {times.stage: times.inputs for times in found.profile.models} == {
        "a": ("x int64[3]",),
        "b": ("x bool[3]",),
        "c": ("x float16[3]",),
        "d": ("x object[3]",),
    }
