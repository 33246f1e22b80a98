"""Tokens: the words and punctuation of the language, and what they are called in the grammar."""

from typing import NamedTuple

from .source import Source, Span

ITEM_WORDS = ("use", "type", "const", "model", "fn", "pipeline", "schedule", "test")
RESERVED_WORDS = (
    *ITEM_WORDS,
    *("if", "else", "match", "for", "in", "loop", "try", "within", "when"),
    *("return", "yield", "emit", "next", "stop", "state"),
    *("and", "or", "not", "true", "false", "list"),
)
CONTEXT_WORDS = (
    *("as", "where", "batch", "none", "axis", "pads", "with", "python", "native", "batched"),
    *("pure", "deadline", "per", "sequence", "idle", "stream", "max", "on"),
    *("stub", "given", "expect"),
)
PUNCTUATION = {
    "(": "LPAR",
    ")": "RPAR",
    "[": "LSQB",
    "]": "RSQB",
    "{": "LBRACE",
    "}": "RBRACE",
    ",": "COMMA",
    ":": "COLON",
    ".": "DOT",
    "=": "EQUAL",
    "->": "ARROW",
    "=>": "FATARROW",
    "|": "BAR",
    "?": "QMARK",
    "+": "PLUS",
    "-": "MINUS",
    "*": "STAR",
    "/": "SLASH",
    "%": "PERCENT",
    "@": "AT",
    "==": "EQEQ",
    "!=": "NOTEQ",
    "<": "LESS",
    "<=": "LESSEQ",
    ">": "GREATER",
    ">=": "GREATEREQ",
    "_": "UNDERSCORE",
}
WORDS = {word: word.upper() for word in (*RESERVED_WORDS, *CONTEXT_WORDS)}

OPENERS = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE", "LANGLE": "RANGLE"}
CLOSERS = {closer: opener for opener, closer in OPENERS.items()}


class Token(NamedTuple):
    """`type` is the grammar's name for it. Lark's parser looks at nothing but `type`."""

    type: str
    text: str
    start: int
    end: int
    source: Source

    @property
    def span(self) -> Span:
        return Span(self.source, self.start, self.end)
