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


_SESSION = re.compile(
    r"""\#\ (?P<code>HR\d{3})\ (?P<title>[^\n]+)\n
    \n(?P<meaning>.+?)\n
    \n\#\#\ Wrong\n
    (?P<wrong>(?:\n```\w+\ [\w./]+\n.*?```\n)+)
    \n```sh\n(?P<commands>.*?)```\n
    \n```text\n(?P<expected>.*?)```\n
    \n\#\#\ Right\n
    (?P<right>(?:\n```\w+\ [\w./]+\n.*?```\n)+)
    (?:\n```sh\n(?P<others>.*?)```\n)?""",
    re.VERBOSE | re.DOTALL,
)
_FILE = re.compile(r"```\w+ ([\w./]+)\n(.*?)```\n", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """`wrong` is a whole source; `expected` its diagnostics in full form; `right` is mended."""

    wrong: str
    expected: str
    right: str


@dataclass(frozen=True, slots=True)
class Session:
    """Files by name, and commands; the last of `commands` prints `expected`. Behind `right` files
    all of `others` are good."""

    wrong: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    expected: str
    right: tuple[tuple[str, str], ...]
    others: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """A page; `text` is all of it, as `headrace explain` prints it. It has an example, or a session
    where one file does not show the mistake, or neither."""

    code: str
    title: str
    meaning: str
    example: Example | None
    session: Session | None
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
    session = _SESSION.fullmatch(text)
    match = session or _LAYOUT.fullmatch(text)
    if match is None or match["code"] != code:
        raise PageLayoutError(f"errors/{code}.md does not have the layout of errors/README.md")
    example = None
    if session is None and match["wrong"] is not None:
        example = Example(match["wrong"], match["expected"], match["right"])
    shown = _session(session) if session is not None else None
    return Page(code, match["title"], match["meaning"], example, shown, text)


def _session(match: re.Match[str]) -> Session:
    commands = tuple(match["commands"].splitlines())
    others = tuple(match["others"].splitlines()) if match["others"] is not None else commands
    wrong, right = _FILE.findall(match["wrong"]), _FILE.findall(match["right"])
    return Session(tuple(wrong), commands, match["expected"], tuple(right), others)
