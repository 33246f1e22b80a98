"""Error pages: each has the layout, and those of syntax errors say what happens."""

import re
from pathlib import Path

import pytest

import headrace.dsl
from headrace.dsl.diagnostic import CompileError
from headrace.dsl.format import format_module
from headrace.dsl.pages import codes, page
from headrace.dsl.parse import parse
from headrace.dsl.render import render
from headrace.dsl.source import Source

SYNTAX = [code for code in codes() if code.startswith("HR0")]


@pytest.mark.parametrize("code", codes())
def test_a_page_has_the_layout(code: str) -> None:
    assert page(code).title
    assert not page(code).title.endswith(".")


@pytest.mark.parametrize("code", SYNTAX)
def test_the_wrong_program_gives_what_the_page_shows_and_the_right_one_parses(code: str) -> None:
    example = page(code).example
    if example is None:
        assert code == "HR023", "only a file that is not text cannot be shown in a page"
        return
    with pytest.raises(CompileError) as caught:
        parse(Source("example.pipe", example.wrong))
    assert render(caught.value.diagnostics) == example.expected
    assert {diagnostic.code for diagnostic in caught.value.diagnostics} == {code}
    right = parse(Source("example.pipe", example.right))
    assert format_module(right) == example.right


def test_every_code_of_a_syntax_error_has_a_page_and_every_page_a_code() -> None:
    folder = Path(str(headrace.dsl.__file__)).parent
    used: set[str] = set()
    for name in ("lexical_errors.py", "syntax_errors.py", "syntax_rules.py", "read.py"):
        text = (folder / name).read_text("utf-8")
        used |= set(re.findall(r'"(HR\d{3})"', text))
        numbers = re.findall(r"_error\(\s*at,\s*(\d+)", text)
        used |= {f"HR{int(number):03}" for number in numbers}
    assert sorted(used) == SYNTAX
