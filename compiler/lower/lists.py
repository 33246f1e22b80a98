"""List literals: of literals a literal, of equal-shaped values a tensor, of others a list."""

from collections.abc import Sequence

from ...dsl import ast
from ...dsl.diagnostic import Label
from ...dsl.types import UNKNOWN, Dim, DType, ListType, TensorType
from ...stdlib.op import OpTypeError
from .body import Body
from .literals import LiteralError, typed
from .operands import BROKEN, Broken, Known, Operand, Single, collapsed, weak_number
from .ops import apply_op

NO_ITEMS = Known((), ListType(UNKNOWN, 0), weak=True)


def lower_list(body: Body, expr: ast.ListLiteral, names: tuple[str, ...]) -> Operand:
    singles = [body.single(item) for item in expr.items]
    if not singles:
        return NO_ITEMS
    if any(isinstance(single, Broken) for single in singles):
        return BROKEN
    known = [single for single in singles if isinstance(single, Known)]
    if len(known) == len(singles):
        return _literal(body, expr, known)
    return _made(body, expr, singles, names)


def _literal(body: Body, expr: ast.ListLiteral, items: Sequence[Known]) -> Operand:
    """Make a row of literals, which must be of one kind and shape."""
    first = items[0]
    floats = any(_dtype(one) is DType.F32 and one.weak for one in items)
    for item, part in zip(items, expr.items, strict=True):
        both_numbers = item.weak and first.weak
        same = _dims(item) == _dims(first) and (both_numbers or item.type == first.type)
        if not same or not isinstance(item.type, TensorType) or item.weak != first.weak:
            return _mixed(body, expr, part, first, item)
    literals = tuple(one.literal for one in items)
    if any(isinstance(one, DType) for one in literals):
        body.problems.error("HR217", "dtypes are not items of a list", expr.span)
        return BROKEN
    dtype = _dtype(first)
    if first.weak:
        dtype = DType.F32 if floats else DType.I64
    assert dtype is not None
    return Known(literals, TensorType(dtype, (len(items), *_dims(first))), first.weak)


def _made(
    body: Body, expr: ast.ListLiteral, singles: list[Single], names: tuple[str, ...]
) -> Operand:
    """Make a tensor of tensors of one shape, a list of anything else of one type."""
    strong = next(one for one in singles if not (isinstance(one, Known) and one.weak))
    for i, (single, part) in enumerate(zip(singles, expr.items, strict=True)):
        if isinstance(single, Known) and single.weak and isinstance(strong.type, TensorType):
            try:
                singles[i] = typed(single, TensorType(strong.type.dtype))
            except LiteralError as error:
                body.problems.error("HR216", str(error), part.span)
                return BROKEN
    shapes = [body.resolve(single.type) for single in singles]
    tensors = all(isinstance(shape, TensorType) and shape == shapes[0] for shape in shapes)
    try:
        if tensors:
            op = body.catalog.op("core.stack")
            made = apply_op(body, op, (weak_number(0), *singles), expr.span, names)
        else:
            made = apply_op(body, body.catalog.op("core.list"), singles, expr.span, names)
    except OpTypeError:
        for single, part in zip(singles, expr.items, strict=True):
            if body.resolve(single.type) != shapes[0]:
                return _mixed(body, expr, part, singles[0], single)
        raise
    return collapsed(made)


def _mixed(
    body: Body, expr: ast.ListLiteral, part: ast.Expr, first: Single, other: Single
) -> Operand:
    found, wanted = body.resolve(other.type), body.resolve(first.type)
    body.problems.error(
        "HR217",
        f"the items of a list are of one type: this is {found}, the first is {wanted}",
        part.span,
        secondary=(Label(expr.items[0].span, f"{wanted}"),),
    )
    return BROKEN


def _dtype(known: Known) -> DType | None:
    return known.type.dtype if isinstance(known.type, TensorType) else None


def _dims(known: Known) -> tuple[Dim, ...]:
    return known.type.dims if isinstance(known.type, TensorType) else ()
