"""Operators: those on literals are computed here, all others are ops of `math`."""

import math
import operator
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.types import UNKNOWN, DType, ListType, OptionalType, TensorType
from ...stdlib.dtypes import from_numpy, integer_range
from ...stdlib.op import Argument, Literal, Op, OpTypeError
from ..graph import FunctionCall, If, ModelCall, Region
from ..rewrite import walk
from .agree import adapt
from .body import Body
from .literals import LiteralError, typed
from .merge import ArmResult, merge
from .mismatch import absent_help, made_here, named
from .operands import BROKEN, Broken, Known, Operand, Single, collapsed, weak_number
from .ops import apply_op, in_terms_of_arguments

BINARY: Final = MappingProxyType(
    {
        "+": "add",
        "-": "sub",
        "*": "mul",
        "/": "div",
        "%": "mod",
        "@": "matmul",
        "==": "eq",
        "!=": "ne",
        "<": "lt",
        "<=": "le",
        ">": "gt",
        ">=": "ge",
        "and": "and",
        "or": "or",
    }
)
UNARY: Final = MappingProxyType({"-": "neg", "not": "not"})

_DECIDES: Final = MappingProxyType({"and": False, "or": True})
"""The value of the left side that decides alone."""

_BOOL: Final = TensorType(DType.BOOL)

