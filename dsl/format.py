"""The one canonical form of a program. `parse(format_module(m)) == m`; comments are kept."""

from collections.abc import Sequence
from typing import assert_never

from . import ast
from .format_code import CodeFormatter, dim, type_expression
from .format_rows import Comments, Row, Rows, braced, bracketed, stacked
from .layout import LINE, Doc, group, indent, join, lay_out
from .literals import write_string

WIDTH = 100


def format_module(module: ast.Module) -> str:
    """Return the canonical text of a module, which ends with one line end."""
    source = module.span.source
    formatter = _ItemFormatter(Comments(source, module.comments))
    elements = [(item, lambda item=item: formatter.item(item)) for item in module.items]
    rows = formatter.comments.rows(elements, None, len(source.text)).rows
    text = lay_out(stacked(_spaced(module.items, rows)), WIDTH)
    return text + "\n" if text else ""


def _spaced(items: Sequence[ast.Item], rows: Sequence[Row]) -> list[Row]:
    """Put an empty line around items that have a body, besides those that are there."""
    spaced: list[Row] = []
    remaining = iter(items)
    after_body = False  # the last item had a body
    comments: list[Row] = []  # they belong to the item below them, unless a line is between
    for row in rows:
        if row.comment:
            comments.append(row)
            continue
        body = _has_body(next(remaining))
        apart = bool(spaced) and (body or after_body)
        block = [*comments, row]
        if apart and not any(part.blank for part in block):
            block[0] = Row(block[0].doc, True, block[0].suffix, block[0].comment)
        spaced += block
        comments, after_body = [], body
    return [*spaced, *comments]


def _has_body(item: ast.Item) -> bool:
    match item:
        case ast.Pipeline() | ast.Schedule() | ast.Test():
            return True
        case ast.Fn(body=ast.Block()):
            return True
        case _:
            return False


def _called(name: ast.String | None) -> str:
    return "" if name is None else f"{write_string(name.value)} as "


