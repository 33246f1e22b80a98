"""Mistakes: all of a file in one run, each with its place; what is said of them."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from onnx import TensorProto

from headrace.compiler import check
from headrace.dsl.diagnostic import Severity
from headrace.dsl.render import render
from headrace.dsl.source import Source
from tests.compiler.onnx_files import write_model
from tests.compiler.sources import found_in, lowered
from tests.growth import times_as_long


def test_b07_a_type_mismatch_shows_both_stages_and_both_whole_types() -> None:
    result = lowered("""
model boxes = onnx "boxes.onnx" (x: f32[H, W]) -> (box: f32[N, 3])
model label = onnx "label.onnx" (box: i64[N, 4]) -> (kind: i64[N])

pipeline p(x: f32[H, W]) -> (kind: i64[N]) {
    box = boxes(x)
    return kind = label(box)
}
""")
    assert (
        render(result.diagnostics)
        == """\
error[HR203]: `label` wants i64[N, 4], but `box` is f32[N, 3]
--> p.pipe:7:25
  |
6 |     box = boxes(x)
  |     --- `box` is made here
7 |     return kind = label(box)
  |                         ^^^ expected i64[N, 4], found f32[N, 3]
  = note: with the batch axis, `box` is f32[batch, N, 3] and `label` wants i64[batch, N, 4]
"""
    )


def test_b07_a_batch_that_is_written_is_told_apart_from_the_one_that_is_not() -> None:
    (found,) = lowered("""
model far = onnx "far.onnx" (x: f32[8], h: f32[2, 4]) -> (p: f32)
    batch axis { x = 0, h = 1, p = 0 }
pipeline p(x: f32[8], h: f32[2, 1, 4]) -> (p: f32) { return p = far(x, h) }
""").diagnostics
    assert found.code == "HR202"
    assert found.notes == ("with the batch axis, `far` wants f32[2, batch, 4]",)


def test_b07_the_whole_shapes_of_models_that_do_not_batch_are_all_there_is() -> None:
    (found,) = lowered("""
model boxes = onnx "boxes.onnx" (x: f32[H, W]) -> (box: f32[N, 3]) batch none
model label = onnx "label.onnx" (box: i64[N, 4]) -> (kind: i64[N]) batch none
pipeline p(x: f32[H, W]) -> (kind: i64[N]) { return kind = label(boxes(x)) }
""").diagnostics
    assert found.message == "`label` wants i64[N, 4], but this is f32[N, 3]"
    assert found.notes == ()


@pytest.mark.slow
def test_b07_the_command_fails_with_the_place_and_loads_nothing(tmp_path: Path) -> None:
    (tmp_path / "p.pipe").write_text("""\
model boxes = onnx "boxes.onnx" (x: f32[4]) -> (box: f32[N, 3])
model label = onnx "label.onnx" (box: i64[N, 4]) -> (kind: i64[N])
pipeline p(x: f32[4]) -> (kind: i64[N]) { return kind = label(boxes(x)) }
""")
    write_model(tmp_path / "boxes.onnx", {"x": ["B", 4]}, {"box": ["B", "N", 3]})
    kinds = {"kind": ["B", "N"]}
    write_model(tmp_path / "label.onnx", {"box": ["B", "N", 4]}, kinds, dtype=TensorProto.INT64)
    program = """
import sys
from headrace.cli import main
failed = main(["compile", "p.pipe"])
print("loaded" if "onnxruntime" in sys.modules else "nothing loaded")
sys.exit(failed)
"""
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "p.pipe:3:63" in ran.stdout + ran.stderr
    assert "f32[batch, N, 3]" in ran.stdout + ran.stderr
    assert ran.stdout.splitlines()[-1] == "nothing loaded"
    assert not list(tmp_path.glob("*.plan"))


def test_b08_a_circle_through_pipelines_and_files_is_refused_beside_other_mistakes(
    tmp_path: Path,
) -> None:
    (tmp_path / "other.pipe").write_text(
        'use "p.pipe" as back\nfn f(x: f32) -> (y: f32) { return y = x }\n'
    )
    text = """
