"""Syntax errors: the code, the place and the words for each kind of mistake.

Places are columns, of a statement counted from its start.
"""

import pytest

from headrace.dsl.diagnostic import CompileError, Diagnostic
from headrace.dsl.parse import parse
from headrace.dsl.source import Source

ITEMS = [
    ('model = onnx "a"', "HR025", 7, "a name is missing"),
    ("model m = onnx", "HR028", 15, "a string is missing"),
    ('model m onnx "a"', "HR028", 9, "`=` is missing"),
    ('mdoel m = onnx "a"', "HR010", 1, "`mdoel` does not start an item"),
    ("def f(x: f32) -> (y: f32) { x }", "HR010", 1, "`def` does not start an item"),
    ("a = f(3)", "HR011", 1, "a statement outside a pipeline"),
    ("pipeline p(x: f32) { x }", "HR016", 20, "`->` and the results are missing"),
    ("pipeline p(x: f32) -> f32 { x }", "HR027", 23, "results have names and stand in brackets"),
    ("pipeline p(x: f32) -> (y: f32)", "HR015", 31, "`{` is missing"),
    (
        "pipeline p(x: f32) -> (y: f32) dedline 2s { x }",
        "HR026",
        32,
        "`dedline` means nothing here",
    ),
    ("pipeline p(x: f32) -> (y: f32) deadline 2 { x }", "HR028", 41, "a duration is missing"),
    ("pipeline p(x: f32) -> (y: f32) idle 3s { x }", "HR028", 32, "this `idle` belongs to nothing"),
    ("pipeline p(x) -> (y: f32) { x }", "HR024", 12, "`x` has no type"),
    ("pipeline p(x: ) -> (y: f32) { x }", "HR024", 15, "a type is missing"),
    ("pipeline p(x: [f32]) -> (y: f32) { x }", "HR024", 15, "a type is missing"),
    ("pipeline (x: f32) -> (y: f32) { x }", "HR025", 10, "a name is missing"),
    ("fn f(x: f32) -> (y: f32)", "HR015", 25, "`{` is missing"),
    ('fn f(x: f32) -> (y: f32) = rust "a"', "HR029", 28, "`rust` makes no sense here"),
    (
        "fn list(x: f32) -> (y: f32) { x }",
        "HR012",
        4,
        "`list` is a word of the language and cannot be a name",
    ),
    ("use image use text", "HR013", 11, "a second item on one line"),
    ('use "a.pipe"', "HR028", 13, "`as` is missing"),
    ("type A == f32", "HR018", 8, "`==` compares; a value is given with one `=`"),
    ("type A f32", "HR028", 8, "`=` is missing"),
    ("type A =", "HR024", 9, "a type is missing"),
    ("const a = 3", "HR024", 7, "`a` has no type"),
    ("schedule p on server { }", "HR028", 15, "a string is missing"),
    (
        "schedule p { a { max = 3 wait = 2 } }",
        "HR014",
        25,
        "a comma is missing between `3` and `wait`",
    ),
    ("schedule p { a { max } }", "HR019", 22, "a setting has a value"),
    ("test foo for p { }", "HR028", 6, "a string is missing"),
    ('test "foo" p { }', "HR028", 12, "`for` is missing"),
    ('test "foo" for p { giben x = 3 }', "HR026", 20, "`giben` means nothing here"),
    (
        'model m = onnx "a" (x: f32[H H]) -> (y: f32)',
        "HR014",
        29,
        "a comma is missing between `H` and `H`",
    ),
    ('model m = onnx "a" (x: f32[-1]) -> (y: f32)', "HR025", 28, "a dimension is missing"),
    (
        'test "t" for p { given a = 1, b = 2 }',
        *("HR013", 29, "a second statement behind a comma"),
    ),
    ('model m = onnx "a" batch 3', "HR029", 26, "`3` makes no sense here"),
    ("}", "HR008", 1, "`}` closes nothing"),
    (",", "HR010", 1, "`,` does not start an item"),
    ("= 3", "HR010", 1, "`=` does not start an item"),
    ("const a: i64 = 99999999999999999999999", "HR005", 16, "this integer does not fit in 64 bits"),
    ("const a: f32 = 1e999", "HR005", 16, "`1e999` is larger than any f64"),
    ("const a: f32 = 0x", "HR005", 16, "`0x` is not a number"),
    ("const a: f32 = 12abc", "HR006", 16, "there is no unit `abc`"),
    ("const a: f32 = 3sec", "HR006", 16, "there is no unit `sec`"),
    ("const a: f32 = 3MB", "HR006", 16, "there is no unit `MB`"),
    ('const a: string = "\\q \\u{110000}"', "HR004", 20, "`\\q` has no meaning in a string"),
    ('const a: string = "abc', "HR003", 19, "this string is never closed"),
    ("const a: f32 = 3 – 4", "HR001", 18, "`–` (en dash) is not `-`"),
    ("const а: f32 = 3", "HR001", 7, "`а` (cyrillic small letter a) is not `a`"),
    (
        "const größe: f32 = 3",
        "HR001",
        9,
        "`ö` (latin small letter o with diaeresis) is not part of the language",
    ),
    (
        "pipeline p(x: f32) -> (y: f32) deadline 2s deadline 3s { x }",
        "HR022",
        44,
        "`deadline` is given twice",
    ),
    ("const a: f32 = .5", "HR005", 16, "a number starts with a digit"),
    ("const a: f32 = 5.", "HR005", 18, "a number ends with a digit"),
    ("const a: f32 = -", "HR019", 17, "a value is missing"),
]
STATEMENTS = [
    ("a b", "HR013", 3, "a second statement on one line"),
    ("a = 1 b = 2", "HR013", 7, "a second statement on one line"),
    ("a = 1, b = 2", "HR013", 6, "a second statement behind a comma"),
    ("a = f(b c)", "HR014", 8, "a comma is missing between `b` and `c`"),
    ("if a = b { c } else { d }", "HR017", 6, "`=` gives a name a value, `==` compares"),
    ("f(x) = 3", "HR018", 6, "only a name can be given a value"),
    ("x: f32 = 3", "HR018", 2, "`:` is for types; a value is given with `=`"),
    ("return y: x", "HR018", 9, "`:` is for types; a value is given with `=`"),
    ("y = f(x, n: 3)", "HR018", 11, "`:` is for types; a value is given with `=`"),
    ("a, b == f(x)", "HR018", 6, "`==` compares; a value is given with one `=`"),
    ("a = 0 < x < 1", "HR021", 11, "comparisons do not chain"),
    ("else { 3 }", "HR028", 1, "this `else` belongs to nothing"),
    ("a = return x", "HR028", 5, "`return` starts a statement and gives no value"),
    ("next = 3", "HR012", 1, "`next` is a word of the language and cannot be a name"),
    ("a = f(type = 3)", "HR012", 7, "`type` is a word of the language and cannot be a name"),
    ("a = f(test)", "HR012", 7, "`test` is a word of the language and cannot be a name"),
    ("type = 3", "HR012", 1, "`type` is a word of the language and cannot be a name"),
    ("let a = 3", "HR026", 1, "`let` is not a word of the language"),
    ("if a { b } elif c { d }", "HR026", 12, "`elif` is not a word of the language"),
    ("retrun x = a", "HR026", 1, "`retrun` is not a word of the language"),
    ("a = if b c", "HR015", 10, "`{` is missing"),
    ("for b in box: c", "HR015", 13, "`{` is missing"),
    ("for x xs { y }", "HR028", 7, "`in` is missing"),
    ("a = ", "HR019", 4, "a value is missing"),
    ("a = f(, b)", "HR019", 7, "a value is missing"),
    ("a = f(b,, c)", "HR019", 9, "a value is missing"),
    ("return", "HR019", 7, "a value is missing"),
    ("yield", "HR019", 6, "a value is missing"),
    ("a = b.", "HR025", 7, "a name is missing"),
    ("a = x[]", "HR019", 7, "a value is missing"),
    ("a = x[1 2]", "HR014", 8, "a comma is missing between `1` and `2`"),
    ("loop (n: i32 = 0) { a }", "HR028", 19, "`max` is missing"),
    ("loop (n = 0) max 3 { a }", "HR024", 7, "`n` has no type"),
    ("stop", "HR028", 5, "`when` is missing"),
    ("a = (1, 2)", "HR028", 7, "`)` is missing"),
    ("a = try b", "HR029", 10, "the line ends too early"),
    ("try b within 3s else", "HR019", 21, "a value is missing"),
    ('m = match x { "a" => b "c" => d }', "HR014", 23, 'a comma is missing between `b` and `"c"`'),
    ('m = match x { "a" : b }', "HR029", 19, "`:` makes no sense here"),
    ("m = match x { a => b }", "HR029", 15, "`a` makes no sense here"),
    ("a = {b}", "HR019", 5, "a value is missing"),
    ("a && b", "HR001", 3, "`&&` is not part of the language"),
    ("a = !b", "HR001", 5, "`!` is not part of the language"),
    ("a += 3", "HR001", 3, "`+=` is not part of the language"),
    ("a = b ? c : d", "HR029", 7, "`?` makes no sense here"),
    ("a = _", "HR019", 5, "a value is missing"),
    ("state h = zeros", "HR024", 7, "`h` has no type"),
    ('a = "abc', "HR003", 5, "this string is never closed"),
    ('a = f("abc, b)', "HR003", 7, "this string is never closed"),
    ("3 4", "HR013", 3, "a second statement on one line"),
    ("a = b c = d", "HR013", 7, "a second statement on one line"),
    ("a = not", "HR019", 8, "a value is missing"),
    ("while x { y }", "HR026", 1, "`while` is not a word of the language"),
    ("x[0] = 3", "HR018", 6, "only a name can be given a value"),
    ("return x = 3 if y", "HR028", 14, "a condition at the end of a line follows `when`"),
    ("a = f(x", "HR007", 6, "`(` is never closed"),
    ("for x in { y }", "HR019", 10, "a value is missing"),
    ("if { y }", "HR019", 4, "a value is missing"),
    ("a = f(x))", "HR008", 9, "`)` closes nothing"),
    ("a = [1, 2", "HR007", 5, "`[` is never closed"),
    ("a = x[1, 2)", "HR008", 11, "`)` does not close `[`"),
    ("a; b", "HR001", 2, "`;` is not part of the language"),
    ("a = f(x) // foo", "HR001", 10, "`//` is not part of the language"),
    ("a = 'x'", "HR003", 5, "strings are written in double quotes"),
    ("a == 3", "HR020", 1, "this value is not used"),
]


