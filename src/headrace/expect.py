"""Expressions of tests, evaluated with NumPy's meaning: what `given`, `stub` and `expect` say.

Besides names, literals, operators and indexing there are `calls(stage)`, `len(x)`, `file("...")`
(a file's bytes), the loaders of `const`, and the ops of the standard library, which run through
their references. A list literal takes the dtype of what it meets.
"""

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

import numpy as np

from .compiler.assets import LOADERS, Missing, Unreadable, locate
from .dsl import ast
from .dsl.diagnostic import Diagnostic, Label
from .dsl.nearest import nearest
from .dsl.source import Source, Span
from .dsl.types import DType
from .stdlib.catalog import load_catalog

Value: TypeAlias = Any  # Any: numbers, text, bytes, arrays, nested lists of literals
Calls: TypeAlias = Callable[[str], "int | None"]
"""How often a stage ran; None when there is no such stage."""
Step: TypeAlias = ast.Stub | ast.Given | ast.Expect

_OPERATORS: Final[Mapping[str, Callable[[Value, Value], Value]]] = MappingProxyType(
    {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": operator.truediv,
        "%": operator.mod,
        "@": operator.matmul,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "and": np.logical_and,
        "or": np.logical_or,
    }
)
_DTYPES: Final = frozenset(dtype.value for dtype in DType)


class Unclear(Exception):
    """An expression has no value; `diagnostic` says why, and where."""

    def __init__(self, message: str, span: Span, help: str | None = None) -> None:
        self.diagnostic = Diagnostic("HR513", message, Label(span), help=help)
        super().__init__(message)


def rounds(test: ast.Test) -> list[list[Step]]:
    """Divide a test's steps: a `given` behind an `expect`, or of a name that the request has been
    given already, begins the next request."""
    rounds: list[list[Step]] = [[]]
    for step in test.steps:
        if isinstance(step, ast.Given) and any(
            isinstance(one, ast.Expect)
            or (isinstance(one, ast.Given) and one.name.text == step.name.text)
            for one in rounds[-1]
        ):
            rounds.append([])
        rounds[-1].append(step)
    return rounds


