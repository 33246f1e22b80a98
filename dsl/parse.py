"""Source text to tree. All syntax mistakes of a file are found in one run.

The lexer cuts the file into items; lark's LALR machine takes the tokens of each item by
themselves. After a mistake inside a block the statement that holds it is taken out and the item
is read again, so that one mistake hides no other and causes none.
"""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NoReturn, cast

from lark import Lark, Transformer, UnexpectedToken
from lark import Token as LarkToken
from lark.lexer import Lexer

from . import ast, syntax_errors
from .build_code import Refused
from .build_items import ItemBuilder
from .depth import make_room_for
from .diagnostic import CompileError, Diagnostic
from .lexer import Chunk, lex
from .situation import CONTEXT, enclosing_brace
from .source import Source, Span
from .token import Token

_MOST_PER_ITEM = 10
"""Mistakes reported of one item; each costs reading the item once more."""


def parse(source: Source) -> ast.Module:
    """Return the tree of a source; raise CompileError with every syntax mistake in it."""
    lexed = lex(source)
    diagnostics = lexed.diagnostics
    lines = {diagnostic.primary.span.line for diagnostic in diagnostics}
    items: list[ast.Item] = []
    for chunk in lexed.chunks:
        if chunk.broken:
            continue
        item, mistakes = _parse_item(chunk)
        # A mistake on a line whose characters are wrong is most likely the same mistake.
        diagnostics.extend(m for m in mistakes if m.primary.span.line not in lines)
        if item is not None:
            items.append(item)
    if diagnostics:
        diagnostics.sort(key=lambda diagnostic: diagnostic.primary.span.start)
        raise CompileError(syntax_errors.merge_outside(diagnostics))
    comments = tuple(ast.Comment(token.text, span=token.span) for token in lexed.comments)
    return ast.Module(tuple(items), comments, span=Span(source, 0, len(source.text)))


@dataclass(frozen=True, slots=True)
class _Stop:
    """Where the reading of an item ended: `index` of the token, and what was wrong with it."""

    index: int
    diagnostic: Diagnostic


def _parse_item(chunk: Chunk) -> tuple[ast.Item | None, list[Diagnostic]]:
    tokens = chunk.tokens
    mistakes: list[Diagnostic] = []
    unknown = syntax_errors.unknown_item(tokens)
    if unknown is not None:
        return None, [unknown]
    while len(mistakes) < _MOST_PER_ITEM:
        outcome = _read(tokens)
        if not isinstance(outcome, _Stop):
            deep = make_room_for(outcome)
            if deep is not None:
                mistakes.append(syntax_errors.too_long(deep.span))
            return outcome, mistakes
        mistakes.append(outcome.diagnostic)
        shorter = _without_statement(tokens, outcome.index)
        if shorter is None:
            break
        tokens = shorter
    return None, mistakes


def _read(tokens: list[Token]) -> ast.Item | _Stop:
    machine = _grammar().parse_interactive(start="item")
    index, result = 0, None
    try:
        for token in (*tokens, _end(tokens[-1])):
            if token.type in CONTEXT and token.type not in machine.choices():
                token = token._replace(type="NAME")
            result = machine.feed_token(cast("LarkToken", token))  # it reads `type` only
            index += 1
        return cast("ast.Item", result)  # by the start rule
    except UnexpectedToken:
        accepts = cast("set[str]", machine.accepts())  # lark leaves its set untyped
        return _Stop(index, syntax_errors.explain(tokens, index, accepts))
    except Refused as refused:
        starts = [token.start for token in tokens]
        index = bisect_right(starts, refused.span.start) - 1
        return _Stop(index, syntax_errors.refuse(refused))


def _end(last: Token) -> Token:
    return Token("$END", "", last.end, last.end, last.source)


def _without_statement(tokens: list[Token], index: int) -> list[Token] | None:
    """Return the tokens without the statement at `index`; None when it is in no block."""
    index = min(index, len(tokens) - 1)
    if tokens[index].type in ("NEWLINE", "RBRACE"):
        index -= 1  # the statement before it ended too early
    opener = enclosing_brace(tokens, index)
    if opener is None:
        return None
    start, depth = opener + 1, 0
    for i in range(opener + 1, len(tokens)):
        kind = tokens[i].type
        if depth == 0 and kind in ("NEWLINE", "RBRACE"):
            if i > index:
                separator = 1 if kind == "NEWLINE" else 0
                if not separator and start > opener + 1:
                    start -= 1  # the line end before the last statement
                return tokens[:start] + tokens[i + separator :]
            start = i + 1
        depth += (kind == "LBRACE") - (kind == "RBRACE")
    return None


class _NoLexer(Lexer):
    """Takes the place of lark's own lexer, which is not used: tokens come from `lexer.py`."""

    def __init__(self, lexer_conf: object) -> None:
        pass

    def lex(self, lexer_state: object, parser_state: object) -> NoReturn:  # noqa: ARG002
        raise AssertionError("tokens are fed one by one")


@cache
def _grammar() -> Lark:
    text = files("headrace.dsl").joinpath("grammar.lark").read_text("utf-8")
    return Lark(
        text,
        parser="lalr",
        lexer=_NoLexer,
        start="item",
        keep_all_tokens=True,
        maybe_placeholders=False,
        transformer=cast("Transformer[Token, ast.Item]", ItemBuilder()),  # by its methods
    )
