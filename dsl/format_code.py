"""The canonical form of types, expressions and statements, as documents."""

from collections.abc import Sequence
from typing import assert_never

from . import ast
from .format_rows import Comments, Rows, braced, bracketed
from .layout import LINE, Doc, fill, group, indent, join
from .literals import write_string

_PREFIX, _POSTFIX = 7, 8
_PRECEDENCE = {
    **dict.fromkeys(("or",), 1),
    **dict.fromkeys(("and",), 2),
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%", "@"), 6),
}
_NOT, _COMPARISON = 3, 4


def dim(node: ast.DimExpr, least: int = 0) -> str:
    """Return a dimension; arithmetic weaker than `least` gets brackets."""
    match node:
        case ast.DimInt(value):
            return str(value)
        case ast.DimName(name):
            return name
        case ast.DimUnknown():
            return "_"
        case ast.DimBinary(op, left, right):
            level = _PRECEDENCE[op]
            text = f"{dim(left, level)} {op} {dim(right, level + 1)}"
            return f"({text})" if level < least else text
        case _:
            assert_never(node)


def type_expression(node: ast.TypeExpr) -> str:
    match node:
        case ast.TensorTypeExpr(name, dims):
            return name if dims is None else f"{name}[{', '.join(map(dim, dims))}]"
        case ast.ListTypeExpr(item, maximum):
            most = f", {dim(maximum)}" if maximum is not None else ""
            return f"list<{type_expression(item)}{most}>"
        case ast.OptionalTypeExpr(item):
            return f"{type_expression(item)}?"
        case _:
            assert_never(node)


def _precedence(node: ast.Expr) -> int:
    match node:
        case ast.Try():
            return 0
        case ast.Binary(op):
            return _PRECEDENCE[op]
        case ast.Unary(op):
            return _NOT if op == "not" else _PREFIX
        case ast.If() | ast.Match() | ast.For() | ast.Loop():
            return _PREFIX
        case _:
            return _POSTFIX


def _ends_open(node: ast.Expr) -> bool:
    """Whether the text ends with an `if` that a following `else` would join."""
    match node:
        case ast.If(orelse=None):
            return True
        case ast.If(orelse=ast.If() as orelse):
            return _ends_open(orelse)
        case ast.Binary(right=part) | ast.Unary(operand=part):
            return _ends_open(part)
        case _:
            return False


