"""Tree nodes for types, statements and expressions: one method a rule of `grammar.lark`.

Lark calls a method with what the parts of its rule became: tokens (all of them, also brackets)
and nodes. A node's span runs from the first part to the last.
"""

from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, cast

from . import ast
from .literals import read_quantity, read_string
from .sends import sends
from .source import Source, Span
from .token import Token

Parts: TypeAlias = list[Any]  # Any: tokens, nodes and Groups, as the rule says


class Group(NamedTuple):
    """Several nodes and the span of the brackets or words around them."""

    items: tuple[Any, ...]  # Any: the rule that makes the group says what is in it
    start: int
    end: int
    source: Source

    @property
    def span(self) -> Span:
        return Span(self.source, self.start, self.end)


def span_of(parts: Parts) -> Span:
    first, last = parts[0].span, parts[-1].span
    return first if first is last else Span(first.source, first.start, last.end)


def nodes(parts: Parts) -> tuple[Any, ...]:  # Any: as `Group.items`
    """Return the parts that are nodes."""
    return tuple(part for part in parts if isinstance(part, ast.Node))


def group(parts: Parts) -> Group:
    span = span_of(parts)
    return Group(nodes(parts), span.start, span.end, span.source)


def after(parts: Parts, token_type: str) -> Any | None:  # Any: an expression or a block
    """Return the part that follows the token of a type, None when there is no such token."""
    for i, part in enumerate(parts):
        if isinstance(part, Token) and part.type == token_type:
            return parts[i + 1]
    return None


