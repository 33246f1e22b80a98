"""Error pages: what a code means, with a wrong and a right example. See errors/README.md."""

import re
from dataclasses import dataclass
from importlib.resources import files

_LAYOUT = re.compile(
    r"""\#\ (?P<code>HR\d{3})\ (?P<title>[^\n]+)\n
    \n(?P<meaning>.+?)\n
    (?:
        \n\#\#\ Wrong\n
        \n```pipe\n(?P<wrong>.*?)```\n
        \n```text\n(?P<expected>.*?)```\n
        \n\#\#\ Right\n
        \n```pipe\n(?P<right>.*?)```\n
    )?""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Example:
    """`wrong` is a whole source; `expected` its diagnostics in full form; `right` is mended."""

    wrong: str
    expected: str
    right: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page; `text` is all of it, as `headrace explain` prints it."""

    code: str
    title: str
    meaning: str
    example: Example | None
    text: str


class PageLayoutError(Exception):
    """A page does not have the form that errors/README.md gives."""


def codes() -> tuple[str, ...]:
    """Return the codes that have a page, in order."""
    names = (entry.name for entry in files("headrace.dsl").joinpath("errors").iterdir())
    return tuple(sorted(name[:-3] for name in names if re.fullmatch(r"HR\d{3}\.md", name)))


def page(code: str) -> Page:
    """Return the page of a code; raise KeyError when there is none."""
    if code not in codes():
        raise KeyError(code)
    text = files("headrace.dsl").joinpath("errors", f"{code}.md").read_text("utf-8")
    match = _LAYOUT.fullmatch(text)
    if match is None or match["code"] != code:
        raise PageLayoutError(f"errors/{code}.md does not have the layout of errors/README.md")
    example = None
    if match["wrong"] is not None:
        example = Example(match["wrong"], match["expected"], match["right"])
    return Page(code, match["title"], match["meaning"], example, text)
