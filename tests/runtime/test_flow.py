"""What plans mean, run in the caller's thread: fan-out, branches, subsets, values."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from headrace.compiler.plan import (
    EachStep,
    SwitchStep,
)
from headrace.runtime.engine import Engine
from headrace.runtime.request import Fault, Request, RequestError
from tests.runtime.flows import BOXES, ask, branches, fan_out, nested, start, two_branches
from tests.runtime.plans import PlanMaker, add_model, block, call, fields, kind, model, place


def test_b01_empty_fan_out(maker: PlanMaker, engines: list[Engine]) -> None:
    fan_out(maker)
    engine = start(maker, engines)
    outputs = ask(engine, "pages", n=0)
    y, s, t = outputs["y"], outputs["s"], outputs["t"]
    assert isinstance(y, np.ndarray)
    assert isinstance(s, np.ndarray)
    assert isinstance(t, np.ndarray)
    assert (y.shape, y.dtype) == ((0, 4), np.float32)
    assert (s.shape, s.dtype) == ((0,), np.float32)
    assert (t.shape, t.dtype) == ((0,), object)
    assert engine.metrics.stage("classify").executions == 0


@pytest.mark.parametrize("group", [1, 8])
def test_b02_fan_out_above_the_largest_batch(
    maker: PlanMaker, engines: list[Engine], group: int
) -> None:
    fan_out(maker, group=group)
    engine = start(maker, engines)
    outputs = ask(engine, "pages", n=37)
    expected = np.arange(37 * 4, dtype=np.float32).reshape(37, 4)
    np.testing.assert_array_equal(outputs["y"], expected + 1)
    np.testing.assert_array_equal(outputs["s"], expected.mean(axis=1))
    assert list(outputs["t"])[:2] == ["v1.5", "v5.5"]  # type: ignore[call-overload]
    sizes = engine.metrics.stage("classify").sizes
    assert sizes == ({1: 37} if group == 1 else {8: 4, 5: 1})


def test_items_that_the_filter_drops_are_gone_from_every_result(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    fan_out(maker, filtered=True)
    engine = start(maker, engines)
    outputs = ask(engine, "pages", n=4, low=5.0)
    np.testing.assert_array_equal(outputs["s"], [5.5, 9.5, 13.5])
    assert list(outputs["t"]) == ["v5.5", "v9.5", "v13.5"]  # type: ignore[call-overload]
    nothing = ask(engine, "pages", n=4, low=99.0)
    assert np.asarray(nothing["y"]).shape == (0, 4)


def test_b17_only_the_rows_that_need_it_reach_a_branch(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    branches(maker)
    engine = start(maker, engines)
    outputs = ask(engine, "gate", x=np.array([1, -1, 2, -2, 3], np.float32))
    np.testing.assert_array_equal(outputs["y"], np.array([101, -1, 102, -2, 103], np.float32))
    stage = engine.metrics.stage("expensive")
    assert (stage.executions, stage.rows) == (1, 3)
    ask(engine, "gate", x=np.array([-1, -2], np.float32))
    assert engine.metrics.stage("expensive").rows == 3


def test_a_switch_takes_the_first_case_that_holds_the_value(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    arms = [maker.onnx(f"a{i}", add_model(i), fields(x="f32"), fields(y="f32")) for i in (1, 2, 3)]
    cases = [block([], [call(arm, [0], [1])], [1], captures=[(1, 0)]) for arm in arms]
    switch = SwitchStep(
        0, ((("en", "de"), cases[0]), (("de", "zh"), cases[1])), cases[2], (2,), place(4)
    )
    maker.pipeline(
        "route",
        fields(lang="string", x="f32"),
        fields(y="f32"),
        block([0, 1], [switch], [2]),
        batch=8,
    )
    engine = start(maker, engines)
    outputs = ask(engine, "route", lang=["zh", "en", "xx", "de"], x=np.zeros(4, np.float32))
    np.testing.assert_array_equal(outputs["y"], np.array([2, 1, 3, 1], np.float32))


def test_loops_nest_and_their_items_share_executions(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    nested(maker)
    engine = start(maker, engines)
    ys = ask(engine, "nest", n=4)["ys"]
    assert isinstance(ys, list)
    assert [np.asarray(y).tolist() for y in ys] == [[], [2.0], [3.0, 3.0], [4.0, 4.0, 4.0]]
    assert engine.metrics.stage("add").sizes == {6: 1}


def test_b11_stages_that_feed_only_unwanted_results_do_not_run(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    two_branches(maker)
    engine = start(maker, engines)
    answer = engine.call(Request("both", {"x": 1.0}, outputs=("b",)))  # type: ignore[dict-item]
    assert {name: float(value) for name, value in answer.outputs.items()} == {"b": 3.0}  # type: ignore[arg-type]
    assert engine.metrics.stage("left").executions == 0
    assert engine.metrics.stage("right").executions == 1


def test_b11_inside_a_loop_too(maker: PlanMaker, engines: list[Engine]) -> None:
    fan_out(maker, filtered=True)
    engine = start(maker, engines)
    answer = engine.call(Request("pages", {"n": 3}, outputs=("t",)))  # type: ignore[dict-item]
    assert list(answer.outputs) == ["t"]
    assert engine.metrics.stage("classify").executions == 0
    assert engine.metrics.stage("label").rows == 3


def test_a_stage_called_for_its_effect_runs_whatever_is_wanted(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    two_branches(maker)
    label = maker.python("label", BOXES, fields(x="f32"), fields(t="string"))
    body = maker.pipelines[0].body
    steps = [*body.steps, call(label, [0], [3])]
    maker.pipeline("effect", fields(x="f32"), fields(a="f32", b="f32"), block([0], steps, [1, 2]))
    engine = start(maker, engines)
    engine.call(Request("effect", {"x": 1.0}, outputs=("b",)))  # type: ignore[dict-item]
    assert engine.metrics.stage("label").executions == 1
    assert engine.metrics.stage("left").executions == 0


def test_b12_an_unknown_result_is_named_with_those_there_are(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    two_branches(maker)
    engine = start(maker, engines)
    with pytest.raises(RequestError, match=r"no result `zz`; it has `a`, `b`"):
        engine.call(Request("both", {"x": 1.0}, outputs=("a", "zz")))  # type: ignore[dict-item]


def test_asking_for_ever_new_subsets_keeps_only_some_of_them(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    stage = maker.onnx("add", add_model(1.0), fields(x="f32"), fields(y="f32"))
    names = {f"r{i}": "f32" for i in range(50)}
    maker.pipeline(
        "wide", fields(x="f32"), fields(**names), block([0], [call(stage, [0], [1])], [1] * 50)
    )
    engine = start(maker, engines)
    for name in names:
        assert list(engine.call(Request("wide", {"x": 1.0}, outputs=(name,))).outputs) == [name]  # type: ignore[dict-item]
    kept = engine.pipeline("wide")._subsets  # pyright: ignore[reportPrivateUsage] what it keeps shows nowhere
    assert len(kept) <= 32


def scalar_model() -> bytes:
    """y = x * k, k without a batch axis"""
    return model(
        [helper.make_node("Mul", ["x", "k"], ["y"])],
        [("x", TensorProto.FLOAT, ["B"]), ("k", TensorProto.FLOAT, [])],
        [("y", TensorProto.FLOAT, ["B"])],
        {},
    )


def test_rows_share_a_run_only_when_an_input_without_a_batch_axis_is_equal(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    stage = maker.onnx(
        "scale", scalar_model(), fields(x="f32", k="f32"), fields(y="f32"),
        input_axes=[0, None], group=8,
    )  # fmt: skip
    maker.pipeline(
        "p", fields(x="f32", k="f32"), fields(y="f32"),
        block([0, 1], [call(stage, [0, 1], [2])], [2]), batch=8,
    )  # fmt: skip
    engine = start(maker, engines)
    x, k = np.array([1, 2, 3, 4], np.float32), np.array([2, 3, 2, 2], np.float32)
    np.testing.assert_array_equal(ask(engine, "p", x=x, k=k)["y"], x * k)
    assert engine.metrics.stage("scale").sizes == {3: 1, 1: 1}


def test_a_default_that_is_returned_cannot_be_changed_for_others(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    maker.pipeline(
        "p", fields(x="f32[2]"), fields(y="f32[2]"), block([0], [], [0]), defaults={"x": (1, 2)}
    )
    y = ask(start(maker, engines), "p")["y"]
    assert isinstance(y, np.ndarray)
    with pytest.raises(ValueError, match="read-only"):
        y[0] = 9


def test_a_default_reaches_every_consumer_as_its_type(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    inner = maker.onnx("m", add_model(1.0), fields(x="f32"), fields(y="f32"))
    body = block([0], [call(inner, [1], [2])], [2], captures=[(0, 1)])
    each = EachStep((1,), body, False, (2,), (kind("f32[N]"),), place(3))
    maker.pipeline(
        "p",
        fields(low="f32", xs="f32[N]"),
        fields(y="f32[N]", low="f32"),
        block([0, 1], [each], [2, 0]),
        defaults={"low": 0.5},
    )
    engine = start(maker, engines)
    outputs = ask(engine, "p", xs=[7, 8])
    np.testing.assert_array_equal(outputs["y"], np.array([1.5, 1.5], np.float32))
    assert np.asarray(outputs["low"]).dtype == np.float32


def test_items_of_different_shape_are_no_tensor(maker: PlanMaker, engines: list[Engine]) -> None:
    parts = maker.python("parts", BOXES, fields(n="i64"), fields(xs="list<f32[K]>"))
    each = EachStep((1,), block([0], [], [0]), False, (2,), (kind("f32[N, K]"),), place(5))
    maker.pipeline(
        "p", fields(n="i64"), fields(y="f32[N, K]"), block([0], [call(parts, [0], [1]), each], [2])
    )
    engine = start(maker, engines)
    with pytest.raises(Fault, match=r"item 1 has shape \[1\], but item 0 has \[0\]"):
        ask(engine, "p", n=3)


def test_a_batch_of_no_rows_gives_no_rows(maker: PlanMaker, engines: list[Engine]) -> None:
    branches(maker)
    engine = start(maker, engines)
    y = ask(engine, "gate", x=np.zeros(0, np.float32))["y"]
    assert isinstance(y, np.ndarray)
    assert (y.shape, y.dtype) == ((0,), np.float32)
    assert engine.metrics.stage("expensive").executions == 0


def test_a_function_is_loaded_once_and_its_lines_are_shown(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    source = "calls = []\n\ndef f(x):\n    calls.append(x)\n    return len(calls)\n"
    one = maker.python("f", source, fields(x="f32"), fields(y="i64"))
    two = maker.python("f", source, fields(x="f32"), fields(y="i64"))
    maker.pipeline(
        "p",
        fields(x="f32"),
        fields(a="i64", b="i64"),
        block([0], [call(one, [0], [1]), call(two, [0], [2])], [1, 2]),
    )
    outputs = ask(start(maker, engines), "p", x=1.0)
    assert (int(outputs["a"]), int(outputs["b"])) == (1, 2)  # type: ignore[call-overload]
