"""Where reading an item stopped, in the terms in which rules for syntax errors speak."""

from collections.abc import Sequence
from dataclasses import dataclass

from .source import Span
from .token import CLOSERS, CONTEXT_WORDS, OPENERS, PUNCTUATION, RESERVED_WORDS, Token

SPELLING = {kind: text for text, kind in PUNCTUATION.items()} | {"LANGLE": "<", "RANGLE": ">"}
RESERVED = frozenset(word.upper() for word in RESERVED_WORDS)
CONTEXT = frozenset(word.upper() for word in CONTEXT_WORDS)
STATEMENT_WORDS = frozenset({"YIELD", "RETURN", "EMIT", "NEXT", "STOP", "STATE"})
COMPARISONS = frozenset({"EQEQ", "NOTEQ", "LESS", "LESSEQ", "GREATER", "GREATEREQ"})
_LITERALS = {"NUMBER", "STRING", "TRUE", "FALSE", "DURATION", "SIZE"}
VALUE_ENDS = _LITERALS | CONTEXT | {"NAME", "UNDERSCORE", "RPAR", "RSQB", "RBRACE", "RANGLE"}
VALUE_STARTS = (
    _LITERALS
    | CONTEXT
    | {"NAME", "LPAR", "LSQB", "MINUS", "NOT", "IF", "MATCH", "FOR", "LOOP", "TRY"}
)


@dataclass(frozen=True, slots=True)
class Situation:
    """The tokens of an item, the one that does not fit, and what would have fitted there."""

    tokens: Sequence[Token]
    index: int
    accepts: frozenset[str]

    @property
    def found(self) -> str:
        """The type of the token that does not fit; `$END` at the end of the item."""
        return self.tokens[self.index].type if self.index < len(self.tokens) else "$END"

    @property
    def text(self) -> str:
        return self.tokens[self.index].text if self.index < len(self.tokens) else ""

    @property
    def following(self) -> str:
        """The type of the token after the one that does not fit."""
        after = self.index + 1
        return self.tokens[after].type if after < len(self.tokens) else "$END"

    @property
    def before(self) -> Token:
        return self.tokens[max(self.index - 1, 0)]

    @property
    def at_end(self) -> bool:
        return self.found in ("$END", "NEWLINE")

    @property
    def place(self) -> Span:
        """The token that does not fit; at a line's end the place right after the last token."""
        if self.at_end:
            return Span(self.before.source, self.before.end, self.before.end)
        return self.tokens[self.index].span

    @property
    def shown(self) -> str:
        """The token that does not fit, as a message shows it."""
        return "the line ends" if self.at_end else f"`{self.text}`"

    @property
    def opener(self) -> str | None:
        """The type of the innermost bracket that is open here."""
        open_here: list[str] = []
        for token in self.tokens[: self.index]:
            if token.type in OPENERS:
                open_here.append(token.type)
            elif token.type in CLOSERS:
                open_here.pop()
        return open_here[-1] if open_here else None

    @property
    def wants_value(self) -> bool:
        return self.accepts >= {"NAME", "NUMBER", "LPAR", "LSQB"}

    def statement(self) -> Sequence[Token]:
        """The tokens of the innermost statement (or item) up to here."""
        start = depth = 0
        for i in range(self.index - 1, -1, -1):
            kind = self.tokens[i].type
            depth += (kind in CLOSERS) - (kind in OPENERS)
            if depth < 0 and kind == "LBRACE":
                start = i + 1
                break
            if depth == 0 and kind == "NEWLINE":
                start = i + 1
                break
        return self.tokens[start : self.index]


def enclosing_brace(tokens: Sequence[Token], index: int) -> int | None:
    """Return the index of the innermost `{` that is open before the token at `index`."""
    depth = 0
    for i in range(index - 1, -1, -1):
        if tokens[i].type == "RBRACE":
            depth += 1
        elif tokens[i].type == "LBRACE":
            if depth == 0:
                return i
            depth -= 1
    return None


def describe(accepts: frozenset[str]) -> str:
    """Name what may stand in a place the way a person would: `a value or the end of the line`."""
    kinds = set(accepts)
    parts: list[str] = []
    if "LIST" in kinds:
        return "a type"
    if kinds >= {"NAME", "NUMBER", "LPAR", "LSQB"}:
        parts.append("a value")
        kinds -= VALUE_STARTS | {"UNDERSCORE"}
    if kinds >= STATEMENT_WORDS:
        parts = ["a statement"]
        kinds -= STATEMENT_WORDS
    if "NAME" in kinds:
        parts.append("a name")
        kinds -= CONTEXT | {"NAME"}
    if kinds >= COMPARISONS:
        parts.append("an operator")
        kinds -= COMPARISONS | {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "AT", "AND", "OR"}
        kinds -= {"DOT", "LPAR", "LSQB"}
    words = {"$END": "the end of the line", "NEWLINE": "the end of the line", "STRING": "a string"}
    words |= {"NUMBER": "a number", "DURATION": "a duration", "SIZE": "a size"}
    parts += sorted({words.get(kind) or f"`{SPELLING.get(kind, kind.lower())}`" for kind in kinds})
    if len(parts) == 1:
        return parts[0]
    return f"{', '.join(parts[:-1])} or {parts[-1]}"
