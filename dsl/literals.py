"""What the spelling of a literal means: numbers, durations, sizes and strings."""

import re

from .nearest import nearest

DURATION_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
SIZE_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
UNITS = (*DURATION_SECONDS, *SIZE_BYTES)
_USUAL_UNITS = {
    "KB": "KiB",
    "kB": "KiB",
    "MB": "MiB",
    "GB": "GiB",
    "TB": "TiB",
    "sec": "s",
    "seconds": "s",
    "min": "m",
    "minutes": "m",
    "hours": "h",
    "ns": "us",
}

_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_DECIMAL = re.compile(rf"({_DIGITS})(\.{_DIGITS})?([eE][+-]?{_DIGITS})?([A-Za-z]*)")
_RADIX = re.compile(r"0(?:x[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*|b[01]+(?:_[01]+)*|o[0-7]+(?:_[0-7]+)*)")
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|(.)|$)", re.DOTALL)
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_TO_ESCAPE = {value: f"\\{key}" for key, value in _SIMPLE_ESCAPES.items()}

MAX_INTEGER = 2**64 - 1
_LONGEST_NUMBER = 100  # characters; int() refuses far longer ones with an error of its own


class LiteralError(Exception):
    """A literal that means nothing. `offset` is where in it the mistake is."""

    def __init__(self, message: str, help: str | None, offset: int = 0, length: int = 0) -> None:
        self.message, self.help, self.offset, self.length = message, help, offset, length
        super().__init__(message)


class UnitError(LiteralError):
    """A number with a unit that does not exist or does not fit."""


class EscapeError(LiteralError):
    """A backslash in a string that is followed by something without a meaning."""


def read_quantity(text: str) -> tuple[int | float, str]:
    """Return the value of a number, duration (seconds) or size (bytes), and its unit ("": none).

    Raise LiteralError.
    """
    value, unit = _read_number(text)
    if unit in DURATION_SECONDS:
        return value * DURATION_SECONDS[unit], unit
    if unit in SIZE_BYTES:
        size = value * SIZE_BYTES[unit]
        if size > MAX_INTEGER or size != int(size):
            raise UnitError(
                f"`{text}` is not a number of bytes", "a size is a whole number of bytes"
            )
        return int(size), unit
    if unit:
        near = _USUAL_UNITS.get(unit) or nearest(unit, UNITS)
        help = f"did you mean `{near}`?" if near else f"units are {', '.join(UNITS)}"
        raise UnitError(f"there is no unit `{unit}`", help)
    return value, unit


def _read_number(text: str) -> tuple[int | float, str]:
    if len(text) > _LONGEST_NUMBER:
        raise LiteralError("this number has too many digits", "64 bits hold at most 20 digits")
    if _RADIX.fullmatch(text):
        return _in_range(int(text.replace("_", ""), 0)), ""
    match = _DECIMAL.fullmatch(text)
    if match is None or text[:2].lower() in ("0x", "0b", "0o"):
        raise LiteralError(
            f"`{text}` is not a number",
            "numbers look like `12`, `1_000`, `0.5`, `1e-3` or `0x1f`; names start with a letter",
        )
    whole, fraction, exponent, unit = match.groups()
    if len(whole) > 1 and whole[0] == "0" and not fraction and not exponent:
        raise LiteralError(f"`{text}` starts with a zero", "write `0o17` for an octal number")
    if not fraction and not exponent:
        return _in_range(int(whole)), unit
    value = float(whole + (fraction or "") + (exponent or ""))
    if value == float("inf"):
        raise LiteralError(f"`{text}` is larger than any f64", "the largest f64 is about 1.8e308")
    return value, unit


def _in_range(value: int) -> int:
    if value > MAX_INTEGER:
        raise LiteralError(
            "this integer does not fit in 64 bits", f"the largest is {MAX_INTEGER} (u64)"
        )
    return value


def read_string(text: str) -> str:
    """Return the value of a string given with its quotes; raise EscapeError."""
    inner = text[1:-1]
    if "\\" not in inner:
        return inner

    def replace(match: re.Match[str]) -> str:
        point, simple = match.groups()
        if point is not None:
            code = int(point, 16)
            if code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
                return chr(code)
        elif simple in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[simple]
        raise EscapeError(
            f"`{match[0]}` has no meaning in a string",
            'use `\\n`, `\\t`, `\\r`, `\\"`, `\\\\` or a code point such as `\\u{1F600}`',
            match.start() + 1,
            len(match[0]),
        )

    return _ESCAPE.sub(replace, inner)


def write_string(value: str) -> str:
    """Return the canonical spelling of a string; `read_string` is its inverse."""
    return '"' + "".join(map(_write_character, value)) + '"'


def _write_character(char: str) -> str:
    if char in _TO_ESCAPE:
        return _TO_ESCAPE[char]
    return char if char.isprintable() else f"\\u{{{ord(char):X}}}"
