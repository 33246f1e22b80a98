"""Hostile sources: the examples, the documentation and the error pages, mutilated."""

import re
from functools import cache
from pathlib import Path
from random import Random

from headrace.compiler import check
from headrace.dsl.diagnostic import CompileError
from headrace.dsl.format import format_module
from headrace.dsl.parse import parse
from headrace.dsl.render import render
from headrace.dsl.source import Source

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"```pipe[^\n]*\n(.*?)```", re.DOTALL)

ODD = (
    *("\0", "\r\n", "\r", "\ufeff", "\u2028", "\u202e", "\x1b[31m", "\t", "é", "😀"),
    *("а", "ｘ", "∕", "–", "“", "”", "；", "（"),  # look like letters and signs of the language
    *("9" * 400, "1" * 5000, "1e999", "0x" + "f" * 300, "0.0", "-1", "1/0", "H / 0", "H % 0"),
    *("{" * 30, "}" * 30, "(" * 70, "[" * 40, "list<" * 30, ">" * 30, "-" * 50, "not " * 50),
    *('"', "\\", "'", '"\\x00"', "#", "//", "/*", "**", "?", "x[0]", "_", "nan", " " * 100),
)
NUMBERS = ("0", "-1", "9" * 30, "1.5", "1e400", "0.1", "4294967296", "1_0", "1e-400")


@cache
def sound() -> tuple[str, ...]:
    """Return the sources that there are."""
    found = [path.read_text("utf-8") for path in sorted(ROOT.glob("examples/**/*.pipe"))]
    pages = [*sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("dsl/errors/*.md"))]
    for page in pages:
        found += _FENCE.findall(page.read_text("utf-8"))
    return tuple(found)


@cache
def words() -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall(r"\w+|\S", " ".join(sound()))))


def mutilated(random: Random) -> str:
    """Return one of the sources with one or several things wrong."""
    text = random.choice(sound())
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        text = _mutilate(random, text)
    return text


def _mutilate(random: Random, text: str) -> str:
    start = random.randrange(len(text) + 1)
    stop = min(len(text), start + random.randrange(1, 40))
    before, part, after = text[:start], text[start:stop], text[stop:]
    match random.randrange(9):
        case 0:
            return before + random.choice(ODD) + part + after
        case 1:
            return before + after
        case 2:
            return f"{before}{random.choice(words())} {after}"
        case 3:
            return before + part * random.choice((2, 3, 50)) + after
        case 4:
            return _replace(random, text, r"\w+", words())
        case 5:
            return _replace(random, text, r"\d+(\.\d+)?", NUMBERS)
        case 6:
            lines = text.split("\n")
            random.shuffle(lines)
            return "\n".join(lines)
        case 7:
            other = random.choice(sound())
            at = random.randrange(len(other) + 1)
            return before + other[at : at + random.randrange(200)] + after
        case _:
            return text.replace("\n", random.choice(("\r\n", "\n\n", "\r", " ")))


def _replace(random: Random, text: str, pattern: str, by: tuple[str, ...]) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    one = random.choice(found)
    return text[: one.start()] + random.choice(by) + text[one.end() :]


def survive(text: str) -> tuple[str, ...]:
    """Check a source and show what is said of it; one that parses must format, and stay so.

    Returns the codes of what is said. Raises whatever goes wrong.
    """
    source = Source("hostile.pipe", text, Path("/nowhere/hostile.pipe"))
    diagnostics = check(source)
    render(diagnostics)
    try:
        formatted = format_module(parse(source))
    except CompileError:
        return tuple(one.code for one in diagnostics)
    again = format_module(parse(Source("hostile.pipe", formatted, source.path)))
    assert again == formatted
    return tuple(one.code for one in diagnostics)
