"""Tree nodes for top-level items: one method a rule of `grammar.lark`."""

from typing import TypeVar

from . import ast
from .build_code import (
    CodeBuilder,
    GivenTwice,
    Group,
    NotWhole,
    Parts,
    after,
    group,
    nodes,
    span_of,
)
from .literals import read_quantity
from .token import Token


class ItemBuilder(CodeBuilder):
    def use_module(self, parts: Parts) -> ast.UseModule:
        return ast.UseModule(parts[1], after(parts, "AS"), span=span_of(parts))

    def use_file(self, parts: Parts) -> ast.UseFile:
        return ast.UseFile(parts[1], parts[3], span=span_of(parts))

    def type_def(self, parts: Parts) -> ast.TypeDef:
        return ast.TypeDef(parts[1], parts[3], span=span_of(parts))

    def const(self, parts: Parts) -> ast.Const:
        return ast.Const(*nodes(parts), span=span_of(parts))

    def param(self, parts: Parts) -> ast.Param:
        called, inner = _called(parts)
        return ast.Param(*nodes(inner), called=called, span=span_of(parts))

    def params(self, parts: Parts) -> Group:
        return group(parts)

    # ---- models

    def model(self, parts: Parts) -> ast.Model:
        clauses = [part for part in parts if isinstance(part, Group)]
        params, results = clauses[:2] if after(parts, "ARROW") is not None else (None, None)
        axes = [part for part in parts if isinstance(part, ast.BatchAxis)]
        where = clauses[2:] if params is not None else clauses
        _at_most_one(where, "where")
        _at_most_one(axes, "batch")
        return ast.Model(
            parts[1],
            parts[3],
            parts[4],
            params.items if params is not None else None,
            results.items if results is not None else None,
            where[0].items if where else (),
            axes[0] if axes else None,
            tuple(part for part in parts if isinstance(part, ast.Pads)),
            span=span_of(parts),
        )

    def where(self, parts: Parts) -> Group:
        return group(parts)

    def constraint(self, parts: Parts) -> ast.Constraint:
        left, op, right = parts
        return ast.Constraint(op.text, left, right, span=span_of(parts))

    def batch_axis(self, parts: Parts) -> ast.BatchAxis:
        axes = tuple(part.items for part in parts if isinstance(part, Group))
        return ast.BatchAxis(axes or None, span=span_of(parts))

    def axis(self, parts: Parts) -> Group:
        value = read_quantity(parts[2].text)[0]
        if not isinstance(value, int):
            raise NotWhole(parts[2].span, "an axis")
        span = span_of(parts)
        return Group((parts[0], value), span.start, span.end, span.source)

    def pads(self, parts: Parts) -> ast.Pads:
        dim, *fill = nodes(parts)
        return ast.Pads(dim, tuple(fill), span=span_of(parts))

    # ---- functions and pipelines

    def fn(self, parts: Parts) -> ast.Fn:
        params, results = (part for part in parts if isinstance(part, Group))
        return ast.Fn(parts[1], params.items, results.items, parts[-1], span=span_of(parts))

    def external(self, parts: Parts) -> ast.External:
        kind, location, *flags = parts
        words = [flag.text for flag in flags]
        for word in ("batched", "pure"):
            _at_most_one([flag for flag in flags if flag.text == word], word)
        return ast.External(
            kind.text, location, "batched" in words, "pure" in words, span=span_of(parts)
        )

    def pipeline(self, parts: Parts) -> ast.Pipeline:
        groups = [part for part in parts if isinstance(part, Group)]
        params, results, *clauses = groups
        called, inner = _called(parts[1:])
        batch, deadline, sequence = (
            _at_most_one([clause for clause in clauses if clause.items[0] == word], word)
            for word in ("batch", "deadline", "per")
        )
        return ast.Pipeline(
            inner[0],
            params.items,
            results.items,
            parts[-1],
            stream=any(isinstance(part, Token) and part.type == "STREAM" for part in parts),
            batch=batch.items[1] if batch is not None else None,
            deadline=deadline.items[1] if deadline is not None else None,
            sequence=sequence is not None,
            idle=sequence.items[1] if sequence is not None else None,
            called=called,
            span=span_of(parts),
        )

    def _clause(self, parts: Parts) -> Group:
        span = span_of(parts)
        values = (*nodes(parts), None)
        return Group((parts[0].text, values[0]), span.start, span.end, span.source)

    def pipeline_batch(self, parts: Parts) -> Group:
        return self._clause(parts)

    def pipeline_deadline(self, parts: Parts) -> Group:
        return self._clause(parts)

    def pipeline_sequence(self, parts: Parts) -> Group:
        return self._clause(parts)

    # ---- schedules

    def schedule(self, parts: Parts) -> ast.Schedule:
        return ast.Schedule(parts[1], after(parts, "ON"), parts[-1].items, span=span_of(parts))

    def settings(self, parts: Parts) -> Group:
        return group(parts)

    def setting(self, parts: Parts) -> ast.Setting:
        last = parts[-1]
        if isinstance(last, Group):
            return ast.Setting(parts[0], None, last.items, span=span_of(parts))
        return ast.Setting(parts[0], last, None, span=span_of(parts))

    def key(self, parts: Parts) -> ast.Ident:
        if len(parts) == 1:
            return parts[0]
        return ast.Ident(f"{parts[0].text}({parts[2].text})", span=span_of(parts))

    # ---- tests

    def test(self, parts: Parts) -> ast.Test:
        title, pipeline, *steps = nodes(parts)
        return ast.Test(title, pipeline, tuple(steps), span=span_of(parts))

    def stub(self, parts: Parts) -> ast.Stub:
        stage, *fields = nodes(parts)
        return ast.Stub(stage, tuple(fields), span=span_of(parts))

    def given(self, parts: Parts) -> ast.Given:
        return ast.Given(*nodes(parts), span=span_of(parts))

    def expect(self, parts: Parts) -> ast.Expect:
        return ast.Expect(parts[1], span=span_of(parts))


def _called(parts: Parts) -> tuple[ast.String | None, Parts]:
    """Return the name that `"..." as` gives, and the parts behind it."""
    return (parts[0], parts[2:]) if isinstance(parts[0], ast.String) else (None, parts)


_Part = TypeVar("_Part", Group, ast.BatchAxis, Token)


def _at_most_one(parts: list[_Part], what: str) -> _Part | None:
    if len(parts) > 1:
        raise GivenTwice(parts[1].span, parts[0].span, what)
    return parts[0] if parts else None