# Any: numbers of either kind, which the callers have made sure of
_ON_NUMBERS: Final[MappingProxyType[str, Callable[[Any, Any], Any]]] = MappingProxyType(
    {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "/": lambda left, right: _quotient(left, right),
        "%": lambda left, right: _remainder(left, right),
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)


def lower_binary(body: Body, expr: ast.Binary, names: tuple[str, ...]) -> Operand:
    left, inner = body.single(expr.left), body.continued()
    right = inner.single(expr.right)
    if expr.op in _DECIDES and _calls_out(inner) and _is_flag(body, left) and _is_flag(body, right):
        return _unless_decided(body, expr, left, ArmResult(inner, right, expr.right.span), names)
    body.nodes.extend(inner.nodes)
    op = body.catalog.op(f"math.{BINARY[expr.op]}")
    if isinstance(left, Broken) or isinstance(right, Broken):
        return BROKEN
    if isinstance(left, Known) and isinstance(right, Known) and left.weak and right.weak:
        folded = _folded(body, expr, left.literal, right.literal)
        if folded is not None:
            return folded
    if _is_empty(body, left, expr.left) or _is_empty(body, right, expr.right):
        return BROKEN
    if _is_absent(body, left, expr.left) or _is_absent(body, right, expr.right):
        return BROKEN
    try:
        left = _like(body, left, right, expr.left)
        right = _like(body, right, left, expr.right)
        if _divides_by_zero(body, expr, left, right):
            return BROKEN
        return collapsed(_applied(body, op, (left, right), expr, names))
    except LiteralError as error:
        side = expr.left if isinstance(left, Known) else expr.right
        help = _cast_help(expr, left, right, "the other side")
        body.problems.error("HR216", f"{error}", side.span, help=help)
    except OpTypeError as error:
        exprs = {"left": [expr.left], "right": [expr.right]}
        about = named(exprs[error.parameter][0]) if error.parameter in exprs else "each side"
        wants = in_terms_of_arguments(error.wants, exprs)
        help = _cast_help(expr, left, right)
        if expr.op in ("and", "or") and (number := _number_of(body, expr, left, right)) is not None:
            about, wants, help = (
                named(number),
                "bool",
                f"a number is no bool: {_unlike_zero(number)}",
            )
        body.problems.error(
            "HR226",
            f"`{expr.op}` does not take {_shown(body, left)} and {_shown(body, right)}",
            expr.span,
            secondary=(_label(body, expr.left, left), _label(body, expr.right, right)),
            notes=(f"{about} should be {wants}",),
            help=help,
        )
    return BROKEN


def _number_of(body: Body, expr: ast.Binary, left: Single, right: Single) -> ast.Expr | None:
    """Return the first side that is a number."""
    for side, single in ((expr.left, left), (expr.right, right)):
        kind = body.resolve(single.type)
        if isinstance(kind, TensorType) and kind.dtype.is_number:
            return side
    return None


def _unlike_zero(number: ast.Expr) -> str:
    simple = isinstance(number, ast.Name | ast.Attribute | ast.Call | ast.Index | ast.Number)
    return f"write `{number.span.text} != 0`" if simple else "compare it, as with `!= 0`"


def _calls_out(body: Body) -> bool:
    """Whether a region runs a model or a function."""
    region = Region((), tuple(body.nodes), ())
    return any(isinstance(node.kind, ModelCall | FunctionCall) for node in walk(region))


def _is_flag(body: Body, single: Single) -> bool:
    return body.resolve(single.type) == _BOOL


def _unless_decided(
    body: Body, expr: ast.Binary, left: Single, right: ArmResult, names: tuple[str, ...]
) -> Operand:
    """Make an `if` of `and` or `or`: what the left side decides alone runs nothing on the right."""
    decided = _DECIDES[expr.op]
    known = ArmResult(body.inside(), Known(decided, _BOOL), expr.left.span)
    arms = (known, right) if decided else (right, known)
    inputs = (body.value(left, expr.left.span, "condition"),)
    return merge(body, If(), inputs, arms, expr.span, expr.op, names)


def lower_unary(body: Body, expr: ast.Unary, names: tuple[str, ...]) -> Operand:
    single = body.single(expr.operand)
    op = body.catalog.op(f"math.{UNARY[expr.op]}")
    if isinstance(single, Broken):
        return BROKEN
    if _is_absent(body, single, expr.operand):
        return BROKEN
    if isinstance(single, Known) and single.weak and expr.op == "-":
        negated = _negated(single.literal)
        if not isinstance(negated, tuple):
            return weak_number(negated)
        return Known(negated, single.type, weak=True)
    try:
        return collapsed(_applied(body, op, (single,), expr, names))
    except OpTypeError as error:
        body.problems.error(
            "HR226",
            f"`{expr.op}` does not take {_shown(body, single)}",
            expr.span,
            secondary=(_label(body, expr.operand, single),),
            notes=(f"{named(expr.operand)} should be {error.wants}",),
        )
    return BROKEN


def _applied(
    body: Body,
    op: Op,
    singles: tuple[Single, ...],
    expr: ast.Binary | ast.Unary,
    names: tuple[str, ...],
) -> Operand:
    if all(isinstance(single, Known) for single in singles):
        folded = _computed(body, op, [s for s in singles if isinstance(s, Known)])
        if folded is not None:
            return folded
    return apply_op(body, op, singles, expr.span, names)


def _like(body: Body, single: Single, other: Single, expr: ast.Expr) -> Single:
    """Give a number literal the dtype of the other side, and make a tensor of a list."""
    if isinstance(single.type, ListType) and isinstance(single.type.item, TensorType):
        inner = single.type.item
        return adapt(body, single, TensorType(inner.dtype, (0, *inner.dims)), expr.span)
    if not isinstance(single, Known) or not single.weak or not isinstance(single.type, TensorType):
        return single
    if isinstance(other, Known) and other.weak:
        return single
    if not isinstance(other.type, TensorType) or not other.type.dtype.is_number:
        return single
    wanted = TensorType(other.type.dtype, single.type.dims)
    typed(single, wanted)  # raises when the number does not fit
    return Known(single.literal, wanted, weak=True)


def _divides_by_zero(body: Body, expr: ast.Binary, left: Single, divisor: Single) -> bool:
    """Report a division of integers by a zero that is written down.

    One that a function was given may stand in an arm that is not taken then.
    """
    if expr.op not in ("/", "%") or not isinstance(divisor, Known):
        return False
    types = (left.type, divisor.type)
    if not all(isinstance(type, TensorType) and type.dtype.is_integer for type in types):
        return False
    if not _is_written(body, expr.right) or np.all(np.asarray(divisor.literal)):
        return False
    body.problems.error(
        "HR231",
        f"`{expr.op}` divides by zero here, which has no value among integers",
        expr.right.span,
    )
    return True


def _is_written(body: Body, expr: ast.Expr) -> bool:
    """Tell whether a value is made of literals and constants alone."""
    match expr:
        case ast.Number():
            return True
        case ast.Name():
            return body.scope.local(expr.text) is None
        case ast.Unary(operand=operand):
            return _is_written(body, operand)
        case ast.Binary(left=left, right=right):
            return _is_written(body, left) and _is_written(body, right)
        case ast.ListLiteral(items=items):
            return all(_is_written(body, item) for item in items)
        case _:
            return False


def _folded(body: Body, expr: ast.Binary, left: Literal, right: Literal) -> Operand | None:
    """Compute an operator on two numbers that have no dtype yet; None when it is no such thing."""
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return None
    if expr.op not in _ON_NUMBERS:
        return None
    try:
        result = _ON_NUMBERS[expr.op](left, right)
    except (ArithmeticError, ValueError):
        return None
    if isinstance(result, bool):
        return Known(result, _BOOL)
    if not _in_64_bits(result) and all(map(_in_64_bits, (left, right))):
        body.problems.error("HR216", "the result does not fit 64 bits", expr.span)
        return BROKEN
    return weak_number(result)


def _in_64_bits(number: int | float) -> bool:
    if isinstance(number, int):
        return integer_range(DType.I64)[0] <= number <= integer_range(DType.U64)[1]
    return math.isfinite(number)


def _quotient(left: int | float, right: int | float) -> int | float:
    """Divide numbers: `960 / 2` is 480, `1 / 255` is a fraction."""
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return left / right


def _remainder(left: int | float, right: int | float) -> int | float:
    """Divide numbers for the remainder, which has the sign of the left one, as `math.mod` does."""
    if isinstance(left, int) and isinstance(right, int):
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    return math.fmod(left, right)


def _negated(literal: Literal) -> "int | float | tuple[Literal, ...]":
    if isinstance(literal, tuple):
        return tuple(_negated(one) for one in literal)
    assert isinstance(literal, int | float)  # what makes a literal weak
    return -literal


def _computed(body: Body, op: Op, inputs: list[Known]) -> Known | None:
    """Run an operator on literals; None when it fails, which is then said when it runs."""
    (type,) = op.types([Argument(one.type, True, one.literal) for one in inputs], body.dims)
    body.dims.take_assumptions()
    try:
        with np.errstate(all="ignore"):
            result = op.reference(*(one.literal for one in inputs))
    except (ArithmeticError, ValueError, TypeError):
        return None
    if isinstance(result, str | bytes):
        return Known(result, body.settle(type))
    if not isinstance(result, np.ndarray | np.generic):
        return None
    if from_numpy(result.dtype) is DType.BOOL and result.ndim == 0:
        return Known(bool(result), body.settle(type))
    return Known(np.asarray(result), body.settle(type))


def _is_empty(body: Body, single: Single, expr: ast.Expr) -> bool:
    """Report `[]`, which has no type that an operator could go by."""
    if not isinstance(single, Known) or single.type != ListType(UNKNOWN, 0):
        return False
    body.problems.error("HR217", "nothing says what an empty list holds", expr.span)
    return True


def _is_absent(body: Body, single: Single, expr: ast.Expr) -> bool:
    """Report an operand that may be absent."""
    type = body.resolve(single.type)
    if not isinstance(type, OptionalType):
        return False
    body.problems.error(
        "HR223",
        f"{named(expr)} is {type} and may be absent",
        expr.span,
        secondary=made_here(body, expr),
        help=absent_help(type),
    )
    return True


def _cast_help(
    expr: ast.Binary, left: Single, right: Single, which: str = "one of them"
) -> str | None:
    """Say how to convert integers beside floating-point numbers, which loses least."""
    if not isinstance(left.type, TensorType) or not isinstance(right.type, TensorType):
        return None
    texts = [expr.left.span.text, expr.right.span.text]
    if left.type.dtype.is_integer and right.type.dtype.is_float:
        texts[0] = f"cast({texts[0]}, {right.type.dtype.value})"
    elif right.type.dtype.is_integer and left.type.dtype.is_float:
        texts[1] = f"cast({texts[1]}, {left.type.dtype.value})"
    else:
        return None
    return f"convert {which}: `{texts[0]} {expr.op} {texts[1]}`"


def _shown(body: Body, single: Single) -> str:
    return str(body.resolve(single.type))


def _label(body: Body, expr: ast.Expr, single: Single) -> Label:
    return Label(expr.span, _shown(body, single))
