"""Rows and results that fail a request in the caller's thread, and who is to blame."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from headrace.compiler.plan import (
    Batching,
    Check,
    CheckStep,
)
from headrace.dsl.types import DimVar
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.load_error import LoadError
from headrace.runtime.request import Code, Fault, Request
from tests.runtime.flows import BOXES, ask, nested, start, two_branches
from tests.runtime.plans import PlanMaker, add_model, block, call, fields, model, place


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
