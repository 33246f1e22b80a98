"""Source text to items of tokens: where an item, a statement and a bracket ends.

A line end counts when the innermost bracket is `{ }` (or there is none) and neither the token
before nor the token after it says that the line goes on. A keyword of an item at the start of a
line always starts an item, so that one bracket left open spoils one item and not the file.
"""

import re
from dataclasses import dataclass, field

from . import lexical_errors as errors
from .diagnostic import Diagnostic
from .literals import DURATION_SECONDS, EscapeError, LiteralError, read_quantity, read_string
from .recursion import MAX_BLOCKS
from .source import Source, Span
from .token import CLOSERS, ITEM_WORDS, OPENERS, PUNCTUATION, WORDS, Token

_OPERATORS = frozenset(
    {"PLUS", "STAR", "SLASH", "PERCENT", "AT", "AND", "OR"}
    | {"EQEQ", "NOTEQ", "LESS", "LESSEQ", "GREATER", "GREATEREQ"}
)
_CONTINUES_AFTER = _OPERATORS | frozenset(
    {"MINUS", "NOT", "COMMA", "EQUAL", "COLON", "DOT", "BAR", "ARROW", "FATARROW", "LBRACE"}
    | {"IN", "WHEN", "WITHIN", "ELSE"}
)
_CONTINUES_BEFORE = _OPERATORS | frozenset(
    {"EQUAL", "DOT", "BAR", "FATARROW", "QMARK", "RBRACE", "ELSE", "WHEN", "WITHIN", "COMMA"}
)
_CONTINUES_ITEM = _CONTINUES_BEFORE | frozenset(
    {
        "ARROW",
        "LPAR",
        "LBRACE",
        "WHERE",
        "BATCH",
        "PADS",
        "DEADLINE",
        "PER",
        "IDLE",
        "BATCHED",
        "PURE",
    }
    | {"ON", "FOR", "AS"}
)
_ITEM_TOKENS = frozenset(WORDS[word] for word in ITEM_WORDS)

MAX_BRACKETS = 64
"""Brackets other than `{ }` may be open inside one another this deep within a block."""

MAX_BRACES = 2 * MAX_BLOCKS + 20
"""Braces may be open this deep: a `match` and its arm take two, items have their own."""

