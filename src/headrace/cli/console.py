"""Where commands print: results on stdout, everything about them on stderr."""

import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeAlias

from ..dsl.cells import cells
from ..dsl.diagnostic import Diagnostic, Severity
from ..dsl.render import Style, render

if TYPE_CHECKING:
    from ..runtime.request import Fault

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with how much is done, how much there is, and what comes next."""


class OutputError(Exception):
    """What was to be printed could not be, as when a disk is full."""


class Console:
    """`colour` and progress only on a terminal, and no colour with NO_COLOR set."""

    def __init__(self, out: TextIO, err: TextIO, no_colour: bool) -> None:
        self.out, self.err = out, err
        self.out_colour = out.isatty() and not no_colour
        self.err_colour = err.isatty() and not no_colour
        self._form: Callable[[str, str], str] = lambda text, _: text

    @staticmethod
    def standard() -> "Console":
        return Console(
            _standing(sys.stdout), _standing(sys.stderr), bool(os.environ.get("NO_COLOR"))
        )

    def print(self, text: str) -> None:
        """Print a result; raises OutputError, and BrokenPipeError when the reader has gone."""
        with _told_apart():
            self.out.write(text if text.endswith("\n") else f"{text}\n")

    def apart(self) -> AbstractContextManager[object]:
        """Return a context in which stages run: what they print is about the result, not of it."""
        return redirect_stdout(self.err)

    def flush(self) -> None:
        """Hand on what is printed; raises as `print` does."""
        with _told_apart():
            self.out.flush()

    def say_as(self, form: Callable[[str, str], str]) -> None:
        """From now on let what is said, and its level, have another form: a line of a log."""
        self._form, self.err_colour = form, False

    def say(self, text: str, level: str = "info") -> None:
        """Print something about the result."""
        self.flush()  # so that what comes first is seen first when both are one terminal
        self.err.write(f"{self._form(text, level)}\n")
        self.err.flush()

    def fail(self, title: str, message: str, help: str | None = None) -> None:
        """Print why there is no result; `title` is `error[HR410]`, `usage`, ..."""
        cure = "" if help is None else f"\n{_paint('1;36', 'help', self.err_colour)}: {help}"
        self.say(f"{_paint('1;31', title, self.err_colour)}: {message}{cure}", "error")

    def fault(self, fault: "Fault") -> None:
        """Print why a request failed, with the source line of the stage to blame."""
        place = fault.place
        where = [f"pipeline `{fault.pipeline}`"] if fault.pipeline else []
        where += [f"stage `{fault.stage}`"] if fault.stage else []
        where += [f"item {'.'.join(map(str, fault.item))}"] if fault.item else []
        self.fail(
            "failed", ": ".join([", ".join(where), fault.message] if where else [fault.message])
        )
        if place is not None:
            number = str(place.line)
            self.say(f"{' ' * (len(number) - 1)}--> {place}")
            self.say(f"{number} | {place.text}")
            self.say(f"{' ' * len(number)} | {' ' * cells(place.text[: place.column - 1])}^")

    def mistakes(self, found: Sequence[Diagnostic]) -> None:
        """Print mistakes that are why there is no result, or warnings."""
        level = "error" if any(one.severity is Severity.ERROR for one in found) else "warning"
        self.say(render(found, colour=self.err_colour), level)

    def diagnostics(self, found: Sequence[Diagnostic], style: Style = "full") -> None:
        """Print mistakes that are the result."""
        text = render(found, style, colour=self.out_colour)
        if text:
            self.print(text)
            if style == "full":
                self.print("")

    def bold(self, text: str) -> str:
        """Return text for stdout that stands out on a terminal."""
        return _paint("1", text, self.out_colour)

    @contextmanager
    def progress(self, title: str) -> Generator[Progress, None, None]:
        """Show how far something is, on a terminal; nothing anywhere else."""
        if not self.err.isatty():
            yield _silent
            return
        self.flush()
        try:
            from rich.console import Console as Terminal
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bars
        except ImportError:
            yield lambda done, total, name: self.say(f"{title} {done}/{total} {name}".rstrip())
            return
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[name]}"),
            TimeElapsedColumn(),
        )
        terminal = Terminal(file=self.err, no_color=not self.err_colour)
        with Bars(*columns, console=terminal, transient=True) as bars:
            task = bars.add_task(title, total=1, name="")
            yield lambda done, total, name: bars.update(
                task, completed=done, total=total, name=name
            )


def _standing(stream: TextIO | None) -> TextIO:
    """Return a standard stream that takes any text: what its encoding lacks is escaped."""
    if stream is None:  # the caller has closed it
        return Path(os.devnull).open("w")
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


@contextmanager
def _told_apart() -> Generator[None, None, None]:
    """Tell a failure to print from the failures of what is printed."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"the output cannot be written: {error.strerror or error}") from error


def _silent(_done: int, _total: int, _name: str) -> None:
    pass


def _paint(style: str, text: str, colour: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if colour else text