class _ItemFormatter(CodeFormatter):
    def item(self, node: ast.Item) -> Doc:
        match node:
            case ast.UseModule(name, alias):
                return f"use {name.text}" + (f" as {alias.text}" if alias is not None else "")
            case ast.UseFile(path, alias):
                return f"use {write_string(path.value)} as {alias.text}"
            case ast.TypeDef(name, type):
                return f"type {name.text} = {type_expression(type)}"
            case ast.Const(name, type, value):
                head = f"const {name.text}: {type_expression(type)} = "
                return join(head, self.expression(value))
            case ast.Model():
                return self._model(node)
            case ast.Fn():
                return self._fn(node)
            case ast.Pipeline():
                return self._pipeline(node)
            case ast.Schedule(pipeline, target, settings):
                on = f" on {write_string(target.value)}" if target is not None else ""
                opening = self.comments.find("{", (target or pipeline).span.end)
                rows = self._settings(settings, opening, node.span.end)
                return join(f"schedule {pipeline.text}{on} ", braced(rows, ",", inline=False))
            case ast.Test():
                return self._test(node)
            case _:
                assert_never(node)

    # ---- models, functions, pipelines

    def _model(self, node: ast.Model) -> Doc:
        head = f"model {node.name.text} = {node.backend.text} {write_string(node.location.value)}"
        clauses: list[Doc] = []
        if node.where:
            constraints = [f"{dim(c.left)} {c.op} {dim(c.right)}" for c in node.where]
            clauses.append(f"where {', '.join(constraints)}")
        if node.batch is not None:
            axes = [f"{name.text} = {axis}" for name, axis in node.batch.axes or ()]
            clauses.append(f"batch axis {{ {', '.join(axes)} }}" if axes else "batch none")
        for pads in node.pads:
            fill = join(*self._comma([self.binding(binding) for binding in pads.fill]))
            clauses.append(join(f"pads {pads.dim.text} with (", fill, ")"))
        signed: Doc = head
        if node.params is not None and node.results is not None:
            start = node.location.span.end
            signature = self._signature(start, node.params, node.results)
            signed = group(head, indent(LINE, signature))
        return group(signed, indent(*(part for clause in clauses for part in (LINE, clause))))

    def _comma(self, docs: Sequence[Doc]) -> list[Doc]:
        return [part for i, doc in enumerate(docs) for part in ((", ", doc) if i else (doc,))]

    def _fn(self, node: ast.Fn) -> Doc:
        signature = self._signature(node.name.span.end, node.params, node.results)
        head = join(f"fn {node.name.text}", signature)
        if isinstance(node.body, ast.Block):
            value = len(node.body.statements) == 1
            value = value and isinstance(node.body.statements[0], ast.Result)
            return join(head, " ", self.block(node.body, inline=value))
        body = node.body
        flags = (" batched" if body.batched else "") + (" pure" if body.pure else "")
        location = f"= {body.kind} {write_string(body.location.value)}{flags}"
        return group(head, indent(LINE, location))

    def _pipeline(self, node: ast.Pipeline) -> Doc:
        clauses: list[Doc] = []
        if node.batch is not None:
            clauses.append(f"batch {node.batch.text}")
        if node.deadline is not None:
            clauses.append(f"deadline {node.deadline.text}")
        if node.sequence:
            idle = f" idle {node.idle.text}" if node.idle is not None else ""
            clauses.append(f"per sequence{idle}")
        arrow = " -> stream " if node.stream else " -> "
        signature = self._signature(node.name.span.end, node.params, node.results, arrow)
        head = join(f"pipeline {_called(node.called)}{node.name.text}", signature)
        between: Doc = LINE if clauses else " "
        lines = (part for clause in clauses for part in (LINE, clause))
        return join(group(head, indent(*lines), between), self.block(node.body, inline=False))

    def _signature(
        self,
        start: int,
        params: Sequence[ast.Param],
        results: Sequence[ast.Param],
        arrow: str = " -> ",
    ) -> Doc:
        find = self.comments.find
        opening = find("(", start)
        closing = find(")", params[-1].span.end if params else opening)
        second = find("(", closing)
        end = find(")", results[-1].span.end if results else second)
        left = [(param, lambda param=param: self._param(param)) for param in params]
        right = [(param, lambda param=param: self._param(param)) for param in results]
        takes = bracketed("(", self.comments.rows(left, opening, closing), ")")
        gives = bracketed("(", self.comments.rows(right, second, end), ")")
        return join(takes, arrow, gives)

    def _param(self, node: ast.Param) -> Doc:
        head = f"{_called(node.called)}{node.name.text}: {type_expression(node.type)}"
        return join(head, " = ", self.expression(node.default)) if node.default else head

    # ---- schedules and tests

    def _settings(self, settings: Sequence[ast.Setting], start: int, end: int) -> Rows:
        return self.comments.rows([(s, lambda s=s: self._setting(s)) for s in settings], start, end)

    def _setting(self, node: ast.Setting) -> Doc:
        if node.settings is not None:
            start = self.comments.find("{", node.key.span.end)
            rows = self._settings(node.settings, start, node.span.end)
            return join(f"{node.key.text} ", braced(rows, ",", inline=True))
        assert node.value is not None, "a setting has a value or settings"
        return join(f"{node.key.text} = ", self.expression(node.value))

    def _test(self, node: ast.Test) -> Doc:
        elements = [(step, lambda step=step: self._step(step)) for step in node.steps]
        start = self.comments.find("{", node.pipeline.span.end)
        rows = self.comments.rows(elements, start, node.span.end)
        head = f"test {write_string(node.title.value)} for {node.pipeline.text} "
        return join(head, braced(rows, "", inline=False))

    def _step(self, node: ast.Stub | ast.Given | ast.Expect) -> Doc:
        match node:
            case ast.Stub(stage, fields):
                docs = self._comma([self.binding(field) for field in fields])
                return join(f"stub {stage.text} = (", *docs, ")")
            case ast.Given(name, value):
                return join(f"given {name.text} = ", self.expression(value))
            case ast.Expect(condition):
                return join("expect ", self.expression(condition))
            case _:
                assert_never(node)