_TOKEN = re.compile(
    r"""(?P<SPACE>[ \t]+)
    |(?P<LINE>\r?\n)
    |(?P<COMMENT>\#[^\n]*)
    |(?P<WORD>[A-Za-z_]\w*)
    |(?P<FOREIGN>&&|\|\||\*\*|//|/\*|[-+*/%]=(?!=)|!(?!=)|[;&^~'`$])
    |(?P<PUNCTUATION>->|=>|==|!=|<=|>=|[-+*/%@<>=.,:|?(){}\[\]])
    |(?P<NUMBER>0[xXbBoO]\w*|[0-9]\w*(?:\.[0-9]\w*)?(?:(?<=[eE])[+-][0-9]\w*)?)
    |(?P<STRING>"(?:[^"\\\n]|\\[^\n])*")
    |(?P<UNCLOSED>"(?:[^"\\\n]|\\[^\n])*\\?)
    |(?P<UNKNOWN>[^\x00-\x7f]+|.)
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_STARTS_STATEMENT = re.compile(
    r"(?:return|yield|emit|next|stop|state)\b|\w+(?:[ \t]*,[ \t]*\w+)*[ \t]*=(?![=>])", re.ASCII
)
_STARTS_ITEM = re.compile(r"[a-z]+[ \t]+[\"\w]")


@dataclass(slots=True)
class Chunk:
    """The tokens of one item; `broken` when brackets or characters in it make no sense."""

    tokens: list[Token] = field(default_factory=list[Token])
    broken: bool = False


@dataclass(slots=True)
class Lexed:
    chunks: list[Chunk]
    comments: list[Token]
    diagnostics: list[Diagnostic]


def lex(source: Source) -> Lexed:
    """Cut a source into items; whatever is wrong with its characters is in `diagnostics`."""
    return _Lexer(source).run()


def _line_before(source: Source, position: int) -> str:
    """Return what stands in front of a position in its line."""
    return source.text[source.text.rfind("\n", 0, position) + 1 : position]


class _Lexer:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.chunks: list[Chunk] = []
        self.chunk = Chunk()
        self.comments: list[Token] = []
        self.diagnostics = errors.control_characters(source)
        self.brackets: list[Token] = []
        self.braces: list[int] = []  # where in `brackets` those are that open blocks
        self.line_ended = False
        self.shallow: tuple[Span, Span] | None = None  # a block, and what closed it too far left

    def run(self) -> Lexed:
        text = self.source.text
        position = 1 if text.startswith("\ufeff") else 0
        while position < len(text) and len(self.diagnostics) < errors.LIMIT:
            match = _TOKEN.match(text, position)
            assert match is not None, "the last alternative matches anything"
            position = match.end()
            spelling = match[0]
            match match.lastgroup:
                case "SPACE":
                    pass
                case "LINE":
                    self.line_ended = True
                case "WORD":
                    kind = "UNDERSCORE" if spelling == "_" else WORDS.get(spelling, "NAME")
                    self.add(kind, match)
                case "PUNCTUATION":
                    self.add_punctuation(match)
                case "COMMENT":
                    comment = spelling.rstrip()
                    start = match.start()
                    self.comments.append(
                        Token("COMMENT", comment, start, start + len(comment), self.source)
                    )
                case "NUMBER":
                    self.add_number(match)
                case "STRING":
                    self.add_string(match)
                case _:
                    position = self.refuse(match)
        self.end_chunk()
        return Lexed(self.chunks, self.comments, self.diagnostics)

    # ---- tokens

    def add(self, kind: str, match: re.Match[str]) -> None:
        self.append(Token(kind, match[0], match.start(), match.end(), self.source))

    def append(self, token: Token) -> None:
        if self.line_ended:
            self.line_ended = False
            self.end_line(token)
        if token.type in OPENERS:
            self.open(token)
        elif token.type in CLOSERS and not self.close(token):
            return
        self.chunk.tokens.append(token)

    def add_punctuation(self, match: re.Match[str]) -> None:
        kind = PUNCTUATION[match[0]]
        tokens = self.chunk.tokens
        if kind == "LESS" and tokens and tokens[-1].type == "LIST":
            kind = "LANGLE"
        elif kind == "GREATER" and self.brackets and self.brackets[-1].type == "LANGLE":
            kind = "RANGLE"
        self.add(kind, match)

    def add_number(self, match: re.Match[str]) -> None:
        kind, spelling = "NUMBER", match[0]
        try:
            _, unit = read_quantity(spelling)
            if unit:
                kind = "DURATION" if unit in DURATION_SECONDS else "SIZE"
        except LiteralError as error:
            self.diagnostics.append(errors.wrong_number(self.span(match), error))
            spelling = "0"
        self.append(Token(kind, spelling, match.start(), match.end(), self.source))

    def add_string(self, match: re.Match[str]) -> None:
        spelling = match[0]
        try:
            read_string(spelling)
        except EscapeError as error:
            self.diagnostics.append(errors.wrong_escape(self.span(match), error))
            spelling = '""'
        self.append(Token("STRING", spelling, match.start(), match.end(), self.source))

    def refuse(self, match: re.Match[str]) -> int:
        """Report text that is no token; return where to go on."""
        span, spelling = self.span(match), match[0]
        if match.lastgroup == "UNCLOSED":
            self.diagnostics.append(errors.unclosed_string(span))
            self.append(Token("STRING", '""', match.start(), match.end(), self.source))
            self.close_line(match.end())
            return match.end()
        end_of_line = self.source.text.find("\n", match.end())
        end_of_line = len(self.source.text) if end_of_line < 0 else end_of_line
        if spelling == "'":
            end = self.source.text.find("'", match.end(), end_of_line) + 1 or end_of_line
            self.diagnostics.append(errors.single_quotes(Span(self.source, match.start(), end)))
            self.append(Token("STRING", '""', match.start(), end, self.source))
            return end
        found = errors.foreign if match.lastgroup == "FOREIGN" else errors.unknown_character
        diagnostic = found(span)
        if diagnostic is not None:
            self.diagnostics.append(diagnostic)
        if spelling == ";":
            self.line_ended = True
        return end_of_line if spelling in ("//", "/*") else match.end()

    # ---- brackets

    def open(self, token: Token) -> None:
        inner = len(self.brackets) - (self.braces[-1] + 1 if self.braces else 0)
        if token.type == "LBRACE":
            self.braces.append(len(self.brackets))
        self.brackets.append(token)
        if token.type == "LBRACE" and len(self.braces) == MAX_BRACES + 1:
            self.refuse_depth(errors.too_many_blocks(token.span, MAX_BLOCKS))
        elif token.type != "LBRACE" and inner == MAX_BRACKETS:
            self.refuse_depth(errors.too_deep(token.span, MAX_BRACKETS))

    def refuse_depth(self, diagnostic: Diagnostic) -> None:
        self.diagnostics.append(diagnostic)
        self.chunk.broken = True

    def pop(self) -> Token:
        """Take out the innermost open bracket."""
        if self.braces and self.braces[-1] == len(self.brackets) - 1:
            self.braces.pop()
        return self.brackets.pop()

    def close(self, token: Token) -> bool:
        """Match a closing bracket with its opener; False when there is none."""
        opener = CLOSERS[token.type]
        if all(bracket.type != opener for bracket in reversed(self.brackets)):
            if self.brackets and self.brackets[-1].type != "LBRACE" and not self.is_extra(token):
                self.diagnostics.append(errors.mismatch(self.pop().span, token.span))
                self.chunk.broken = True
                return True
            inside = self.brackets[-1].span if self.brackets else None
            self.diagnostics.append(errors.stray_closer(token.span, inside))
            self.chunk.broken = self.chunk.broken or bool(self.brackets)
            return False
        while self.brackets[-1].type != opener:
            unclosed = errors.unclosed(self.pop().span, token.span)
            if len(self.diagnostics) < errors.LIMIT:
                self.diagnostics.append(unclosed)
            self.chunk.broken = True
        opened = self.pop()
        if self.shallow is None and token.type == "RBRACE" and self.is_left_of(token, opened):
            self.shallow = opened.span, token.span
        return True

    def is_extra(self, closer: Token) -> bool:
        """Whether a bracket that closes nothing stands before the one that is awaited."""
        following = self.source.text[closer.end : closer.end + 1]
        return following == {"LPAR": ")", "LSQB": "]"}.get(self.brackets[-1].type)

    def is_left_of(self, closer: Token, opener: Token) -> bool:
        """Whether a bracket begins a line that is indented less than that of its opener."""
        closing, opening = (_line_before(self.source, one.start) for one in (closer, opener))
        return not closing.strip() and len(closing) < len(opening) - len(opening.lstrip())

    def close_line(self, end: int) -> None:
        """Close what was opened on the line of a string that swallowed its closing brackets."""
        text = self.source.text
        while self.brackets:
            opener = self.brackets[-1]
            if "\n" in text[opener.start : end]:
                break
            if opener.type == "LBRACE" and not text[:end].endswith("}"):
                break
            self.append(Token(OPENERS[opener.type], "", end, end, self.source))

    # ---- lines and items

    def end_line(self, token: Token) -> None:
        """Decide what the line end before `token` ends: an item, a statement or nothing."""
        tokens = self.chunk.tokens
        if not tokens:
            return
        last = tokens[-1]
        text = self.source.text
        if token.type == "MINUS" and text[token.end : token.end + 1] in (" ", "\t"):
            return  # subtraction goes on; a negative value would have no space
        if token.type in _ITEM_TOKENS and _STARTS_ITEM.match(text, token.start):
            self.end_chunk()
        elif not self.brackets:
            if token.type not in _CONTINUES_ITEM and last.type not in _CONTINUES_AFTER:
                self.end_chunk()
        elif self.brackets[-1].type == "LBRACE":
            if last.type in ("COMMA", "LBRACE") or token.type in _CONTINUES_BEFORE:
                return
            if last.type in _CONTINUES_AFTER and not _STARTS_STATEMENT.match(text, token.start):
                return
            tokens.append(Token("NEWLINE", "", last.end, last.end, self.source))

    def end_chunk(self) -> None:
        if self.brackets:
            *outer, inner = (bracket.span for bracket in self.brackets)
            if self.shallow is not None and self.brackets[-1].type == "LBRACE":
                self.diagnostics.append(errors.closed_too_far_left(*self.shallow))
            else:
                self.diagnostics.append(errors.never_closed(inner, outer))
            self.chunk.broken = True
            self.brackets, self.braces = [], []
        self.shallow = None
        if self.chunk.tokens:
            self.chunks.append(self.chunk)
            self.chunk = Chunk()

    def span(self, match: re.Match[str]) -> Span:
        return Span(self.source, match.start(), match.end())
