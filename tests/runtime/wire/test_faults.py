"""What is told of a fault beside its text goes through a header and comes back as it was."""

import pytest

from headrace.compiler.plan_steps import Place
from headrace.runtime.protocols.faults import read_fault, write_fault
from headrace.runtime.request import Code, Fault

LINES = ["y = x", 'y = "\x7f"', "y = '\t\r\n\0'", "größe = 漢字\U0001f600"]


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_any_characters_travels(line: str) -> None:
    place = Place("app.pipe", 3, 5, line)
    written = write_fault(Fault(Code.FAILED, "", stage="detect", place=place))
    assert written.isascii()
    assert written.isprintable()
    assert read_fault(Code.FAILED, "", written).fault.place == place
