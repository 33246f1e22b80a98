"""What is said of tokens in the wrong place (HR010 to HR029).

`explain` goes through RULES, in order, with the token found, the one before it and the set of
tokens that the grammar accepts at this point; the first rule that recognises the mistake names
it. The last rule recognises everything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .ast import Binary, Name
from .build_code import GivenTwice, NotWhole, Refused, UnusedValue
from .diagnostic import Diagnostic, Label
from .lexer import CLOSERS, CONTEXT_WORDS, OPENERS, PUNCTUATION, RESERVED_WORDS, Token
from .source import Span

_SPELLING = {kind: text for text, kind in PUNCTUATION.items()} | {"LANGLE": "<", "RANGLE": ">"}
_RESERVED = frozenset(word.upper() for word in RESERVED_WORDS)
_CONTEXT = frozenset(word.upper() for word in CONTEXT_WORDS)
_VALUE_ENDS = (
    frozenset(
        ("NAME", "NUMBER", "STRING", "TRUE", "FALSE", "DURATION", "SIZE", "RPAR", "RSQB", "RBRACE")
    )
    | _CONTEXT
)
_VALUE_STARTS = (
    frozenset(
        (
            "NAME",
            "NUMBER",
            "STRING",
            "TRUE",
            "FALSE",
            "DURATION",
            "SIZE",
            "LPAR",
            "LSQB",
            "MINUS",
            "NOT",
            "IF",
            "MATCH",
            "FOR",
            "LOOP",
            "TRY",
        )
    )
    | _CONTEXT
)
_STATEMENT_WORDS = frozenset(("YIELD", "RETURN", "EMIT", "NEXT", "STOP", "STATE"))
_COMPARISONS = frozenset(("EQEQ", "NOTEQ", "LESS", "LESSEQ", "GREATER", "GREATEREQ"))


@dataclass(frozen=True, slots=True)
class Situation:
    """Where reading stopped. `found` is None at the end of the item."""

    tokens: Sequence[Token]
    index: int
    accepts: frozenset[str]

    @property
    def found(self) -> Token | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    @property
    def kind(self) -> str:
        return self.found.type if self.found is not None else "$END"

    @property
    def before(self) -> Token:
        return self.tokens[max(self.index - 1, 0)]

    @property
    def place(self) -> Span:
        """The token found; at an end, the place right after the last token."""
        if self.found is None or self.kind == "NEWLINE":
            end = self.before.end
            return Span(self.before.source, end, end)
        return self.found.span

    @property
    def opener(self) -> Token | None:
        """The innermost bracket that is open here."""
        open_here: list[Token] = []
        for token in self.tokens[: self.index]:
            if token.type in OPENERS:
                open_here.append(token)
            elif token.type in CLOSERS:
                open_here.pop()
        return open_here[-1] if open_here else None

    @property
    def item(self) -> str:
        return self.tokens[0].text

    def starts(self, *kinds: str) -> bool:
        """Whether the token found has one of these types."""
        return self.kind in kinds


Rule: TypeAlias = Callable[[Situation], Diagnostic | None]


def explain(tokens: Sequence[Token], index: int, accepts: set[str]) -> Diagnostic:
    """Return what to say of the token at `index` (the end of the item when past the last)."""
    situation = Situation(tokens, index, frozenset(accepts))
    for rule in RULES:
        diagnostic = rule(situation)
        if diagnostic is not None:
            return diagnostic
    raise AssertionError("the last rule recognises everything")


def unexpected(at: Situation) -> Diagnostic:
    """Say what was found and what could stand here."""
    found = "the end" if at.found is None else _show(at.found)
    return Diagnostic(
        "HR029", f"unexpected {found}", Label(at.place, f"expected {_list(at.accepts)}")
    )


def _show(token: Token) -> str:
    if token.type == "NEWLINE":
        return "end of the line"
    return f"`{token.text}`"


def _list(accepts: frozenset[str]) -> str:
    """Name what may stand here the way a person would."""
    kinds = set(accepts)
    parts: list[str] = []
    if kinds >= {"NUMBER", "STRING", "LPAR", "MINUS"}:
        parts.append("a value")
        kinds -= _VALUE_STARTS | {"STATE"}
    if "NAME" in kinds:
        parts.append("a name")
        kinds -= _CONTEXT | {"NAME"}
    if "LIST" in kinds:
        parts = ["a type"]
        kinds -= {"LIST"}
    words = {"$END": "the end of the item", "NEWLINE": "the end of the line", "STRING": "a string"}
    words |= {"NUMBER": "a number", "DURATION": "a duration", "SIZE": "a size"}
    if kinds & _COMPARISONS == _COMPARISONS:
        parts.append("an operator")
        kinds -= _COMPARISONS | {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "AT", "AND", "OR"}
        kinds -= {"DOT", "LPAR", "LSQB"}
    parts += sorted(words.get(kind) or f"`{_SPELLING.get(kind, kind.lower())}`" for kind in kinds)
    if len(parts) > 6:
        parts = [*parts[:5], "or something else"]
        return ", ".join(parts)
    return " or ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


RULES: tuple[Rule, ...] = (unexpected,)


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


def unknown_item(tokens: Sequence[Token]) -> Diagnostic | None:
    return None


def merge_neighbours(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    return diagnostics


def expression_too_long(span: Span) -> Diagnostic:
    return Diagnostic(
        "HR009",
        "this is nested too deep, or a chain of operators is too long",
        Label(span, "too deep from here on"),
        help="give parts of it a name",
    )


def refuse(refused: Refused) -> Diagnostic:
    """Say why parts that fit the grammar mean nothing."""
    match refused:
        case UnusedValue(value=value):
            help = "give it a name: `name = ...`"
            if isinstance(value, Binary) and value.op == "==" and isinstance(value.left, Name):
                help = "a name is given a value with one `=`"
            return Diagnostic(
                "HR020",
                "this value is not used",
                Label(refused.span),
                notes=("only the last line of a block may be a value: the value of the block",),
                help=help,
            )
        case NotWhole(what=what):
            return Diagnostic("HR005", f"{what} is a whole number", Label(refused.span))
        case GivenTwice(first=first, what=what):
            return Diagnostic(
                "HR022",
                f"`{what}` is given twice",
                Label(refused.span, "given again here"),
                (Label(first, "first given here"),),
            )
        case _:
            raise AssertionError(refused)
