"""Where commands print, in which colours, and how they show progress."""

import io
import sys

import pytest

from headrace.cli.console import Console
from headrace.dsl.diagnostic import Diagnostic, Label
from headrace.dsl.source import Source, Span

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
