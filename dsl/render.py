"""Diagnostics to text: in full with the source, one line each, or JSON."""

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .cells import TAB, cells
from .diagnostic import Diagnostic, Label, Severity
from .source import Source, Span

Style: TypeAlias = Literal["full", "short", "json"]

_MOST_LINES = 6
"""Of a longer construct the first and the last line are shown."""

_LONGEST, _CUT = 200, "..."
"""Of a longer line the part around the first mark is shown."""


@dataclass(frozen=True, slots=True)
class _Paint:
    """Escape codes, or nothing at all."""

    colour: bool

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self.colour and text else text


_BOLD, _RED, _YELLOW, _BLUE, _CYAN = "1", "1;31", "1;33", "1;34", "1;36"


def render(diagnostics: Sequence[Diagnostic], style: Style = "full", colour: bool = False) -> str:
    """Return the diagnostics as text that ends with a line end ("" for none)."""
    match style:
        case "json":
            return json.dumps([_json(d) for d in diagnostics], indent=2, ensure_ascii=False) + "\n"
        case "short":
            return "".join(f"{d.primary.span}: {d.code} {d.message}\n" for d in diagnostics)
        case "full":
            return "\n".join(_full(d, _Paint(colour)) for d in diagnostics)


def _full(diagnostic: Diagnostic, paint: _Paint) -> str:
    error = diagnostic.severity is Severity.ERROR
    severity = _RED if error else _YELLOW
    head = paint(severity, f"{diagnostic.severity.value}[{diagnostic.code}]")
    lines = [head + paint(_BOLD, f": {diagnostic.message}")]
    labels = (diagnostic.primary, *diagnostic.secondary)
    width = len(str(max(_last_line(label.span) for label in labels)))
    sources: list[Source] = []
    for label in labels:
        if label.span.source not in sources:
            sources.append(label.span.source)
    for source in sources:
        inside = [label for label in labels if label.span.source == source]
        arrow = "-->" if source is sources[0] else ":::"
        lines.append(f"{' ' * (width - 1)}{paint(_BLUE, arrow)} {inside[0].span}")
        lines += _snippet(inside, diagnostic.primary, width, severity, paint)
    gutter = " " * width
    lines += [f"{gutter} {paint(_BLUE, '=')} {paint(_BOLD, 'note')}: {n}" for n in diagnostic.notes]
    if diagnostic.help is not None:
        lines.append(f"{paint(_CYAN, 'help')}: {diagnostic.help}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Mark:
    """Columns of one line (in characters) that a label underlines; text where the label ends."""

    line: int
    start: int
    end: int
    text: str
    primary: bool


def _snippet(
    labels: Sequence[Label], primary: Label, width: int, severity: str, paint: _Paint
) -> list[str]:
    source = labels[0].span.source
    marks = [mark for label in labels for mark in _marks(label, label is primary)]
    bar = paint(_BLUE, "|")
    lines = [f"{' ' * width} {bar}"]
    shown = sorted({mark.line for mark in marks})
    for before, number in zip([shown[0], *shown], shown, strict=False):
        if number == before + 2:  # one line between is shown, more are left out
            lines.append(
                _numbered(number - 1, _window(source.line(number - 1), 0)[1], width, paint)
            )
        elif number > before + 2:
            lines.append(paint(_BLUE, "..."))
        here = sorted((mark for mark in marks if mark.line == number), key=lambda mark: mark.start)
        skipped, text = _window(source.line(number), here[0].start)
        lines.append(_numbered(number, text, width, paint))
        for mark in here:
            style = severity if mark.primary else _BLUE
            start = cells(text[: mark.start - skipped])
            length = max(1, cells(text[: max(mark.end - skipped, 0)]) - start)
            underline = ("^" if mark.primary else "-") * length
            said = f"{underline} {mark.text}".rstrip()
            lines.append(f"{' ' * width} {bar} {' ' * start}{paint(style, said)}")
    return lines


def _window(text: str, first: int) -> tuple[int, str]:
    """Return the part of a line that is shown and by how much columns in it are less."""
    if len(text) <= _LONGEST:
        return 0, text
    start = max(0, first - _LONGEST // 4)
    before = _CUT if start else ""
    after = _CUT if start + _LONGEST < len(text) else ""
    return start - len(before), before + text[start : start + _LONGEST] + after


def _numbered(number: int, text: str, width: int, paint: _Paint) -> str:
    return f"{paint(_BLUE, f'{number:>{width}} |')} {_expand(text)}".rstrip()


def _marks(label: Label, primary: bool) -> list[_Mark]:
    """Return one mark a line; a long construct is marked at its first and last line."""
    span = label.span
    first, last = span.line, _last_line(span)
    numbers = range(first, last + 1)
    if len(numbers) > _MOST_LINES:
        numbers = [first, last]
    marks: list[_Mark] = []
    for number in numbers:
        text = span.source.line(number)
        indent = len(text) - len(text.lstrip())
        start = span.column - 1 if number == first else indent
        end = span.source.position(span.end)[1] - 1 if number == last else len(text.rstrip())
        if number in (first, last) or end > start:
            marks.append(_Mark(number, start, end, label.text if number == last else "", primary))
    return marks


def _last_line(span: Span) -> int:
    return span.source.position(max(span.start, span.end - 1))[0]


def _expand(text: str) -> str:
    """Return text as it is shown: tabs as spaces, invisible characters as a box."""
    shown: list[str] = []
    for char in text:
        if char == "\t":
            shown.append(" " * TAB)
        else:
            shown.append("\N{REPLACEMENT CHARACTER}" if _is_control(char) else char)
    return "".join(shown)


def _is_control(char: str) -> bool:
    return unicodedata.category(char) == "Cc" or char in "\u202a\u202b\u202c\u202d\u202e\ufeff"


def _json(diagnostic: Diagnostic) -> dict[str, object]:
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "primary": _json_label(diagnostic.primary),
        "secondary": [_json_label(label) for label in diagnostic.secondary],
        "notes": list(diagnostic.notes),
        "help": diagnostic.help,
    }


def _json_label(label: Label) -> dict[str, object]:
    end_line, end_column = label.span.source.position(label.span.end)
    return {
        "file": label.span.source.name,
        "line": label.span.line,
        "column": label.span.column,
        "end_line": end_line,
        "end_column": end_column,
        "text": label.text,
    }
