"""The text of a `config.pbtxt`: a tree of its fields with their places, which protobuf keeps.

The message itself is made by protobuf (`config.py`); the tree is for diagnostics, and it knows the
fields that the message has no room for.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from google.protobuf import text_encoding

from ..dsl.diagnostic import Diagnostic, Label
from ..dsl.source import Source, Span
from .config_chars import is_strange, strange


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number, name or string as it is written; a `hole` is a placeholder of a template."""

    place: Span
    hole: bool = False

    @property
    def text(self) -> str:
        return self.place.text


@dataclass(frozen=True, slots=True)
class Block:
    """Fields between braces; a file is one too."""

    fields: tuple["Field", ...]
    place: Span

    def named(self, name: str) -> Iterator["Field"]:
        return (field for field in self.fields if field.name == name)


Value: TypeAlias = Scalar | Block


@dataclass(frozen=True, slots=True)
class Field:
    """`name: value`; several values where they are written as a list; `whole` is all of it."""

    name: str
    place: Span
    values: tuple[Value, ...]
    listed: bool
    whole: Span


@dataclass(frozen=True, slots=True)
class Tree:
    """All of a file, and what is no text format in it."""

    root: Block
    mistakes: tuple[Diagnostic, ...]


def read_tree(source: Source) -> Tree:
    """Read the fields of a text; what comes behind a mistake of syntax is not read."""
    fields: tuple[Field, ...] = ()
    if (nul := source.text.find("\0")) >= 0:  # nor may a comment or a text hold one
        mistake = strange(Span(source, nul, nul + 1))
        return Tree(Block(fields, Span(source, 0, len(source.text))), (mistake,))
    reader = _Reader(source)
    mistakes: list[Diagnostic] = []
    try:
        fields = reader.fields(None)
    except _Mistake as mistake:
        mistakes.append(mistake.diagnostic)
        fields = tuple(reader.begun)
    return Tree(Block(fields, Span(source, 0, len(source.text))), (*reader.holes, *mistakes))


_TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\n\r\v\f]|\#[^\n]*)+)
    |(?P<hole>\$\{[^}\n]*\}?|\{\{.*?\}\}|\{%.*?%\}|\$\w+|@\w+@|%\w+%)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFuUlL]?)
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<open_string>["'][^\n]*)
    |(?P<mark>[][{}<>:;,.\-/])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(
    r"""\\(?:(?P<beyond>[4-7][0-7]{2})|[abfnrtv\\'"\n]|x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|(?P<bad>.))""",
    re.DOTALL,
)
_CLOSING = {"{": "}", "<": ">"}
_SYNTAX, _PLACEHOLDER = "HR601", "HR602"
_DEEPEST = 40
"""Blocks within blocks; a configuration has six at most."""


class _Mistake(Exception):
    def __init__(self, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    place: Span

    @property
    def text(self) -> str:
        return self.place.text


def _tokens(source: Source) -> Iterator[_Token]:
    for match in _TOKEN.finditer(source.text):
        kind = match.lastgroup
        if kind is not None and kind != "space":
            yield _Token(kind, Span(source, match.start(), match.end()))
    # Errors at the end of a file point behind its last character that says something.
    end = len(source.text.rstrip())
    yield _Token("end", Span(source, end, end))


class _Reader:
    """Reads by recursive descent; `begun` are the fields of the file that are complete."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._tokens = list(_tokens(source))
        self._at = 0
        self._depth = 0
        self.begun: list[Field] = []
        self.holes: list[Diagnostic] = []

    def fields(self, opening: _Token | None) -> tuple[Field, ...]:
        """Read fields up to the brace that closes what `opening` opened, or to the end."""
        found: list[Field] = self.begun if opening is None else []
        closing = _CLOSING[opening.text] if opening is not None else None
        while (token := self._peek()).text != closing:
            if token.kind == "end" and opening is None:
                return tuple(found)
            if token.kind == "end" and opening is not None:
                raise self._wrong(token, f"`{closing}` is missing", "the file ends here", opening)
            if token.kind == "hole":
                self._hole(self._next())
                continue
            found.append(self._field(opening))
            if self._peek().text in (",", ";"):
                self._next()
        return tuple(found)

    def _field(self, opening: _Token | None) -> Field:
        name = self._next()
        if name.text in ("}", ">", "]"):
            raise self._wrong(name, f"`{name.text}` closes nothing", "one too many", None)
        if name.kind != "word":
            raise self._wrong(name, "a field is wanted", _unexpected(name), opening)
        token = self._peek()
        if token.text == ":":
            self._next()
            token = self._peek()
        elif token.text not in ("{", "<") and not self._is_list_of_blocks():
            raise self._wrong(token, f"`:` is missing behind `{name.text}`", "", None)
        listed = token.text == "["
        values = self._list(self._next()) if listed else (self._value(),)
        end = self._tokens[self._at - 1].place.end
        whole = Span(self._source, name.place.start, end)
        return Field(name.text, name.place, values, listed, whole)

    def _list(self, opening: _Token) -> tuple[Value, ...]:
        values: list[Value] = []
        if self._peek().text == "]":
            self._next()
            return ()
        while True:
            values.append(self._value())
            token = self._next()
            if token.text == "]":
                return tuple(values)
            if token.text != ",":
                wanted = "`,` or `]` is missing"
                raise self._wrong(token, wanted, _unexpected(token), opening)
            if self._peek().text == "]":
                raise self._wrong(self._peek(), "a value is wanted behind `,`", "", None)

    def _value(self) -> Value:
        token = self._next()
        match token.kind:
            case "mark" if token.text in _CLOSING:
                return self._block(token)
            case "mark" if token.text == "-":
                last = self._next()
                if last.kind in ("number", "word"):
                    return Scalar(Span(self._source, token.place.start, last.place.end))
            case "string":
                last = token
                self._check_escapes(token)
                while self._peek().kind == "string":
                    last = self._next()
                    self._check_escapes(last)
                return Scalar(Span(self._source, token.place.start, last.place.end))
            case "hole":
                self._hole(token)
                return Scalar(token.place, hole=True)
            case "word" | "number":
                return Scalar(token.place)
            case "open_string":
                raise self._wrong(token, "a text that does not end", "its quote is missing", None)
            case _:
                pass
        raise self._wrong(token, "a value is wanted", _unexpected(token), None)

    def _check_escapes(self, token: _Token) -> None:
        for escape in _ESCAPE.finditer(token.text):
            if escape["bad"] or escape["beyond"]:
                start = token.place.start + escape.start()
                place = Span(self._source, start, start + (2 if escape["bad"] else 4))
                byte = "a byte is at most `\\377`"
                help = "a backslash is written as two" if escape["bad"] else byte
                raise _Mistake(
                    Diagnostic(_SYNTAX, f"`{place.text}` is no escape", Label(place), help=help)
                )

    def _block(self, opening: _Token) -> Block:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._wrong(opening, f"more than {_DEEPEST} blocks within blocks", "", None)
        fields = self.fields(opening)
        closing = self._next()
        self._depth -= 1
        return Block(fields, Span(self._source, opening.place.start, closing.place.end))

    def _is_list_of_blocks(self) -> bool:
        """Whether `[` is next, with what needs no colon before it."""
        texts = [one.text for one in self._tokens[self._at : self._at + 2]]
        return texts[0] == "[" and texts[1:] in (["{"], ["<"], ["]"])

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _hole(self, token: _Token) -> None:
        self.holes.append(
            Diagnostic(
                _PLACEHOLDER,
                f"`{token.text}` is a placeholder of a template",
                Label(token.place, "nothing was filled in"),
                help="fill in the template first; what is checked is the file that a server reads",
            )
        )

    def _wrong(self, token: _Token, message: str, said: str, opening: _Token | None) -> _Mistake:
        if token.kind == "other" and is_strange(token.text):
            return _Mistake(strange(token.place))
        opened = (Label(opening.place, "opened here"),) if opening is not None else ()
        return _Mistake(Diagnostic(_SYNTAX, message, Label(token.place, said), opened))


def _unexpected(token: _Token) -> str:
    return "the file ends here" if token.kind == "end" else f"found `{token.text}`"


def key_of(value: Value) -> str | None:
    """Return the key of an entry of a map as text; None of what is no entry."""
    if isinstance(value, Scalar):
        return None
    keys = [key for one in value.named("key") for key in one.values if isinstance(key, Scalar)]
    return string(keys[0]) if keys else None


def string(value: Scalar) -> str:
    """Return what a text in quotes says; of what says nothing, what is written."""
    parts = _QUOTED.findall(value.text) if value.text[:1] in ("'", '"') else []
    if not parts:
        return value.text
    try:
        content = b"".join(text_encoding.CUnescape(part[1:-1]) for part in parts)
    except ValueError:  # an escape beyond a byte, of which protobuf tells
        return value.text
    return content.decode("utf-8", "replace")


_QUOTED = re.compile(r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""")