use "other.pipe" as other
pipeline a(x: f32) -> (y: f32) { return y = b(x) }
pipeline b(x: f32) -> (y: f32) { return y = a(x) + missing }
pipeline c(x: f32) -> (y: f32) { return y = c(x) }
"""
    (tmp_path / "p.pipe").write_text(text)
    found = lowered(text, tmp_path).diagnostics
    assert [f"{one.code} {one.primary.span}" for one in found] == [
        "HR108 p.pipe:2:1",  # a module that nothing uses
        "HR111 p.pipe:4:45",  # a circle of two pipelines
        "HR101 p.pipe:4:52",
        "HR111 p.pipe:5:45",  # and of one
        "HR112 other.pipe:1:5",  # a circle of files
    ]


def test_b08_every_mistake_of_a_graph_is_reported_in_one_run() -> None:
    assert found_in("""
model join = onnx "join.onnx" (a: f32[3], b: f32[3]) -> (y: f32[3])
fn f(x: f32[3]) -> (y: f32[3]) { return y = g(x) }
fn g(x: f32[3]) -> (y: f32[3]) { return y = f(x) }

pipeline p(x: f32[3]) -> (y: f32[3]) {
    a = missing + 1
    b = x * 2
    b = x * 3
    c = join(b)
    d = x - 1
    return y = f(c)
}
""") == [
        "HR111 4:45",  # a circle
        "HR101 7:9",  # used but never made
        "HR105 9:5",  # made twice
        "HR208 10:9",  # an input that nothing is given to
        "HR109 11:5",  # an output that nothing uses
    ]


def test_the_help_for_a_model_given_raw_pixels_is_the_code_that_mends_it() -> None:
    (found,) = lowered("""
use image as img
model read = onnx "rec.onnx" (x: f32[3, 48, W], n: i64) -> (p: f32[T, 9])
pipeline p(photo: u8[H, W, 3], quad: f32[4, 2]) -> (p: f32[T, 9]) {
    crop = img.warp(photo, quad, height = 48)
    return p = read(crop, n = 3)
}
""").diagnostics
    assert found.code == "HR203"
    assert found.help == (
        "normalise and transpose first: `read(img.to_chw(img.normalize(crop)), n = 3)`"
    )


@pytest.mark.parametrize(
    ("expression", "help"),
    [
        ("imge.rotate180(photo)", "did you mean `image`?"),
        ("image.rotat180(photo)", "did you mean `rotate180`?"),
        ("rotate180(photo)", "did you mean `image.rotate180`?"),
        ("nn.relu(photo)", "add `use nn` at the top"),
        ("turned(phto)", "did you mean `photo`?"),
        ("turnd(photo)", "did you mean `turned`?"),
        ("turned(photo, by = 2)", None),
        ("turned(photo, tmes = 2)", "did you mean `times`?"),
        ("np.mean(photo)", "did you mean `mean`?"),
        ("torch.softmax(photo)", "did you mean `nn.softmax`?"),
        ("photo.mean()", "ops are no methods: `mean(photo)`"),
        ("photo.rotate180()", "ops are no methods: `image.rotate180(photo)`"),
        ("photo.turn()", None),
        ("image.rotate180", "call it: `image.rotate180(...)`"),
        ("turned", "call it: `turned(...)`"),
    ],
)
def test_a_name_that_is_nearly_right_is_named(expression: str, help: str | None) -> None:
    found = lowered(f"""
use image
fn turned(x: u8[H, W, 3], times: i64 = 1) -> (y: u8[H, W, 3]) {{
    return y = if times > 0 {{ image.rotate180(x) }} else {{ x }}
}}
pipeline p(photo: u8[H, W, 3]) -> (y: u8[H, W, 3]) {{ return y = {expression} }}
""").diagnostics
    errors = [one for one in found if one.severity is Severity.ERROR]
    assert [one.help for one in errors] == [help]


def test_warnings_leave_the_graph_usable() -> None:
    result = lowered("""