class CodeBuilder:
    # ---- leaves

    def ident(self, parts: Parts) -> ast.Ident:
        return ast.Ident(parts[0].text, span=parts[0].span)

    def name(self, parts: Parts) -> ast.Name:
        return ast.Name(parts[0].text, span=parts[0].span)

    def number(self, parts: Parts) -> ast.Number:
        text = parts[0].text
        return ast.Number(read_quantity(text)[0], text, span=parts[0].span)

    def negative(self, parts: Parts) -> ast.Number:
        number: ast.Number = parts[1]
        return ast.Number(-number.value, f"-{number.text}", span=span_of(parts))

    def string(self, parts: Parts) -> ast.String:
        return ast.String(read_string(parts[0].text), span=parts[0].span)

    def bool(self, parts: Parts) -> ast.Bool:
        return ast.Bool(parts[0].type == "TRUE", span=parts[0].span)

    def duration(self, parts: Parts) -> ast.Duration:
        text = parts[0].text
        return ast.Duration(float(read_quantity(text)[0]), text, span=parts[0].span)

    def size(self, parts: Parts) -> ast.Size:
        text = parts[0].text
        return ast.Size(int(read_quantity(text)[0]), text, span=parts[0].span)

    def wildcard(self, parts: Parts) -> ast.Wildcard:
        return ast.Wildcard(span=parts[0].span)

    def dotted(self, parts: Parts) -> ast.Ident:
        if len(parts) == 1:
            return parts[0]
        return ast.Ident(".".join(ident.text for ident in nodes(parts)), span=span_of(parts))

    def paren(self, parts: Parts) -> ast.Node:
        return replace(parts[1], span=span_of(parts))

    # ---- types

    def dim_int(self, parts: Parts) -> ast.DimInt:
        value = read_quantity(parts[0].text)[0]
        if not isinstance(value, int):
            raise NotWhole(parts[0].span, "a dimension")
        return ast.DimInt(value, span=parts[0].span)

    def dim_name(self, parts: Parts) -> ast.DimName:
        return ast.DimName(parts[0].text, span=parts[0].span)

    def dim_unknown(self, parts: Parts) -> ast.DimUnknown:
        return ast.DimUnknown(span=parts[0].span)

    def dim_binary(self, parts: Parts) -> ast.DimBinary:
        left, op, right = parts
        return ast.DimBinary(op.text, left, right, span=span_of(parts))

    def tensor_type(self, parts: Parts) -> ast.TensorTypeExpr:
        name, *dims = nodes(parts)
        bracketed = len(parts) > 1
        return ast.TensorTypeExpr(
            name.text, tuple(dims) if bracketed else None, span=span_of(parts)
        )

    def list_type(self, parts: Parts) -> ast.ListTypeExpr:
        item, *maximum = nodes(parts)
        return ast.ListTypeExpr(item, maximum[0] if maximum else None, span=span_of(parts))

    def optional_type(self, parts: Parts) -> ast.OptionalTypeExpr:
        return ast.OptionalTypeExpr(parts[0], span=span_of(parts))

    # ---- statements

    def block(self, parts: Parts) -> ast.Block:
        statements = cast("tuple[ast.Statement, ...]", nodes(parts))  # by the rule
        for statement in statements[:-1]:
            if isinstance(statement, ast.Result) and not sends(statement.value):
                raise UnusedValue(statement)
        return ast.Block(statements, span=span_of(parts))

    def assign(self, parts: Parts) -> ast.Assign:
        *targets, value = nodes(parts)
        return ast.Assign(tuple(targets), value, span=span_of(parts))

    def binding(self, parts: Parts) -> ast.Binding:
        name = parts[0] if len(parts) == 3 else None
        return ast.Binding(name, parts[-1], span=span_of(parts))

    def yield_(self, parts: Parts) -> ast.Yield:
        return ast.Yield(_bindings(parts), after(parts, "WHEN"), span=span_of(parts))

    def return_(self, parts: Parts) -> ast.Return:
        return ast.Return(_bindings(parts), after(parts, "WHEN"), span=span_of(parts))

    def emit(self, parts: Parts) -> ast.Emit:
        return ast.Emit(_bindings(parts), after(parts, "WHEN"), span=span_of(parts))

    def next(self, parts: Parts) -> ast.Next:
        return ast.Next(_bindings(parts), span=span_of(parts))

    def stop(self, parts: Parts) -> ast.StopWhen:
        return ast.StopWhen(parts[-1], span=span_of(parts))

    def state(self, parts: Parts) -> ast.State:
        return ast.State(*nodes(parts), span=span_of(parts))

    def result(self, parts: Parts) -> ast.Result:
        return ast.Result(parts[0], span=parts[0].span)

    # ---- expressions

    def list_literal(self, parts: Parts) -> ast.ListLiteral:
        return ast.ListLiteral(nodes(parts), span=span_of(parts))

    def attribute(self, parts: Parts) -> ast.Attribute:
        return ast.Attribute(parts[0], parts[2], span=span_of(parts))

    def argument(self, parts: Parts) -> ast.Argument:
        name = parts[0] if len(parts) == 3 else None
        return ast.Argument(name, parts[-1], span=span_of(parts))

    def call(self, parts: Parts) -> ast.Call:
        return ast.Call(parts[0], nodes(parts[1:]), span=span_of(parts))

    def slice(self, parts: Parts) -> ast.Slice:
        bounds: list[ast.Expr | None] = [None]
        for part in parts:
            if isinstance(part, Token):
                bounds.append(None)
            else:
                bounds[-1] = part
        start, stop, step = (*bounds, None)[:3]
        return ast.Slice(start, stop, step, span=span_of(parts))

    def index(self, parts: Parts) -> ast.Index:
        return ast.Index(parts[0], nodes(parts[1:]), span=span_of(parts))

    def unary(self, parts: Parts) -> ast.Unary:
        return ast.Unary(parts[0].text, parts[1], span=span_of(parts))

    def binary(self, parts: Parts) -> ast.Binary:
        left, op, right = parts
        return ast.Binary(op.text, left, right, span=span_of(parts))

    def if_(self, parts: Parts) -> ast.If:
        return ast.If(parts[1], parts[2], after(parts, "ELSE"), span=span_of(parts))

    def match(self, parts: Parts) -> ast.Match:
        return ast.Match(parts[1], nodes(parts[2:]), span=span_of(parts))

    def arm(self, parts: Parts) -> ast.Arm:
        *patterns, body = nodes(parts)
        return ast.Arm(tuple(patterns), body, span=span_of(parts))

    def for_(self, parts: Parts) -> ast.For:
        *targets, iterable, body = nodes(parts)
        return ast.For(tuple(targets), iterable, body, span=span_of(parts))

    def carried(self, parts: Parts) -> ast.Carried:
        return ast.Carried(*nodes(parts), span=span_of(parts))

    def loop(self, parts: Parts) -> ast.Loop:
        *carried, maximum, body = nodes(parts)
        return ast.Loop(tuple(carried), maximum, body, span=span_of(parts))

    def try_(self, parts: Parts) -> ast.Try:
        return ast.Try(parts[1], after(parts, "WITHIN"), parts[-1], span=span_of(parts))


def _bindings(parts: Parts) -> tuple[ast.Binding, ...]:
    return tuple(part for part in parts if isinstance(part, ast.Binding))


class Refused(Exception):
    """The parts fit the grammar and still mean nothing; `syntax_errors.py` says why."""

    def __init__(self, span: Span) -> None:
        self.span = span
        super().__init__(str(span))


class UnusedValue(Refused):
    """An expression that is not the last statement of its block."""

    def __init__(self, result: ast.Result) -> None:
        self.value = result.value
        super().__init__(result.span)


class NotWhole(Refused):
    """`what` has to be a whole number."""

    def __init__(self, span: Span, what: str) -> None:
        self.what = what
        super().__init__(span)


class GivenTwice(Refused):
    """A clause that may stand once stands twice."""

    def __init__(self, span: Span, first: Span, what: str) -> None:
        self.first, self.what = first, what
        super().__init__(span)
