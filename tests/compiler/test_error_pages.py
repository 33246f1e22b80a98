"""Error pages of the checker: each example gives what its page shows, and help can be pasted."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import headrace.compiler
from headrace.compiler import check
from headrace.dsl import ast
from headrace.dsl.diagnostic import CompileError, Diagnostic, Severity
from headrace.dsl.pages import codes, page
from headrace.dsl.parse import parse
from headrace.dsl.render import render
from headrace.dsl.source import Source

CHECKED = [code for code in codes() if code[2] in "123"]
WITHOUT_EXAMPLE = {
    "HR112",  # takes two files
    "HR310",  # takes a Python file with a mistake
    "HR323",  # takes seconds
    "HR326",  # takes a Python file
    "HR339",  # of compiling, not of checking
}


def check_text(text: str, folder: Path) -> tuple[Diagnostic, ...]:
    return check(Source("example.pipe", text, folder / "example.pipe"))


@pytest.mark.parametrize("code", CHECKED)
def test_the_wrong_program_gives_what_the_page_shows_and_the_right_one_passes(
    code: str, tmp_path: Path
) -> None:
    example = page(code).example
    if example is None:
        assert code in WITHOUT_EXAMPLE
        return
    found = check_text(example.wrong, tmp_path)
    assert render(found) == example.expected
    assert {diagnostic.code for diagnostic in found} == {code}
    assert render(check_text(example.right, tmp_path)) == ""


def test_every_code_of_the_checker_has_a_page_and_every_page_a_code() -> None:
    folder = Path(str(headrace.compiler.__file__)).parent
    files = [*(folder / "lower").glob("*.py"), *folder.glob("*.py")]
    used: set[str] = set()
    for file in files:
        used |= set(re.findall(r'"(HR[123]\d\d)"', file.read_text("utf-8")))
    assert sorted(used) == CHECKED
    assert len(CHECKED) >= 30


# ---- help that is code takes the place of something at the mistake


def pasted(help: str) -> str | None:
    """Return the code in a help that stands for itself, None for words and for patterns."""
    found = re.search(r"(?:did you mean|write|first|it|them|mean):? `([^`]+)`\??$", help)
    code = found[1] if found else None
    return None if code is None or "..." in code else code


def nodes_around(node: object, start: int, end: int) -> list[ast.Node]:
    """Return the nodes of a tree whose text holds that from `start` to `end`, innermost first."""
    if isinstance(node, tuple):
        return [found for part in node for found in nodes_around(part, start, end)]
    if not isinstance(node, ast.Node):
        return []
    inner = [
        found
        for one in fields(node)
        if one.name != "span"
        for found in nodes_around(getattr(node, one.name), start, end)
    ]
    return [*inner, node] if node.span.start <= start and end <= node.span.end else inner


def mended(text: str, diagnostic: Diagnostic, code: str) -> list[str]:
    """Return the program with the help in place of the mistake, and of what is around it."""
    span = diagnostic.primary.span
    module = parse(Source("example.pipe", text))
    places = {(span.start, span.end): None}
    places |= {(n.span.start, n.span.end): None for n in nodes_around(module, span.start, span.end)}
    return [text[:start] + code + text[end:] for start, end in places]


def passes(text: str, folder: Path) -> bool:
    try:
        found = check_text(text, folder)
    except CompileError:
        return False
    return not any(one.severity is Severity.ERROR for one in found)


HELPED = [
    (code, diagnostic, example.wrong)
    for code in CHECKED
    if (example := page(code).example) is not None
    for diagnostic in check(Source("example.pipe", example.wrong, Path("/nowhere/example.pipe")))
    if diagnostic.help is not None and pasted(diagnostic.help) is not None
]


@pytest.mark.parametrize(("code", "diagnostic", "wrong"), HELPED, ids=[one[0] for one in HELPED])
def test_help_that_is_code_mends_the_program(
    code: str, diagnostic: Diagnostic, wrong: str, tmp_path: Path
) -> None:
    help = pasted(diagnostic.help or "")
    assert help is not None
    assert any(passes(text, tmp_path) for text in mended(wrong, diagnostic, help)), code


def test_many_pages_have_help_that_is_code() -> None:
    assert len(HELPED) >= 15
