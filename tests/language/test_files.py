"""What files hold, in whatever order, and what they use of each other."""

from pathlib import Path

from tests.language.programs import answers, mistakes, source


def test_constants_may_stand_before_those_that_they_are_made_of() -> None:
    text = """
pipeline p(x: f32) -> (y: f32) { return y = x + third }
const third: f32 = second[1] * first
const second: f32[2] = [first, first + 1]
const first: f32 = 2
"""
    (((found,),)) = answers(source(text), {"x": 1})
    assert found["y"] == 7


def test_no_constant_is_made_of_itself_or_of_what_runs() -> None:
    text = """
const a: f32 = b + 1
const b: f32 = a
const c: f32 = c
const d: f32 = f(2.0)
const e: f32 = b
fn f(x: f32) -> (y: f32) { x }
pipeline p(x: f32) -> (y: f32) { return y = f(x) + a + c + d }
"""
    assert [(one.code, one.message) for one in mistakes(text)] == [
        ("HR111", "the constant `a` is made of itself"),
        ("HR111", "the constant `c` is made of itself"),
        ("HR219", "`f` runs when the pipeline does"),
    ]


def test_a_type_of_another_file_is_meant_by_its_whole_name(tmp_path: Path) -> None:
    (tmp_path / "common.pipe").write_text("type Row = f32[2]\n", "utf-8")
    text = """
use "common.pipe" as common
pipeline p(x: common.Rwo) -> (y: f32) { return y = sum(x) }
"""
    (found,) = mistakes(text, tmp_path)
    assert (found.code, found.help) == ("HR104", "did you mean `common.Row`?")


def test_a_constant_is_not_the_type_of_itself() -> None:
    text = """
const a: a[2] = [1, 2]
pipeline p(x: f32[2]) -> (y: f32[2]) { return y = x * a }
"""
    assert [one.code for one in mistakes(text)] == ["HR104"]
