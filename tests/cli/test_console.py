"""Where commands print, in which colours, how they show progress and what nobody expected."""

import io
import sys

import pytest

from headrace.cli.command import Exit
from headrace.cli.console import Console
from headrace.cli.main import conclude
from headrace.dsl.diagnostic import Diagnostic, Label
from headrace.dsl.source import Source, Span
from headrace.runtime.request import Code, Fault

MISTAKE = Diagnostic("HR024", "a type is missing", Label(Span(Source("a.pipe", "x"), 0, 1)))


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_and_no_colour_turns_it_off() -> None:
    for out, no_colour, coloured in (
        (Terminal(), False, True),
        (Terminal(), True, False),
        (io.StringIO(), False, False),
    ):
        console = Console(out, out, no_colour)
        console.diagnostics([MISTAKE])
        console.fail("usage", "no such thing", "try another")
        console.print(console.bold("text"))
        assert ("\x1b[" in out.getvalue()) is coloured


def test_progress_is_shown_on_a_terminal_only() -> None:
    for err, shown in ((Terminal(), True), (io.StringIO(), False)):
        console = Console(io.StringIO(), err, no_colour=True)
        with console.progress("compile") as progress:
            progress(0, 2, "first")
            progress(2, 2, "")
        assert ("compile" in err.getvalue()) is shown


def test_without_the_library_for_bars_progress_is_plain_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        sys.modules, "rich.console", None
    )  # what an import of a missing module sees
    err = Terminal()
    with Console(io.StringIO(), err, no_colour=True).progress("load") as progress:
        progress(0, 2, "detect")
        progress(2, 2, "")
    assert err.getvalue() == "load 0/2 detect\nload 2/2\n"


def test_a_bug_says_that_it_is_one_and_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    err = io.StringIO()
    with pytest.raises(ZeroDivisionError) as caught:
        _ = 1 // int("0")
    assert conclude(caught.value, Console(io.StringIO(), err, no_colour=True)) is Exit.FAILED
    assert err.getvalue().startswith("bug: this is a bug in headrace")
    assert "ZeroDivisionError: " in capsys.readouterr().err


def test_a_missing_package_names_the_extra_that_brings_it() -> None:
    err = io.StringIO()
    error = ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
    assert conclude(error, Console(io.StringIO(), err, no_colour=True)) is Exit.FAILED
    assert "pip install 'headrace[server]'" in err.getvalue()


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.INVALID, Exit.MISTAKES),
        (Code.NOT_FOUND, Exit.MISTAKES),
        (Code.DEADLINE, Exit.FAILED),
        (Code.FAILED, Exit.FAILED),
    ],
)
def test_a_fault_is_the_callers_or_the_runs(code: Code, status: Exit) -> None:
    err = io.StringIO()
    fault = Fault(code, "no", pipeline="p", stage="s", item=(2, 1))
    assert conclude(fault, Console(io.StringIO(), err, no_colour=True)) is status
    assert err.getvalue() == "failed: pipeline `p`, stage `s`, item 2.1: no\n"
