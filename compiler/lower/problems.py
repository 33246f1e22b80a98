"""The mistakes found so far: every one is kept, none stops the search for more."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from ...dsl.diagnostic import Diagnostic, Label, Severity
from ...dsl.nearest import nearest
from ...dsl.source import Span


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """Return the help for a mistyped name, None when nothing is like it."""
    return did_mean(nearest(name, candidates))


def did_mean(meant: str | None) -> str | None:
    return f"did you mean `{meant}`?" if meant else None


class Problems:
    """Collects diagnostics; a mistake in an inlined body names the calls that led to it."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int, int, str], Diagnostic] = {}
        self._calls: list[Span] = []

    def error(
        self,
        code: str,
        message: str,
        span: Span,
        label: str = "",
        *,
        secondary: tuple[Label, ...] = (),
        notes: tuple[str, ...] = (),
        help: str | None = None,
    ) -> None:
        """Keep a mistake, unless the same one at the same place is known."""
        calls = tuple(Label(call, "called from here") for call in self._shown_calls())
        self.add(Diagnostic(code, message, Label(span, label), secondary + calls, notes, help))

    def _shown_calls(self) -> list[Span]:
        """Return the calls that led here, innermost first; of many the inner two and the first."""
        calls = self._calls[::-1]
        return calls if len(calls) <= 3 else [*calls[:2], calls[-1]]

    def warning(self, code: str, message: str, span: Span, *, help: str | None = None) -> None:
        """Keep a warning: the program means something, but perhaps not what was meant."""
        self.add(Diagnostic(code, message, Label(span), (), (), help, Severity.WARNING))

    def add(self, diagnostic: Diagnostic) -> None:
        span = diagnostic.primary.span
        key = (diagnostic.code, span.source.name, span.start, span.end, diagnostic.message)
        self._found.setdefault(key, diagnostic)

    @contextmanager
    def called_from(self, span: Span) -> Generator[None, None, None]:
        """Say of mistakes found inside that they come from a call at `span`."""
        self._calls.append(span)
        try:
            yield
        finally:
            self._calls.pop()

    @property
    def errors(self) -> int:
        """How many mistakes there are; warnings do not count."""
        return sum(found.severity is Severity.ERROR for found in self._found.values())

    def diagnostics(self, first: str) -> tuple[Diagnostic, ...]:
        """Return all in the order of their places, those in the file named `first` first."""

        def place(found: Diagnostic) -> tuple[bool, str, int, int, str]:
            span = found.primary.span
            name = span.source.name
            return name != first, name, span.start, span.end, found.code

        return tuple(sorted(self._found.values(), key=place))
