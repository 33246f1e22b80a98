"""Indexing and slices: `x[0]`, `x[1:, :4]`, `x[i]`."""

from ...dsl import ast
from ...dsl.types import DType, ListType, OptionalType, TensorType
from ...stdlib.op import Literal, OpTypeError
from .body import Body
from .literals import scalar
from .mismatch import absent_help, made_here
from .operands import BROKEN, TEXT, Broken, Known, Operand, Single, collapsed
from .ops import apply_op

MADE = "value"  # how `core.getitem` writes a bound that is made at run time


class _NoIndex(Exception):
    """An index is not an integer; it has been reported."""


def lower_index(body: Body, expr: ast.Index, names: tuple[str, ...]) -> Operand:
    subject = body.single(expr.value)
    indices: list[Single] = []
    try:
        spec = tuple(_part(body, item, indices) for item in expr.items)
    except _NoIndex:
        return BROKEN
    if isinstance(subject, Broken):
        return BROKEN
    type = body.resolve(subject.type)
    shown = f"`{expr.value.span.text}`"
    if isinstance(type, OptionalType):
        message = f"{shown} is {type} and may be absent"
        span, made = expr.value.span, made_here(body, expr.value)
        body.problems.error("HR223", message, span, secondary=made, help=absent_help(type))
        return BROKEN
    if not isinstance(type, ListType) and not (isinstance(type, TensorType) and type.dims):
        body.problems.error(
            "HR215",
            f"{shown} is {type} and has no items to take",
            expr.span,
            secondary=made_here(body, expr.value),
        )
        return BROKEN
    op = body.catalog.op("core.getitem")
    try:
        made = apply_op(body, op, (subject, Known(spec, TEXT), *indices), expr.span, names)
        return collapsed(made)
    except OpTypeError as error:
        body.problems.error(
            "HR215",
            f"{shown} is {type}, which takes {error.wants.rstrip(',')}",
            expr.span,
            secondary=made_here(body, expr.value),
        )
        return BROKEN


def _part(body: Body, item: ast.Expr | ast.Slice, indices: list[Single]) -> Literal:
    """Return what stands in the brackets as `core.getitem` takes it; collect run-time integers."""
    if isinstance(item, ast.Slice):
        bounds: list[Literal] = []
        for bound in (item.start, item.stop, item.step):
            bounds.append(None if bound is None else _integer(body, bound, indices, MADE))
        return tuple(bounds)
    return _integer(body, item, indices, None)


def _integer(body: Body, expr: ast.Expr, indices: list[Single], made: Literal) -> Literal:
    single = body.single(expr)
    if isinstance(single, Broken):
        raise _NoIndex
    type = body.resolve(single.type)
    if not isinstance(type, TensorType) or type.dims or not type.dtype.is_integer:
        body.problems.error(
            "HR215",
            f"an index is an integer, but this is {type}",
            expr.span,
            help=f"convert it: `cast({expr.span.text}, i64)`"
            if type == TensorType(DType.F32) and not isinstance(single, Known)
            else None,
        )
        raise _NoIndex
    if isinstance(single, Known):
        value = scalar(single.literal)
        assert isinstance(value, int)
        return value
    indices.append(single)
    return made
