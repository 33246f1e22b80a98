"""Literals get their dtype: that of the other side, or i64 and f32 where there is none."""

from math import inf
from sys import float_info
from typing import cast

import numpy as np

from ...dsl.types import UNKNOWN, DType, ListType, OptionalType, TensorType, Type
from ...stdlib.dtypes import integer_range, to_numpy
from ...stdlib.op import Array, Literal
from .operands import Known

_LARGEST = {
    DType.F16: 65504.0,
    DType.BF16: 3.3895313892515355e38,
    DType.F32: 3.4028234663852886e38,
    DType.F64: float_info.max,
}


class LiteralError(Exception):
    """A literal is no value of the dtype that its place asks for; the text says why."""


def typed(known: Known, wanted: Type) -> Known:
    """Return the literal as `wanted` asks for it as far as dtype and list or tensor go.

    Dimensions are left to the caller to compare. Raises LiteralError for a number that does not
    fit; a literal of another kind is returned unchanged.
    """
    if isinstance(wanted, OptionalType):
        return typed(known, wanted.item)
    if isinstance(wanted, ListType):
        return _as_list(known, wanted)
    if not isinstance(wanted, TensorType):
        return known
    if isinstance(known.literal, tuple) and not known.literal:
        return _empty(wanted)
    if not known.weak or not isinstance(known.type, TensorType) or not wanted.dtype.is_number:
        return known
    for leaf in leaves(known.literal):
        _require_fit(leaf, wanted.dtype)
    return solid(Known(known.literal, TensorType(wanted.dtype, known.type.dims)))


def solid(known: Known) -> Known:
    """Return the literal with a dtype that is its own: numbers and rows of anything as arrays."""
    literal, type = known.literal, known.type
    if not isinstance(type, TensorType) or isinstance(literal, DType | np.ndarray | None):
        return Known(literal, type)
    if not type.dims and type.dtype in (DType.STRING, DType.BYTES):
        return Known(literal, type)
    return Known(_array(literal, type.dtype), type)


def leaves(literal: Literal) -> list[Literal]:
    """Return the numbers, strings or bools in a nested row, in order."""
    if not isinstance(literal, tuple):
        return [literal]
    return [leaf for item in literal for leaf in leaves(item)]


def scalar(literal: Literal) -> Literal:
    """Return the Python value of a literal that is a 0-d array, anything else unchanged."""
    if isinstance(literal, np.ndarray) and literal.ndim == 0:
        return cast("bool | int | float", literal.item())  # object arrays of no axes are not made
    return literal


def _as_list(known: Known, wanted: ListType) -> Known:
    """Turn a row of equal items into a list of items."""
    if isinstance(known.literal, tuple) and not known.literal:
        return Known((), ListType(wanted.item, wanted.maximum))
    if not isinstance(known.type, TensorType) or not known.type.dims:
        return known
    if not isinstance(known.literal, tuple | np.ndarray):
        return known
    item = TensorType(known.type.dtype, known.type.dims[1:])
    items = cast("tuple[Literal, ...]", tuple(known.literal))  # the rows of an array are arrays
    made = [typed(Known(one, item, known.weak), wanted.item) for one in items]
    if not made:
        return known
    literals = tuple(solid(one).literal for one in made)
    return Known(literals, ListType(made[0].type, len(made)))


def _empty(wanted: TensorType) -> Known:
    if not wanted.dims:
        return Known((), ListType(UNKNOWN, 0), weak=True)
    sizes = tuple(dim if isinstance(dim, int) else 0 for dim in wanted.dims[1:])
    nothing: Array = np.empty((0, *sizes), to_numpy(wanted.dtype))
    return Known(nothing, TensorType(wanted.dtype, (0, *wanted.dims[1:])))


def _require_fit(leaf: Literal, dtype: DType) -> None:
    if not isinstance(leaf, int | float):
        raise LiteralError(f"{leaf!r} is not a number")
    if dtype.is_float:
        largest = _LARGEST[dtype]
        if abs(leaf) > largest and leaf not in (inf, -inf):
            raise LiteralError(f"{leaf!r} is beyond the largest {dtype.value}")
        return
    if isinstance(leaf, float):
        raise LiteralError(f"{leaf!r} is not a whole number, and {dtype.value} holds no others")
    low, high = integer_range(dtype)
    if not low <= leaf <= high:
        raise LiteralError(f"{leaf} does not fit {dtype.value}, which holds {low} to {high}")


def _array(literal: Literal, dtype: DType) -> Array:
    array: Array = np.array(literal, to_numpy(dtype))
    array.flags.writeable = False  # shared by every place that uses it
    return array