use nn
use image
pipeline p(x: f32[3]) -> (y: f32[3]) {
    unused = x * 2
    y = if sum(x) > 0 {
        x = nn.relu(unused)
        x
    } else { x }
    return y = y
}
""")
    assert [one.code for one in result.diagnostics] == ["HR108", "HR110"]
    assert {one.severity for one in result.diagnostics} == {Severity.WARNING}
    assert len(result.graphs) == 1


def test_two_pipelines_report_their_own_mistakes() -> None:
    assert found_in("""
pipeline a(x: f32) -> (y: f32) { return y = no }
pipeline b(x: f32) -> (y: f32) { return y = nil }
""") == ["HR101 2:45", "HR101 3:45"]


@pytest.mark.slow
def test_checking_takes_time_in_proportion() -> None:
    def checking(stages: int) -> Callable[[], object]:
        lines = ["use nn", 'model m = onnx "m.onnx" (x: f32[N, 4]) -> (y: f32[N, 4])']
        lines += ["pipeline p(x: f32[N, 4]) -> (y: f32[N, 4]) {", "v0 = x"]
        forms = ("m(v{i})", "v{i} * 2 + 1", "nn.relu(v{i})")
        lines += [f"v{i + 1} = {forms[i % 3].format(i=i)}" for i in range(stages)]
        source = Source("p.pipe", "\n".join([*lines, f"return y = v{stages}", "}"]))
        assert check(source) == ()
        return partial(check, source)

    assert times_as_long(checking(1000), checking(125)) < 24


@pytest.mark.slow
def test_functions_that_call_each_other_twice_over_end_with_a_mistake() -> None:
    lines = ["fn g0(x: f32) -> (y: f32) { return y = x + 1 }"]
    lines += [
        f"fn g{i}(x: f32) -> (y: f32) {{ return y = g{i - 1}(g{i - 1}(x)) }}" for i in range(1, 40)
    ]
    lines += ["pipeline p(x: f32) -> (y: f32) { return y = g39(x) }"]
    found = lowered("\n".join(lines)).diagnostics
    assert [one.code for one in found] == ["HR323"]


# ---- the OCR example, broken in ten ways

EXAMPLE = Path(__file__).parents[2] / "examples" / "ocr" / "ocr.pipe"
BROKEN = sorted((Path(__file__).parent / "broken").glob("*.pipe"))


@pytest.mark.parametrize("path", BROKEN, ids=[path.stem for path in BROKEN])
def test_a_broken_variant_of_the_example_gives_the_code_at_its_place(path: Path) -> None:
    """The first line of each file is `# HRnnn line:column, what is wrong`, in order."""
    first, _, _ = path.read_text("utf-8").partition("\n")
    expected = first.removeprefix("# ").partition(",")[0]
    found = check(Source(path.name, path.read_text("utf-8"), path))
    assert [f"{one.code} {one.primary.span.line}:{one.primary.span.column}" for one in found] == [
        expected
    ]


def test_there_are_ten_broken_variants() -> None:
    assert len(BROKEN) >= 10


def test_the_example_itself_has_no_mistakes() -> None:
    assert render(check(Source("ocr.pipe", EXAMPLE.read_text("utf-8"), EXAMPLE))) == ""


@pytest.mark.parametrize(
    ("written", "note", "help"),
    [
        ("n and b", "`n` should be bool", "a number is no bool: write `n != 0`"),
        ("b or x[0]", "this should be bool", "a number is no bool: write `x[0] != 0`"),
        ("b or n + 1", "this should be bool", "a number is no bool: compare it, as with `!= 0`"),
    ],
)
def test_a_number_beside_and_and_or_is_what_is_wrong(written: str, note: str, help: str) -> None:
    (found,) = lowered(
        f"pipeline p(n: i64, b: bool, x: f32[2]) -> (y: bool) {{ return y = {written} }}"
    ).diagnostics
    assert (found.code, found.notes, found.help) == ("HR226", (note,), help)
