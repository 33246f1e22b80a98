"""What plans mean, run in the caller's thread: fan-out, branches, subsets, failures."""

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import TensorProto, helper

from headrace.compiler.plan import (
    Batching,
    BranchStep,
    Check,
    CheckStep,
    EachStep,
    SwitchStep,
)
from headrace.dsl.types import DimVar
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.load_error import LoadError
from headrace.runtime.request import Code, Fault, Request, RequestError
from tests.runtime.plans import PlanMaker, add_model, block, call, fields, kind, model, place

BOXES = """
import numpy as np

def boxes(n):
    return np.arange(int(n) * 4, dtype=np.float32).reshape(int(n), 4)

def mean(x):
    return x.mean(dtype=np.float32)

def positive(x):
    return bool(x >= 0)

def label(x):
    return f"v{float(x):g}"

def fail(x):
    if x < 0:
        raise ValueError("negative: secret")
    return x

def parts(n):
    return [np.full((i,), i, np.float32) for i in range(int(n))]

def total(x):
    return x.sum(dtype=np.float32)
"""


@pytest.fixture
def maker() -> PlanMaker:
    return PlanMaker()


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    opened: list[Engine] = []
    yield opened
    for engine in opened:
        engine.close()


def start(maker: PlanMaker, engines: list[Engine]) -> Engine:
    engine = Engine(maker.plan(), EngineConfig(workers=1, intra_op_threads=1))
    engines.append(engine)
    return engine


def ask(engine: Engine, name: str, **inputs: object) -> dict[str, object]:
    return dict(engine.call(Request(name, inputs)).outputs)  # type: ignore[arg-type]


def fan_out(maker: PlanMaker, *, group: int = 1, filtered: bool = False) -> None:
    """boxes(n) -> for b in boxes: y = b + 1, s = mean(b) [when s >= low] -> y, s, names"""
    boxes = maker.python("boxes", BOXES, fields(n="i64"), fields(box="f32[N, 4]"))
    add = maker.onnx(
        "classify", add_model(1.0, 4), fields(x="f32[4]"), fields(y="f32[4]"), group=group
    )
    mean = maker.python("mean", BOXES, fields(x="f32[4]"), fields(s="f32"))
    label = maker.python("label", BOXES, fields(x="f32"), fields(t="string"))
    steps = [call(add, [0], [1]), call(mean, [0], [2]), call(label, [2], [3])]
    results = [1, 2, 3]
    captures = []
    if filtered:
        keep = maker.op("math.ge", "bool")
        steps.append(call(keep, [2, 5], [4]))
        results.append(4)
        captures = [(2, 5)]
    body = block([0], steps, results, captures=captures)
    types = tuple(map(kind, ("f32[N, 4]", "f32[N]", "string[N]")))
    each = EachStep((1,), body, filtered, (3, 4, 5), types, place(8))
    maker.pipeline(
        "pages",
        fields(n="i64", low="f32"),
        fields(y="f32[N, 4]", s="f32[N]", t="string[N]"),
        block([0, 2], [call(boxes, [0], [1]), each], [3, 4, 5]),
        defaults={"low": 0.0},
    )


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


def branches(maker: PlanMaker) -> None:
    """if x >= 0 { expensive(x) } else { x }, for a batch of rows"""
    positive = maker.python("positive", BOXES, fields(x="f32"), fields(p="bool"))
    big = maker.onnx("expensive", add_model(100.0), fields(x="f32"), fields(y="f32"), group=16)
    then = block([], [call(big, [0], [1])], [1], captures=[(0, 0)])
    other = block([], [], [0], captures=[(0, 0)])
    branch = BranchStep(1, then, other, (2,), place(4))
    maker.pipeline(
        "gate",
        fields(x="f32"),
        fields(y="f32"),
        block([0], [call(positive, [0], [1]), branch], [2]),
        batch=16,
    )


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


def nested(maker: PlanMaker, parts: str = "np.full((i,), i, np.float32)") -> None:
    """for xs in parts(n) { for x in xs { fail(x) + 1 } }: items of all rows in one group"""
    source = BOXES.replace("np.full((i,), i, np.float32)", parts)
    lists = maker.python("parts", source, fields(n="i64"), fields(xs="list<f32[K]>"))
    fail = maker.python("fail", source, fields(x="f32"), fields(y="f32"))
    add = maker.onnx("add", add_model(1.0), fields(x="f32"), fields(y="f32"), group=64)
    inner = block([0], [call(fail, [0], [1], line=7), call(add, [1], [2])], [2], captures=[(1, 3)])
    walk = EachStep((0,), inner, False, (2,), (kind("f32[K]"),), place(6))
    outer = block([0], [walk], [2], captures=[(0, 1)])
    each = EachStep((1,), outer, False, (2,), (kind("list<f32[K]>"),), place(5))
    maker.pipeline(
        "nest",
        fields(n="i64"),
        fields(ys="list<f32[K]>"),
        block([0], [call(lists, [0], [1]), each], [2]),
    )


