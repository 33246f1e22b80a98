"""Characters that a text shows as nothing, or as another: what they are, and the cure."""

import unicodedata

from ..dsl.diagnostic import Diagnostic, Label
from ..dsl.source import Span

_MARK, _NUL = "\ufeff", "\0"
_QUOTES = "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2018\u2019\u201a\u201b"


def is_strange(char: str) -> bool:
    """Whether a character cannot be seen, or is easily taken for another."""
    return char in _QUOTES or unicodedata.category(char)[0] in "CZ"


def strange(place: Span) -> Diagnostic:
    """Return what to say of such a character."""
    char = place.text
    name = unicodedata.name(char, "a control character").lower()
    message, help = f"{_code(char)}, {name}, belongs to no configuration", "take it out"
    if char == _MARK:
        message = "a byte order mark, which cannot be seen"
        help = "save the file as UTF-8 without a byte order mark (BOM)"
    elif char == _NUL:
        message = "a NUL, which belongs to no text"
        help = "save the file as UTF-8; one that is full of these is UTF-16, or was cut off"
    elif char in _QUOTES:
        message, help = f"`{char}` is no quote of a configuration", 'write `"`'
    elif unicodedata.category(char) == "Zs":
        help = "write a space"
    return Diagnostic("HR601", message, Label(place, _code(char)), help=help)


def _code(char: str) -> str:
    return f"U+{ord(char):04X}"
