"""What operators give, on literals as on values, and which literals they refuse."""

import pytest

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
