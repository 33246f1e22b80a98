"""What is found in each repository of the corpus, and that it is a tritonserver's verdict."""

from pathlib import Path

import pytest

from headrace.dsl.diagnostic import Diagnostic, Severity
from headrace.dsl.render import render
from headrace.triton.check import check, failing
from headrace.triton.repository import read
from tests.triton.corpus import CASES, Case

UNSERVED = "HR650"  # right, and a tritonserver has it; what headrace serves of it is another matter


def short(found: Diagnostic) -> str:
    span = found.primary.span
    sign = "~" if found.severity is Severity.WARNING else ""
    assert span.source.path is not None
    return f"{span.source.path.parent.name} {span.line}:{span.column} {sign}{found.code}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_all_that_is_wrong_is_found_in_its_place(case: Case, tmp_path: Path) -> None:
    repository = read(case.write(tmp_path))
    found = tuple(one for one in check(repository) if one.code != UNSERVED)
    assert [short(one) for one in found] == case.finds
    assert all(render([one], style) for one in found for style in ("full", "short", "json"))
    if not case.why:
        assert failing(repository, found) == set(case.refused)
