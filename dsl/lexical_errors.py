"""What is said of characters, literals and brackets that make no sense (HR001 to HR009)."""

import re
import unicodedata
from collections.abc import Sequence

from .diagnostic import Diagnostic, Label
from .literals import LiteralError, UnitError
from .source import Source, Span

LIMIT = 100
"""After so many wrong characters the file is something else; reading stops."""

_MOST = 10
"""Brackets shown of those around one that is not closed."""

_CONTROL = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)|(?!\A)\ufeff"
)
_LOOK_ALIKE = {
    **dict.fromkeys("“”„‟″«»", '"'),
    **dict.fromkeys("‘’‚‛′´", '"'),
    **dict.fromkeys("‐‑‒–—―−", "-"),
    "×": "*",
    "∗": "*",
    "·": "*",
    "÷": "/",
    "∕": "/",
    "⁄": "/",
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
    "→": "->",
    "⇒": "=>",
    "∧": "and",
    "∨": "or",
    "¬": "not",
    **dict(zip("аеорсухіјѕАВЕКМНОРСТХ", "aeopcyxijsABEKMHOPCTX", strict=True)),
    **dict(zip("ονρΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ovpABEZHIKMNOPTYX", strict=True)),
}
_FOREIGN = {
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
    "**": "write `x * x`, or call an op",
    "//": "a comment starts with `#`",
    "/*": "a comment starts with `#`, and ends with its line",
    ";": "a line end separates statements; a comma separates settings",
    "`": "strings are written in double quotes",
    "$": "names are written as they are, without `$`",
    "~": "`not` negates a bool",
    "^": "multiply, or call an op",
    "&": "write `and`",
}


def control_characters(source: Source) -> list[Diagnostic]:
    """Find characters that cannot be seen, anywhere: in strings and comments they mislead."""
    found: list[Diagnostic] = []
    for match in _CONTROL.finditer(source.text):
        if len(found) == LIMIT:
            break
        code = ord(match[0])
        name = (
            "a carriage return" if code == 13 else unicodedata.name(match[0], "a control character")
        )
        found.append(
            Diagnostic(
                "HR002",
                f"invisible character U+{code:04X} ({name.lower()})",
                Label(Span(source, match.start(), match.end()), "it cannot be seen here"),
                help=f"remove it; in a string write `\\u{{{code:X}}}`",
            )
        )
    return found


def unknown_character(span: Span) -> Diagnostic | None:
    """Name a character outside the language and what it was probably meant to be."""
    shown = [char for char in span.text if char != "\ufeff" and not _CONTROL.match(char)]
    if not shown:
        return None  # said by `control_characters`
    char = shown[0]
    plain = _LOOK_ALIKE.get(char) or unicodedata.normalize("NFKC", char)
    name = unicodedata.name(char, f"U+{ord(char):04X}").lower()
    if char.isspace() or unicodedata.category(char) == "Cf":
        message, help = f"U+{ord(char):04X} ({name}) is not a space", "write an ordinary space"
    elif plain.isascii() and plain.strip():
        message, help = f"`{char}` ({name}) is not `{plain}`", f"write `{plain}`"
    else:
        message = f"`{char}` ({name}) is not part of the language"
        help = "names are made of `a`-`z`, `A`-`Z`, `0`-`9` and `_`; anything may stand in strings"
    return Diagnostic("HR001", message, Label(span), help=help)


def foreign(span: Span) -> Diagnostic:
    """Name an operator of another language."""
    text = span.text
    help = _FOREIGN.get(text)
    if help is None:
        help = f"names are given a value once: `b = a {text[0]} ...`"
    return Diagnostic("HR001", f"`{text}` is not part of the language", Label(span), help=help)


def single_quotes(span: Span) -> Diagnostic:
    return Diagnostic(
        "HR003", "strings are written in double quotes", Label(span), help='write `"..."`'
    )


def unclosed_string(span: Span) -> Diagnostic:
    end = len(span.text.rstrip())
    return Diagnostic(
        "HR003",
        "this string is never closed",
        Label(Span(span.source, span.start, span.start + end), "it starts here"),
        notes=("a string ends on the line where it starts; `\\n` stands for a line end",),
        help='close it with `"`',
    )


def wrong_escape(span: Span, error: LiteralError) -> Diagnostic:
    start = span.start + error.offset
    return Diagnostic(
        "HR004",
        error.message,
        Label(Span(span.source, start, start + error.length)),
        help=error.help,
    )


def wrong_number(span: Span, error: LiteralError) -> Diagnostic:
    code = "HR006" if isinstance(error, UnitError) else "HR005"
    return Diagnostic(code, error.message, Label(span), help=error.help)


def unclosed(opener: Span, closer: Span) -> Diagnostic:
    return Diagnostic(
        "HR007",
        f"`{opener.text}` is never closed",
        Label(opener, "opened here"),
        (Label(closer, f"`{closer.text}` comes before it is closed"),),
    )


def closed_too_far_left(opener: Span, closer: Span) -> Diagnostic:
    return Diagnostic(
        "HR007",
        f"`{opener.text}` is never closed",
        Label(opener, "opened here"),
        (Label(closer, f"this `{closer.text}` is meant for a block further out, by its place"),),
    )


def never_closed(inner: Span, outer: Sequence[Span]) -> Diagnostic:
    return Diagnostic(
        "HR007",
        f"`{inner.text}` is never closed",
        Label(inner, "opened here"),
        tuple(Label(span, "inside this one, which is not closed either") for span in outer[:_MOST]),
    )


def stray_closer(closer: Span, inside: Span | None) -> Diagnostic:
    secondary = (Label(inside, "this is what is open here"),) if inside is not None else ()
    return Diagnostic(
        "HR008", f"`{closer.text}` closes nothing", Label(closer, "no opening bracket"), secondary
    )


def mismatch(opener: Span, closer: Span) -> Diagnostic:
    return Diagnostic(
        "HR008",
        f"`{closer.text}` does not close `{opener.text}`",
        Label(closer, "this closes nothing"),
        (Label(opener, "this is open"),),
    )


def too_deep(span: Span, limit: int) -> Diagnostic:
    return Diagnostic(
        "HR009",
        f"brackets are nested more than {limit} deep",
        Label(span, f"level {limit + 1}"),
        help="give inner parts a name, or move them into a `fn`",
    )


def too_many_blocks(span: Span, limit: int) -> Diagnostic:
    return Diagnostic(
        "HR009",
        f"blocks are nested more than {limit} deep",
        Label(span, "too deep from here on"),
        help="move inner blocks into a `fn`",
    )