def test_loops_nest_and_their_items_share_executions(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    nested(maker)
    engine = start(maker, engines)
    ys = ask(engine, "nest", n=4)["ys"]
    assert isinstance(ys, list)
    assert [np.asarray(y).tolist() for y in ys] == [[], [2.0], [3.0, 3.0], [4.0, 4.0, 4.0]]
    assert engine.metrics.stage("add").sizes == {6: 1}


def two_branches(maker: PlanMaker) -> None:
    left = maker.onnx("left", add_model(1.0), fields(x="f32"), fields(y="f32"))
    right = maker.onnx("right", add_model(2.0), fields(x="f32"), fields(y="f32"))
    maker.pipeline(
        "both",
        fields(x="f32"),
        fields(a="f32", b="f32"),
        block([0], [call(left, [0], [1]), call(right, [0], [2])], [1, 2]),
    )


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


def test_b13_a_failure_has_an_address(maker: PlanMaker, engines: list[Engine]) -> None:
    nested(maker)
    after = maker.onnx("after", add_model(1.0), fields(x="f32"), fields(y="f32"))
    fail = next(i for i, one in enumerate(maker.segments) if one.name == "fail")
    maker.pipeline(
        "five",
        fields(x="f32"),
        fields(y="f32"),
        block([0], [call(fail, [0], [1], line=42), call(after, [1], [2])], [2]),
    )
    engine = start(maker, engines)
    with pytest.raises(Fault) as caught:
        ask(engine, "five", x=-1.0)
    fault = caught.value
    assert fault.code is Code.FAILED
    assert (fault.pipeline, fault.stage, fault.item) == ("five", "fail", ())
    assert fault.place is not None
    assert fault.place.line == 42
    assert "`fail` raised ValueError: negative: secret" in str(fault)
    assert isinstance(fault.__cause__, ValueError)
    assert 'raise ValueError("negative: secret")' in fault.detail
    assert engine.metrics.stage("after").executions == 0
    assert engine.metrics.pipeline("five").failures == {"failed": 1}
    assert float(ask(engine, "five", x=1.0)["y"]) == 2.0  # type: ignore[arg-type]


def test_a_failure_in_a_nested_loop_names_the_item(maker: PlanMaker, engines: list[Engine]) -> None:
    nested(maker, parts="np.arange(i, dtype=np.float32) - 1")
    engine = start(maker, engines)
    with pytest.raises(Fault) as caught:
        ask(engine, "nest", n=3)
    assert caught.value.item == (1, 0)
    assert "item 1.0" in str(caught.value)


def test_b15_a_model_that_miscounts_its_rows_reaches_no_one(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    broken = model(
        [
            helper.make_node("Concat", ["x", "one"], ["y"], axis=0),
        ],
        [("x", TensorProto.FLOAT, ["B"])],
        [("y", TensorProto.FLOAT, ["C"])],
        {"one": np.zeros(1, np.float32)},
    )
    stage = maker.onnx("grows", broken, fields(x="f32"), fields(y="f32"), group=8)
    maker.pipeline(
        "p", fields(x="f32"), fields(y="f32"), block([0], [call(stage, [0], [1])], [1]), batch=8
    )
    engine = start(maker, engines)
    with pytest.raises(Fault, match=r"stage `grows`.*returned 2 rows for 1") as caught:
        ask(engine, "p", x=np.zeros(3, np.float32))
    assert caught.value.item == (0,)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return x", "`y` is f32, expected f32\\[2\\]|has shape \\[\\], expected f32\\[2\\]"),
        ("return np.zeros(2)", r"result `y` is f64\[2\], expected f32\[2\]; convert it"),
        ("return np.zeros(3, np.float32)", r"has shape \[3\], expected f32\[2\]"),
        ("return None", r"is None, expected f32\[2\]"),
        ("raise SystemExit(3)", "raised SystemExit: 3"),
    ],
)
def test_b15_what_a_function_returns_is_checked(
    maker: PlanMaker, engines: list[Engine], body: str, message: str
) -> None:
    source = f"import numpy as np\n\ndef f(x):\n    {body}\n"
    stage = maker.python("f", source, fields(x="f32"), fields(y="f32[2]"))
    maker.pipeline(
        "p", fields(x="f32"), fields(y="f32[2]"), block([0], [call(stage, [0], [1])], [1])
    )
    engine = start(maker, engines)
    with pytest.raises(Fault, match=message) as caught:
        ask(engine, "p", x=1.0)
    assert caught.value.stage == "f"


