"""The pages of schedules, plans and devices: their examples are run."""

import pytest

from headrace.compiler import check
from headrace.dsl.pages import Example, codes, page
from headrace.dsl.render import render
from headrace.dsl.source import Source

CODES = [code for code in codes() if code.startswith("HR4")]
SHOWN = [code for code in CODES if page(code).example is not None]


def example_of(code: str) -> Example:
    example = page(code).example
    assert example is not None
    return example


def test_every_code_that_is_given_has_a_page() -> None:
    assert {f"HR{number}" for number in range(401, 426)} <= set(CODES)


@pytest.mark.parametrize("code", SHOWN)
def test_the_wrong_example_of_a_page_gives_what_the_page_shows(code: str) -> None:
    example = example_of(code)
    found = check(Source("example.pipe", example.wrong))
    assert [diagnostic.code for diagnostic in found] == [code]
    assert render(found) == example.expected


@pytest.mark.parametrize("code", SHOWN)
def test_the_right_example_of_a_page_has_no_mistake(code: str) -> None:
    assert check(Source("example.pipe", example_of(code).right)) == ()
