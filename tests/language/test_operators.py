"""What operators give, on literals as on values, and which literals they refuse."""

import pytest

from headrace.dsl.diagnostic import CompileError
from tests.language.programs import answers, mistakes, source


@pytest.mark.parametrize(
    "expr", ["1 / 0", "n / 0", "n % (2 - 2)", "xs / [1, 0]", "xs[: 4 / 0]", "7 % -0", "n / none"]
)
def test_a_division_of_integers_by_a_written_zero_is_a_mistake(expr: str) -> None:
    text = f"""
const none: i64 = 0
pipeline p(n: i64, xs: i64[2]) -> (y: i64) {{
    y = {expr}
    return y = n
}}
"""
    assert [one.code for one in mistakes(text)] == ["HR231"]


def test_floating_point_is_divided_by_zero_as_everywhere() -> None:
    text = """
pipeline p(x: f32) -> (a: f32, b: f32, c: f32) {
    return a = x / 0, b = 1.0 / 0 * x, c = x / (2 - 2)
}
"""
    (((found,),)) = answers(source(text), {"x": 1})
    assert [str(value) for value in found.values()] == ["inf", "inf", "inf"]


def test_a_zero_that_a_function_is_given_fails_only_where_it_divides() -> None:
    text = """
fn share(n: i64, by: i64) -> (y: i64) { if by == 0 { 0 } else { n / by } }
pipeline p(n: i64) -> (a: i64, b: i64) { return a = share(n, 0), b = share(n, 2) }
"""
    (((found,),)) = answers(source(text), {"n": 9})
    assert {name: int(value) for name, value in found.items()} == {"a": 0, "b": 4}


@pytest.mark.parametrize(
    ("expr", "help"),
    [
        ("n + 1.5", "convert the other side: `cast(n, f32) + 1.5`"),
        ("2.5 > n", "convert the other side: `2.5 > cast(n, f32)`"),
        ("x * 1e39", "None"),
        ("cast(1e39, f32)", "None"),
        ("cast(300, u8)", "None"),
        ("18446744073709551615 + 1", "None"),
        ("1e308 * 10", "None"),
    ],
)
def test_a_number_that_does_not_fit_is_a_mistake(expr: str, help: str) -> None:
    text = f"pipeline p(n: i64, x: f32) -> (y: f32) {{\n    _ = {expr}\n    return y = x\n}}\n"
    (found,) = mistakes(text)
    assert (found.code, str(found.help)) == ("HR216", help)


def test_the_largest_numbers_are_what_they_are() -> None:
    text = """
pipeline p(n: u64) -> (a: u64, b: i64, c: bool, d: i64) {
    return a = cast(18446744073709551615, u64), b = -9223372036854775808,
        c = n == 18446744073709551615, d = cast(-1.5, i64)
}
"""
    (((found,),)) = answers(source(text), {"n": 2**64 - 1})
    assert {name: value.item() for name, value in found.items()} == {
        "a": 2**64 - 1,
        "b": -(2**63),
        "c": True,
        "d": -1,
    }


@pytest.mark.parametrize(
    ("expr", "code", "help"),
    [
        ("True", "HR101", "write `true`"),
        ("nan", "HR101", "write `0.0 / 0.0`"),
        ("ones(3)", "HR101", "write `full(shape, 1)`"),
        ("x.shape", "HR106", "it is an op: `shape(x)`"),
        ("x + []", "HR217", "None"),
        ("x if n > 1 else x", "HR013", "write `if c { a } else { b }`"),
    ],
)
def test_what_is_written_so_elsewhere_is_told_how_it_is_written_here(
    expr: str, code: str, help: str
) -> None:
    text = (
        f"pipeline p(n: i64, x: f32[3]) -> (y: f32[3]) {{\n    y = {expr}\n    return y = y\n}}\n"
    )
    try:
        (found,) = mistakes(text)
    except CompileError as error:
        (found,) = error.diagnostics
    assert (found.code, str(found.help)) == (code, help)