def only_mistake(text: str) -> Diagnostic:
    with pytest.raises(CompileError) as caught:
        parse(Source("a.pipe", text))
    (mistake,) = caught.value.diagnostics
    return mistake


@pytest.mark.parametrize(("text", "code", "column", "message"), ITEMS)
def test_a_mistake_in_an_item(text: str, code: str, column: int, message: str) -> None:
    mistake = only_mistake(text)
    assert (mistake.code, mistake.primary.span.column, mistake.message) == (code, column, message)


@pytest.mark.parametrize(("text", "code", "column", "message"), STATEMENTS)
def test_a_mistake_in_a_statement(text: str, code: str, column: int, message: str) -> None:
    mistake = only_mistake(f"pipeline p(x: f32) -> (y: f32) {{\n    {text}\n    z = 3\n}}\n")
    place = mistake.primary.span
    assert (mistake.code, place.line, place.column - 4, mistake.message) == (
        code,
        2,
        column,
        message,
    )


@pytest.mark.parametrize(
    ("text", "help"),
    [
        ('model m = onnx("a.onnx")', 'it stands there without brackets: `onnx "..."`'),
        ("model m = onnx a", "write it in double quotes"),
        (
            "type A = list[f32]",
            "a list is written `list<T>`, or `list<T, 100>` of at most so many",
        ),
    ],
)
def test_what_other_languages_write_comes_with_how_it_is_written_here(text: str, help: str) -> None:
    assert only_mistake(text).help == help


def test_a_block_that_is_not_closed_is_found_by_how_lines_are_indented():
    text = """
pipeline p(x: f32[N]) -> (y: f32[N]) {
    a = for v in x { yield v
    b = for v in x {
        yield v + 1.0
    }
    return y = a + b
}

pipeline q(x: f32) -> (y: f32) { return y = x }
"""
    with pytest.raises(CompileError) as caught:
        parse(Source("p.pipe", text))
    (found,) = caught.value.diagnostics
    assert (found.code, found.primary.span.line, found.primary.span.column) == ("HR007", 3, 20)
    assert found.secondary[0].span.line == 8