class Evaluator:
    """Evaluates with the values of some names. `calls` is None where nothing has run yet."""

    def __init__(self, source: Source, names: Mapping[str, Value], calls: Calls | None) -> None:
        self._source, self._names, self._calls = source, names, calls

    def value(self, node: ast.Expr) -> Value:
        """Return the value of an expression; raises Unclear."""
        try:
            return self._value(node)
        except (ValueError, TypeError, IndexError, ArithmeticError) as error:
            raise Unclear(f"this has no value: {error}", node.span) from error

    def _value(self, node: ast.Expr) -> Value:
        match node:
            case ast.Number() | ast.String() | ast.Bool():
                return node.value
            case ast.Name(text):
                return self._name(text, node.span)
            case ast.ListLiteral(items):
                return [self.value(item) for item in items]
            case ast.Unary("-", operand):
                return operator.neg(_array(self.value(operand)))
            case ast.Unary(_, operand):
                return np.logical_not(_array(self.value(operand)))
            case ast.Binary(op, left, right):
                return self._binary(op, self.value(left), self.value(right))
            case ast.Index(value, items):
                keys = [self._key(item) for item in items]
                return _array(self.value(value))[keys[0] if len(keys) == 1 else tuple(keys)]
            case ast.Call():
                return self._call(node)
            case _:
                raise Unclear("a test cannot evaluate this", node.span)

    def _name(self, name: str, span: Span) -> Value:
        if name in self._names:
            return self._names[name]
        near = nearest(name, self._names)
        known = ", ".join(f"`{one}`" for one in self._names) or "none here"
        help = f"did you mean `{near}`?" if near else f"names are {known}"
        raise Unclear(f"there is no `{name}`", span, help)

    def _key(self, item: "ast.Expr | ast.Slice") -> Value:
        if not isinstance(item, ast.Slice):
            return self.value(item)
        bounds = (item.start, item.stop, item.step)
        return slice(*(None if bound is None else self.value(bound) for bound in bounds))

    def _binary(self, op: str, left: Value, right: Value) -> Value:
        left, right = _alike(left, right)
        if op == "==":
            return same(left, right)
        if op == "!=":
            return np.logical_not(same(left, right))
        return _OPERATORS[op](left, right)

    def _call(self, node: ast.Call) -> Value:
        name = dotted(node.callee) or ""
        arguments = node.arguments
        if name == "calls" and self._calls is not None and len(arguments) == 1:
            return self._count(arguments[0].value, self._calls)
        if name == "len" and len(arguments) == 1:
            return len(self.value(arguments[0].value))
        if name == "file" or name in LOADERS:
            return self._load(node, name)
        family, _, op_name = name.rpartition(".")
        op = load_catalog().find(family or None, op_name)
        if op is None:
            raise Unclear(f"a test cannot call `{node.callee.span.text}`", node.callee.span)
        values: dict[str, Value] = {p.name: p.default for p in op.params if p.has_default}
        for parameter, argument in zip(op.params, arguments, strict=False):
            named = argument.name.text if argument.name is not None else parameter.name
            values[named] = self._argument(argument.value)
        missing = [p.name for p in op.params if p.name not in values]
        unknown = set(values) - {p.name for p in op.params}
        if missing or unknown or len(arguments) > len(op.params):
            takes = ", ".join(parameter.name for parameter in op.params)
            raise Unclear(f"`{name}` takes ({takes})", node.span)
        return op.reference(*(values[parameter.name] for parameter in op.params))

    def _argument(self, node: ast.Expr) -> Value:
        """Return an op's argument, which may be a dtype unless a value has that name."""
        if isinstance(node, ast.Name) and node.text in _DTYPES and node.text not in self._names:
            return DType(node.text)
        return _array(self.value(node))

    def _count(self, stage: ast.Expr, calls: Calls) -> int:
        name = dotted(stage)
        count = calls(name) if name is not None else None
        if count is None:
            raise Unclear(f"there is no stage `{stage.span.text}`", stage.span)
        return count

    def _load(self, node: ast.Call, loader: str) -> Value:
        match node.arguments:
            case (ast.Argument(None, ast.String(location)),):
                pass
            case _:
                raise Unclear(f'write `{loader}("path")`', node.span)
        try:
            content = locate(location, self._source.directory).read_bytes()
            return content if loader == "file" else LOADERS[loader](content).literal
        except Missing as missing:
            raise Unclear(missing.message, node.arguments[0].span, missing.help) from None
        except (OSError, Unreadable) as error:
            raise Unclear(f"`{location}`: {error}", node.arguments[0].span) from None


def dotted(node: ast.Expr) -> str | None:
    """Return `image.decode` for what is written so, None for anything else."""
    match node:
        case ast.Name(text):
            return text
        case ast.Attribute(value, name):
            left = dotted(value)
            return None if left is None else f"{left}.{name.text}"
        case _:
            return None


def same(left: Value, right: Value) -> Value:
    """Compare by element. Arrays of different shapes differ; a single value meets each element."""
    shapes = np.shape(left), np.shape(right)
    if () not in shapes and shapes[0] != shapes[1]:
        return False
    return np.asarray(left) == np.asarray(right) if shapes != ((), ()) else bool(left == right)


def _alike(left: Value, right: Value) -> tuple[Value, Value]:
    """Turn list literals into arrays, of the other side's dtype where that holds them."""
    if isinstance(left, list):
        left = _literal(cast("list[Value]", left), right)
    if isinstance(right, list):
        right = _literal(cast("list[Value]", right), left)
    return left, right


def _literal(items: list[Value], other: Value) -> Value:
    array = _array(items)
    if isinstance(other, np.ndarray | np.generic) and other.dtype.kind in "fiu":
        wanted = array.astype(other.dtype)
        if other.dtype.kind == "f" or np.array_equal(wanted, array):
            return wanted
    return array


def _array(value: Value) -> Value:
    if not isinstance(value, list | tuple):
        return value
    array = np.array(value)
    return array.astype(object) if array.dtype.kind in "US" else array