class CodeFormatter:
    def __init__(self, comments: Comments) -> None:
        self.comments = comments

    # ---- expressions

    def expression(self, node: ast.Expr, least: int = 0) -> Doc:
        """Return an expression; one that binds weaker than `least` gets brackets."""
        doc = self._expression(node)
        return join("(", doc, ")") if _precedence(node) < least else doc

    def _expression(self, node: ast.Expr) -> Doc:
        match node:
            case ast.Name(text):
                return text
            case ast.Number() | ast.Duration() | ast.Size():
                return node.text
            case ast.String(value):
                return write_string(value)
            case ast.Bool(value):
                return "true" if value else "false"
            case ast.ListLiteral(items):
                return self._list(node, items)
            case ast.Attribute(value, name):
                return join(self.expression(value, _POSTFIX), f".{name.text}")
            case ast.Call(callee, arguments):
                head = self.expression(callee, _POSTFIX)
                elements = [(a, lambda a=a: self._argument(a)) for a in arguments]
                start = self.comments.find("(", callee.span.end)
                rows = self.comments.rows(elements, start, node.span.end)
                return join(head, bracketed("(", rows, ")"))
            case ast.Index(value, items):
                head = self.expression(value, _POSTFIX)
                elements = [(item, lambda item=item: self._index(item)) for item in items]
                start = self.comments.find("[", value.span.end)
                rows = self.comments.rows(elements, start, node.span.end)
                return join(head, bracketed("[", rows, "]"))
            case ast.Unary(op, operand):
                inner = self.expression(operand, _NOT if op == "not" else _PREFIX)
                return join("not " if op == "not" else "-", inner)
            case ast.Binary():
                return self._binary(node)
            case ast.If():
                return group(*self._if(node, inline=self._inline_if(node)))
            case ast.Match():
                return self._match(node)
            case ast.For(targets, iterable, body):
                head = ["for ", ", ".join(map(_target, targets)), " in "]
                inline = len(body.statements) == 1 and isinstance(body.statements[0], ast.Yield)
                return group(*head, self.expression(iterable), " ", self.block(body, inline))
            case ast.Loop():
                return self._loop(node)
            case ast.Try(body, within, orelse):
                late = [LINE, "within ", self._before_else(within)] if within is not None else []
                first = self._before_else(body)
                return group("try ", first, indent(*late, LINE, "else ", self._either(orelse)))
            case _:
                assert_never(node)

    def _argument(self, node: ast.Argument) -> Doc:
        value = self.expression(node.value)
        return value if node.name is None else join(f"{node.name.text} = ", value)

    def _index(self, node: ast.Expr | ast.Slice) -> Doc:
        if not isinstance(node, ast.Slice):
            return self.expression(node)
        parts: list[Doc] = [self.expression(node.start) if node.start is not None else "", ":"]
        if node.stop is not None:
            parts.append(self.expression(node.stop))
        if node.step is not None:
            parts += [":", self.expression(node.step)]
        return join(*parts)

    def _list(self, node: ast.ListLiteral, items: Sequence[ast.Expr]) -> Doc:
        elements = [(item, lambda item=item: self.expression(item)) for item in items]
        rows = self.comments.rows(elements, node.span.start, node.span.end)
        plain = all(isinstance(item, ast.Number | ast.String | ast.Bool) for item in items)
        return bracketed("[", rows, "]", wrap=plain)

    def _binary(self, node: ast.Binary) -> Doc:
        """Return a chain of operators of one precedence, broken before each of them."""
        level = _PRECEDENCE[node.op]
        tail: list[Doc] = []
        left: ast.Expr = node
        while isinstance(left, ast.Binary) and _PRECEDENCE[left.op] == level:
            tail += [self.expression(left.right, level + 1), f"{left.op} ", LINE]
            left = left.left
            if level == _COMPARISON:
                break
        first = self.expression(left, level + 1 if level == _COMPARISON else level)
        return group(first, indent(*reversed(tail)))

    def _inline_if(self, node: ast.If) -> bool:
        blocks = [node.then]
        orelse = node.orelse
        while isinstance(orelse, ast.If):
            blocks.append(orelse.then)
            orelse = orelse.orelse
        if orelse is not None:
            blocks.append(orelse)
        return all(_is_value(block) for block in blocks)

    def _if(self, node: ast.If, inline: bool) -> list[Doc]:
        parts = ["if ", self.expression(node.condition), " ", *self._arms(node.then, inline)]
        match node.orelse:
            case None:
                return parts
            case ast.If() as orelse:
                return [*parts, " else ", *self._if(orelse, inline)]
            case orelse:
                return [*parts, " else ", *self._arms(orelse, inline)]

    def _arms(self, block: ast.Block, inline: bool) -> list[Doc]:
        """Return a block of an `if` without a group: all blocks of it break together."""
        rows = self._rows(block)
        if rows.commented or not inline:
            return [braced(rows, "", inline=False)]
        return ["{", indent(LINE, rows.rows[0].doc), LINE, "}"]

    def _match(self, node: ast.Match) -> Doc:
        elements = [(arm, lambda arm=arm: self._arm(arm)) for arm in node.arms]
        start = self.comments.find("{", node.subject.span.end)
        rows = self.comments.rows(elements, start, node.span.end)
        return join("match ", self.expression(node.subject), " ", braced(rows, ",", inline=True))

    def _arm(self, node: ast.Arm) -> Doc:
        patterns = " | ".join(map(_pattern, node.patterns))
        return join(patterns, " => ", self._either(node.body))

    def _loop(self, node: ast.Loop) -> Doc:
        elements = [(c, lambda c=c: self._carried(c)) for c in node.carried]
        start = self.comments.find("(", node.span.start)
        rows = self.comments.rows(elements, start, node.maximum.span.start)
        return join(
            "loop ",
            bracketed("(", rows, ")"),
            " max ",
            self.expression(node.maximum, 1),
            " ",
            self.block(node.body, inline=False),
        )

    def _carried(self, node: ast.Carried) -> Doc:
        head = f"{node.name.text}: {type_expression(node.type)} = "
        return join(head, self.expression(node.init))

    def _either(self, node: "ast.Expr | ast.Block") -> Doc:
        if isinstance(node, ast.Block):
            return self.block(node, _is_value(node))
        return self.expression(node)

    def _before_else(self, node: "ast.Expr | ast.Block") -> Doc:
        if isinstance(node, ast.Block):
            return self.block(node, _is_value(node))
        doc = self.expression(node, 1)
        return join("(", doc, ")") if _ends_open(node) else doc

    # ---- statements

    def block(self, node: ast.Block, inline: bool) -> Doc:
        """Return a block; on one line when `inline` and it fits."""
        return braced(self._rows(node), "", inline)

    def _rows(self, node: ast.Block) -> Rows:
        elements = [(s, lambda s=s: self.statement(s)) for s in node.statements]
        return self.comments.rows(elements, node.span.start, node.span.end)

    def statement(self, node: ast.Statement) -> Doc:
        match node:
            case ast.Assign(targets, value):
                return join(", ".join(map(_target, targets)), " = ", self.expression(value))
            case ast.Yield(fields, when):
                return self._fields("yield ", fields, when)
            case ast.Return(fields, when):
                return self._fields("return ", fields, when)
            case ast.Emit(fields, when):
                return self._fields("emit ", fields, when)
            case ast.Next(fields):
                return self._fields("next ", fields, None)
            case ast.StopWhen(condition):
                return join("stop when ", self.expression(condition))
            case ast.State(name, type, init):
                head = f"state {name.text}: {type_expression(type)} = "
                return join(head, self.expression(init))
            case ast.Result(value):
                return self.expression(value)
            case _:
                assert_never(node)

    def _fields(self, word: str, fields: Sequence[ast.Binding], when: ast.Expr | None) -> Doc:
        first, *rest = (self.binding(field) for field in fields)
        parts: list[Doc] = [part for field in rest for part in (",", fill(field))]
        if when is not None:
            parts.append(fill("when ", self.expression(when)))
        return group(word, first, indent(*parts))

    def binding(self, node: ast.Binding) -> Doc:
        value = self.expression(node.value)
        return value if node.name is None else join(f"{node.name.text} = ", value)


def _is_value(block: ast.Block) -> bool:
    return len(block.statements) == 1 and isinstance(block.statements[0], ast.Result)


def _target(node: ast.Ident | ast.Wildcard) -> str:
    return node.text if isinstance(node, ast.Ident) else "_"


def _pattern(node: ast.Number | ast.String | ast.Bool | ast.Wildcard) -> str:
    match node:
        case ast.Number():
            return node.text
        case ast.String(value):
            return write_string(value)
        case ast.Bool(value):
            return "true" if value else "false"
        case ast.Wildcard():
            return "_"
        case _:
            assert_never(node)