def test_b15_a_batched_function_that_miscounts_its_rows(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    source = "def f(xs):\n    return xs[:-1]\n"
    stage = maker.python("f", source, fields(x="f32"), fields(y="f32"), batched=True)
    maker.pipeline(
        "p", fields(x="f32"), fields(y="f32"), block([0], [call(stage, [0], [1])], [1]), batch=8
    )
    engine = start(maker, engines)
    with pytest.raises(Fault, match=r"stage `f`.*`y` has 2 rows for a batch of 3"):
        ask(engine, "p", x=np.zeros(3, np.float32))


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


def test_the_row_to_blame_is_found_in_any_chunk(maker: PlanMaker, engines: list[Engine]) -> None:
    source = "def check(xs):\n    assert (xs != 3).all(), 'three'\n    return xs\n"
    stage = maker.python(
        "check", source, fields(x="f32"), fields(y="f32"),
        batched=True, batching=Batching(1, 0.0, ()),
    )  # fmt: skip
    maker.pipeline(
        "p", fields(x="f32"), fields(y="f32"), block([0], [call(stage, [0], [1])], [1]), batch=8
    )
    engine = start(maker, engines)
    with pytest.raises(Fault, match="AssertionError: three") as caught:
        ask(engine, "p", x=np.arange(6, dtype=np.float32))
    assert caught.value.item == (3,)


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


def test_b15_results_whose_shared_dimension_differs(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    source = (
        "import numpy as np\n\ndef f(x):\n    return np.zeros((3, 4), np.float32), ['a', 'b']\n"
    )
    stage = maker.python("f", source, fields(x="f32"), fields(box="f32[N, 4]", t="string[N]"))
    maker.pipeline(
        "p",
        fields(x="f32"),
        fields(box="f32[N, 4]", t="string[N]"),
        block([0], [call(stage, [0], [1, 2])], [1, 2]),
    )
    engine = start(maker, engines)
    with pytest.raises(Fault, match=r"`t` has shape \[2\], expected string\[N\].*`N` is 3 here"):
        ask(engine, "p", x=1.0)


def test_sizes_that_two_stages_must_agree_on_are_compared(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    total = maker.python("total", BOXES, fields(x="f32[N]"), fields(y="f32"))
    left, right = DimVar("N", 1), DimVar("M", 2)
    check = CheckStep(
        Check(left, "==", right, "N == M"), ((left, 0, 0), (right, 1, 0)), "total", place(9)
    )
    maker.pipeline(
        "p",
        fields(a="f32[N]", b="f32[M]"),
        fields(y="f32"),
        block([0, 1], [check, call(total, [0], [2])], [2]),
    )
    engine = start(maker, engines)
    assert float(ask(engine, "p", a=[1, 2], b=[1, 2])["y"]) == 3.0  # type: ignore[arg-type]
    with pytest.raises(Fault, match=r"stage `total`.*toy.pipe:9.*`N == M` does not hold: 2 == 3"):
        ask(engine, "p", a=[1, 2], b=[1, 2, 3])


def test_checks_of_a_model_are_compared_with_real_shapes(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    check = Check(DimVar("N"), "<", 3, "N < 3")
    stage = maker.onnx(
        "m", add_model(1.0, "N"), fields(x="f32[N]"), fields(y="f32[N]"), checks=(check,)
    )
    maker.pipeline(
        "p", fields(x="f32[N]"), fields(y="f32[N]"), block([0], [call(stage, [0], [1])], [1])
    )
    engine = start(maker, engines)
    ask(engine, "p", x=[1, 2])
    with pytest.raises(Fault, match="`N < 3` does not hold: 3 < 3"):
        ask(engine, "p", x=[1, 2, 3])


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


def test_an_overdue_request_runs_no_further_stage(maker: PlanMaker, engines: list[Engine]) -> None:
    two_branches(maker)
    now = [0.0]
    engine = Engine(maker.plan(), EngineConfig(workers=1, clock=lambda: now[0], intra_op_threads=1))
    engines.append(engine)
    with pytest.raises(Fault) as caught:
        engine.call(Request("both", {"x": 1.0}, deadline=-1.0))  # type: ignore[dict-item]
    assert caught.value.code is Code.DEADLINE
    assert engine.metrics.stage("left").executions == 0


def test_an_unknown_pipeline_is_named(maker: PlanMaker, engines: list[Engine]) -> None:
    two_branches(maker)
    engine = start(maker, engines)
    with pytest.raises(Fault, match="no pipeline `ocr`; this plan has `both`") as caught:
        engine.call(Request("ocr", {}))
    assert caught.value.code is Code.NOT_FOUND


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


def test_a_source_that_cannot_be_loaded_is_refused_at_load(
    maker: PlanMaker, engines: list[Engine]
) -> None:
    maker.python("f", "import no_such_module_here\n", fields(x="f32"), fields(y="f32"))
    with pytest.raises(LoadError, match=r"toy.py cannot be loaded: ModuleNotFoundError"):
        start(maker, engines)


def test_a_missing_function_is_refused_at_load(maker: PlanMaker, engines: list[Engine]) -> None:
    maker.python("f", "def g(x):\n    return x\n", fields(x="f32"), fields(y="f32"))
    with pytest.raises(LoadError, match=r"toy.py defines no function `f`"):
        start(maker, engines)
