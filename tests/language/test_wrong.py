"""Wrong programs: each mistake is said once, in words that make the cure plain."""

import pytest

from headrace.compiler import check, compile_source
from headrace.dsl.diagnostic import CompileError, Severity
from tests.language.programs import source


def said(text: str) -> list[tuple[str, str]]:
    """Return code and message of each mistake in a program."""
    try:
        found = check(source(text))
    except CompileError as error:
        found = error.diagnostics
    return [(one.code, one.message) for one in found if one.severity is Severity.ERROR]


@pytest.mark.parametrize("dim", ["N / 0", "N % 0", "4 / (2 - 2)", "N + N / 0"])
def test_no_dimension_is_divided_by_zero(dim: str) -> None:
    text = f"pipeline p(x: f32[{dim}], n: f32[N]) -> (y: f32[N]) {{ return y = n }}\n"
    assert said(text) == [("HR228", "a dimension is divided by zero")]


def test_no_constraint_divides_by_zero() -> None:
    text = """
model m = onnx "m.onnx" (x: f32[N]) -> (y: f32[N]) where N % 0 == 0
pipeline p(x: f32[N]) -> (y: f32[N]) { return y = m(x) }
"""
    assert said(text) == [("HR228", "a dimension is divided by zero")]


def test_dimensions_are_shown_as_they_are_written() -> None:
    text = """
model m = onnx "m.onnx" (x: f32[2 * N + 1, (N - 1) * 2, N - (N - 1)]) -> (y: f32[N])
pipeline p(x: f32[4, 3, 2]) -> (y: f32[N]) { return y = m(x) }
"""
    ((_, message),) = said(text)
    assert "f32[2 * N + 1, (N - 1) * 2, N - (N - 1)]" in message


def test_a_bracket_too_many_is_said_once() -> None:
    assert said("pipeline p(x: f32]) -> (y: f32) { return y = x }\n") == [
        ("HR008", "`]` closes nothing")
    ]
    assert said("pipeline p(x: f32[3) -> (y: f32) { return y = sum(x) }\n")[0][0] == "HR007"


def test_a_name_too_many_of_a_for_causes_no_other_mistake() -> None:
    text = """
pipeline p(xs: f32[N]) -> (y: f32[N]) {
    y = for i, x in xs { yield x + i }
    return y = y
}
"""
    assert said(text) == [("HR210", "2 names for 1 list")]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("if x > 1 { return y = x }", "HR320"),
        ("if x > 1 { return y = x } else { }", "HR320"),
        ("match x > 1 { true => { next x = 1 }, false => { } }", "HR334"),
        ("loop (i: i64 = 0) max 3 { next i = i + 1 }", "HR020"),
        ("if x > 1 { x } else { x }", "HR020"),
        ("_ = for i in range(3) { emit y = x }", "HR336"),
        ("_ = loop (i: i64 = 0) max 3 { next j = i }", "HR331"),
    ],
)
def test_what_stands_in_the_wrong_block_is_said_once(line: str, code: str) -> None:
    text = f"pipeline p(x: f32) -> (y: f32) {{\n    {line}\n    return y = x\n}}\n"
    assert [found for found, _ in said(text)] == [code]


@pytest.mark.parametrize(
    "expr",
    [
        "if c { x } else { cast(x, f64) }",
        "if c { cast(x, i64) } else { x }",
        "match c { true => x > 0, false => x }",
        "try x else cast(x, f16)",
        "if c { [x] } else { [cast(x, i32)] }",
    ],
)
def test_arms_of_different_dtypes_are_a_mistake(expr: str) -> None:
    text = f"pipeline p(x: f32, c: bool) -> (y: f32) {{\n    _ = {expr}\n    return y = x\n}}\n"
    assert [code for code, _ in said(text)] == ["HR205"]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("return x, x", "HR211 HR211"),  # one for each that has no name
        ("return z = x", "HR212"),
        ('y = "a }', "HR003"),
        ("y = x /* why */", "HR001"),
    ],
)
def test_one_mistake_is_said_once(line: str, code: str) -> None:
    end = "" if "}" in line else "\n}"
    text = f"pipeline p(x: f32) -> (y: f32) {{ {line}{end}\n"
    assert " ".join(found for found, _ in said(text)) == code


@pytest.mark.parametrize(
    ("line", "help"),
    [
        ("if c { y = x } else { y = 2 }", "a name is given a value outside: `y = if ... { ... } "),
        ("for v in [x] { y = v }", "a name is given a value outside: `y = for ... { yield ... }`"),
        ("y = f32(x)", "write `cast(x, f32)`"),
        ("y = N", "`N` is a size: take it from a value that has it, as in `len(x)`"),
        ("y = int(x)", "write `cast(x, i64)`"),
    ],
)
def test_what_a_newcomer_writes_is_told_how_it_is_written_here(line: str, help: str) -> None:
    text = f"pipeline p(x: f32, c: bool, l: f32[N]) -> (y: f32) {{\n {line}\n return y = x\n}}\n"
    try:
        found = check(source(text))
    except CompileError as error:
        found = error.diagnostics
    (mistake,) = (one for one in found if one.severity is Severity.ERROR)
    assert str(mistake.help).startswith(help)


def test_a_model_file_that_is_missing_hides_no_mistake_in_calls_of_it() -> None:
    text = """
model det = onnx "nowhere.onnx" (x: f32[3], scale: f32) -> (y: f32[N, 4])
pipeline p(x: f32[3]) -> (y: f32[N, 4]) {
    a = det(x)
    b = missing + 1
    c = det(x, 1.0)
    c = det(x, 2.0)
    _ = det(x, scale = 1.0, zoom = 2)
    unused = x * 2
    return y = c
}
"""
    with pytest.raises(CompileError) as found:
        compile_source(source(text))
    codes = [one.code for one in found.value.diagnostics]
    assert codes == ["HR301", "HR208", "HR101", "HR105", "HR107"]


@pytest.mark.parametrize("expr", ["-o", "o + x", "o[0]", "for v in o { yield v }", "f(o)"])
def test_of_what_may_be_absent_it_is_said_what_can_be_done(expr: str) -> None:
    text = f"""
fn f(x: f32) -> (y: f32) {{ x }}
pipeline p(x: f32, o: f32?) -> (y: f32) {{
    _ = {expr}
    return y = x
}}
"""
    (found,) = (one for one in check(source(text)) if one.severity is Severity.ERROR)
    assert (found.code, str(found.help)[:28]) == ("HR223", "give the input a default whe")
