"""Diagnostics as text, to the letter."""

import json

from headrace.dsl.diagnostic import Diagnostic, Label, Severity
from headrace.dsl.render import render
from headrace.dsl.source import Source, Span

TEXT = """\
pipeline ocr(photo: bytes) -> (text: string) {
    crop = image.warp(photo)
    t = read(crop)
\tq = "日本" + crop
    big = for b in crop {
        yield c = b
    }
    return text = t
}
"""
OCR = Source("ocr.pipe", TEXT)


def place(text: str, after: str = "", source: Source = OCR) -> Span:
    start = source.text.index(text, source.text.index(after))
    return Span(source, start, start + len(text))


WANTS = Diagnostic(
    "HR203",
    "`read` wants f32[3, 48, W], but `crop` is u8[48, W, 3]",
    Label(place("crop", "read("), "expected f32[3, 48, W], found u8[48, W, 3]"),
    (Label(place("crop"), "`crop` is made here"),),
    ("shapes are those of one item",),
    "transpose first: `image.to_chw(crop)`",
)


def test_the_full_form_shows_places_in_the_order_of_the_file() -> None:
    assert render([WANTS]) == (
        "error[HR203]: `read` wants f32[3, 48, W], but `crop` is u8[48, W, 3]\n"
        "--> ocr.pipe:3:14\n"
        "  |\n"
        "2 |     crop = image.warp(photo)\n"
        "  |     ---- `crop` is made here\n"
        "3 |     t = read(crop)\n"
        "  |              ^^^^ expected f32[3, 48, W], found u8[48, W, 3]\n"
        "  = note: shapes are those of one item\n"
        "help: transpose first: `image.to_chw(crop)`\n"
    )


def test_tabs_and_wide_characters_keep_marks_under_what_they_mark() -> None:
    diagnostic = Diagnostic("HR101", "unknown", Label(place("crop", "本"), "this"))
    _, _, _, line, mark = render([diagnostic]).splitlines()
    assert line == '4 |     q = "日本" + crop'
    assert mark == "  |                  ^^^^ this"  # the two wide characters take two cells each


def test_a_construct_of_several_lines_is_marked_on_each() -> None:
    span = place("for b in crop {\n        yield c = b\n    }")
    assert render([Diagnostic("HR101", "long", Label(span, "all this"))]) == (
        "error[HR101]: long\n"
        "--> ocr.pipe:5:11\n"
        "  |\n"
        "5 |     big = for b in crop {\n"
        "  |           ^^^^^^^^^^^^^^^\n"
        "6 |         yield c = b\n"
        "  |         ^^^^^^^^^^^\n"
        "7 |     }\n"
        "  |     ^ all this\n"
    )


def test_lines_between_far_places_are_left_out_and_numbers_line_up() -> None:
    text = "".join(f"line {n}\n" for n in range(1, 12))
    source = Source("long.pipe", text)
    first, last = place("line 2", source=source), place("line 11", source=source)
    diagnostic = Diagnostic("HR101", "far", Label(last, "b"), (Label(first, "a"),))
    assert render([diagnostic]) == (
        "error[HR101]: far\n"
        " --> long.pipe:11:1\n"
        "   |\n"
        " 2 | line 2\n"
        "   | ------ a\n"
        "...\n"
        "11 | line 11\n"
        "   | ^^^^^^^ b\n"
    )


def test_places_in_another_file_get_a_part_of_their_own() -> None:
    common = Source("common.pipe", "type Quad = f32[4, 2]\n")
    diagnostic = Diagnostic(
        "HR101",
        "two files",
        Label(place("t = read"), "here"),
        (Label(place("Quad", source=common), "there"),),
        severity=Severity.WARNING,
    )
    assert render([diagnostic]) == (
        "warning[HR101]: two files\n"
        "--> ocr.pipe:3:5\n"
        "  |\n"
        "3 |     t = read(crop)\n"
        "  |     ^^^^^^^^ here\n"
        "::: common.pipe:1:6\n"
        "  |\n"
        "1 | type Quad = f32[4, 2]\n"
        "  |      ---- there\n"
    )


def test_of_a_very_long_line_the_part_around_the_mark_is_shown() -> None:
    source = Source("long.pipe", f"{'x' * 5000} here {'y' * 5000}")
    diagnostic = Diagnostic("HR101", "long", Label(place("here", source=source), "this"))
    _, arrow, _, line, mark = render([diagnostic]).splitlines()
    assert arrow == "--> long.pipe:1:5002"
    assert line == f"1 | ...{'x' * 49} here {'y' * 145}..."
    assert mark == f"  | {' ' * 53}^^^^ this"
    wide = Diagnostic("HR101", "all", Label(Span(source, 0, 10_000)))
    assert max(map(len, render([wide]).splitlines())) < 220


def test_an_end_of_a_file_can_be_marked() -> None:
    for text in ("", "use image", "use image\n"):
        source = Source("end.pipe", text)
        span = Span(source, len(text), len(text))
        assert "^ here" in render([Diagnostic("HR029", "end", Label(span, "here"))])


def test_invisible_characters_are_shown() -> None:
    source = Source("odd.pipe", "a\x00b\u202ec")
    full = render([Diagnostic("HR002", "odd", Label(Span(source, 1, 2)))])
    assert "\x00" not in full
    assert "\u202e" not in full


def test_colour_is_asked_for() -> None:
    assert "\x1b" not in render([WANTS])
    coloured = render([WANTS], colour=True)
    assert coloured.startswith("\x1b[1;31merror[HR203]\x1b[0m")


def test_the_short_form_is_one_line_a_mistake() -> None:
    assert render([WANTS, WANTS], "short") == 2 * (
        "ocr.pipe:3:14: HR203 `read` wants f32[3, 48, W], but `crop` is u8[48, W, 3]\n"
    )


def test_the_json_form_holds_everything() -> None:
    (found,) = json.loads(render([WANTS], "json"))
    assert found["code"] == "HR203"
    assert found["primary"] == {
        "file": "ocr.pipe",
        "line": 3,
        "column": 14,
        "end_line": 3,
        "end_column": 18,
        "text": "expected f32[3, 48, W], found u8[48, W, 3]",
    }
    assert [label["line"] for label in found["secondary"]] == [2]
    assert found["notes"]
    assert found["help"]
