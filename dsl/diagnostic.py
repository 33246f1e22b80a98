"""What the compiler says of a mistake, as values: rendering lives in `render.py`."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from .source import Span


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Label:
    """A place and what is to be said of it; the primary label comes first in a diagnostic."""

    span: Span
    text: str = ""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake: a code with a page in `errors/`, a message, places, notes, at most one help."""

    code: str
    message: str
    primary: Label
    secondary: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    help: str | None = None
    severity: Severity = Severity.ERROR


class CompileError(Exception):
    """The source has mistakes; `diagnostics` holds all of the phase that found them."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(
            "\n".join(f"{d.primary.span}: {d.code} {d.message}" for d in self.diagnostics)
        )


class Refusal(Exception):
    """A mistake that has no place in a source (a file, an option): a code with a page, a message.

    `help` is a complete sentence that says what to do instead.
    """

    def __init__(self, code: str, message: str, help: str | None = None) -> None:
        self.code, self.message, self.help = code, message, help
        super().__init__(f"{code} {message}")
