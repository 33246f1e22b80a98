"""`pads`: what a model may declare of padding, and how it reaches the plan's check."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.compiler import check, compile_source
from headrace.compiler.literal_codec import Malformed
from headrace.compiler.plan import (
    Batching,
    ModelSegment,
    Padding,
    Pads,
    Plan,
    PythonSegment,
)
from headrace.compiler.verify_plan import verify_plan
from headrace.dsl.read import read_source
from headrace.dsl.source import Source
from headrace.dsl.types import DimVar
from headrace.stdlib.op import Literal
from tests.runtime.padded_models import padded_plan, python_source


def mistakes(signature: str, clauses: str, calls: str = "") -> list[tuple[str, str]]:
    text = f'model m = onnx "m.onnx" {signature}\n    {clauses}\n{calls}'
    return [(one.code, one.primary.span.text) for one in check(Source("a.pipe", text))]


IDS = "(ids: i64[L], mask: bool[L], name: string[L], n: i64) -> (y: f32[L], z: f32[2 * L])"
FILL = 'ids = 0, mask = false, name = ""'


def test_each_input_that_has_the_dimension_is_given_a_value_of_its_dtype() -> None:
    assert mistakes(IDS, f"pads L with ({FILL})") == []
    assert (
        mistakes("(x: f32[L, W]) -> (y: f32)", "pads L with (x = 0) pads W with (x = -1.5)") == []
    )
    assert mistakes("(x: f32[L]?) -> (y: f32)", "pads L with (x = 1)") == []


@pytest.mark.parametrize(
    ("signature", "clauses", "found"),
    [
        (IDS, f"pads K with ({FILL})", ("HR346", "K")),
        (IDS, f"pads L with ({FILL}) pads L with ({FILL})", ("HR346", "L")),
        ("(x: f32[L], w: f32[2 * L]) -> (y: f32)", "pads L with (x = 0)", ("HR346", "L")),
        ("(x: f32[L]) -> (y: f32[L + T])", "pads L with (x = 0)", ("HR346", "L")),
        ("(x: f32[L]) -> (y: f32)", "batch none pads L with (x = 0)", ("HR346", "L")),
        (
            "(x: f32[L], w: f32[L]) -> (y: f32)",
            "batch axis { x = 0 } pads L with (x = 0, w = 0)",
            ("HR346", "L"),
        ),
        (
            IDS,
            "pads L with (ids = 0, mask = false)",
            ("HR347", "pads L with (ids = 0, mask = false)"),
        ),
        (IDS, f"pads L with ({FILL}, n = 0)", ("HR347", "n")),
        (IDS, f"pads L with ({FILL}, ids = 0)", ("HR347", "ids")),
        (IDS, 'pads L with (ids = 0.5, mask = false, name = "")', ("HR347", "0.5")),
        (IDS, 'pads L with (ids = 0, mask = 0, name = "")', ("HR347", "0")),
        (IDS, "pads L with (ids = 0, mask = true, name = 3)", ("HR347", "3")),
        (IDS, 'pads L with (ids = "a", mask = true, name = "")', ("HR347", '"a"')),
        ("(x: u8[L]) -> (y: f32)", "pads L with (x = -1)", ("HR347", "-1")),
    ],
)
def test_each_mistake_has_its_code_and_place(
    signature: str, clauses: str, found: tuple[str, str]
) -> None:
    assert mistakes(signature, clauses) == [found]


@pytest.mark.parametrize(
    ("signature", "clauses", "found"),
    [
        ("(x: f32[L], w: string) -> (y: list<f32>, z: f32[L])", "pads L with (x = 0)", []),
        ("(x: list<f32[L]>) -> (y: f32)", "pads L with (x = 0)", [("HR346", "L")]),
        ("(x: f32[L]) -> (y: list<f32[L]>)", "pads L with (x = 0)", [("HR346", "L")]),
        ("(x: f32[L]) -> (y: f32)", "batch none pads L with (x = 0)", [("HR346", "L")]),
        ("(x: f32[L]) -> (y: f32)", 'pads L with (x = "")', [("HR347", '""')]),
    ],
)
def test_a_model_in_python_declares_it_for_its_tensors(
    signature: str, clauses: str, found: list[tuple[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "m.py").write_text("class M:\n    def __call__(self, *given): pass\n")
    text = f'model m = python "m.py:M" {signature}\n    {clauses}\n'
    given = check(Source("a.pipe", text, tmp_path / "a.pipe"))
    assert [(one.code, one.primary.span.text) for one in given] == found


# ---- the plan


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder: Path = tmp_path_factory.mktemp("padded")
    schedule = "schedule embed { mean { batch { max = 4, pad = L, bucket = L / 8 } } }"
    return padded_plan(folder, schedule)


def with_segment(plan: Plan, **changes: object) -> Plan:
    segments = [
        replace(one, **changes)  # type: ignore[arg-type]
        if isinstance(one, ModelSegment) and one.batching is not None
        else one
        for one in plan.segments
    ]
    return replace(plan, segments=tuple(segments))


L, K = DimVar("L"), DimVar("K", 7)


@pytest.mark.parametrize(
    ("fill", "padding"),
    [
        ((0,), Padding(L, 8, 0.2)),
        ((0, None), Padding(L, 8, 0.2)),
        ((0, 0), Padding(K, 8, 0.2)),
        ((0, 0), Padding(L, 0, 0.2)),
        ((0, 0), Padding(L, 8, 1.0)),
    ],
)
def test_a_plan_that_pads_what_it_must_not_is_refused(
    plan: Plan, fill: tuple[Literal, ...], padding: Padding
) -> None:
    batching = Batching(4, 0.0, (), padding)
    verify_plan(with_segment(plan, batching=Batching(4, 0.0, (), Padding(L, 8, 0.2))))
    altered = with_segment(plan, pads=(Pads(L, fill),), batching=batching)
    with pytest.raises(Malformed, match="segment 'mean'"):
        verify_plan(altered)


def test_what_pads_is_not_fused_and_says_so(tmp_path: Path) -> None:
    plan = padded_plan(tmp_path, "schedule many { mean { batch { max = 4, pad = L } } }")
    reasons = [one.reason for one in plan.declined if one.pipeline == "many"]
    assert any("rows of different `L` meet there" in reason for reason in reasons)
    (mean,) = [one for one in plan.segments if isinstance(one, ModelSegment) and one.batching]
    assert mean.members == ("mean",)


def test_a_model_in_python_keeps_to_the_same(tmp_path: Path) -> None:
    schedule = "schedule embed { mean { batch { max = 4, pad = L }, device = sim } }"
    plan = compile_source(read_source(python_source(tmp_path, schedule)))
    (mean,) = [one for one in plan.segments if isinstance(one, PythonSegment) and one.batching]
    assert mean.batching == Batching(4, 0.0, (), Padding(L))
    for altered in (
        replace(mean, pads=()),
        replace(mean, batched=False),
        replace(mean, pads=(Pads(L, (0,)),)),
        replace(mean, batching=Batching(4, 0.0, (), Padding(K))),
    ):
        segments = tuple(altered if one is mean else one for one in plan.segments)
        with pytest.raises(Malformed, match="segment 'mean'"):
            verify_plan(replace(plan, segments=segments))
