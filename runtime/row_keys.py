"""What rows of a model have in common that may run together: their shapes, and the inputs that a
model takes once for all rows of an execution."""

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from ..dsl.types import Field
from .devices.device import View
from .padding import Padder
from .rows import Constant, Rows, Value, as_array
from .shapes import is_fixed

Input: TypeAlias = "tuple[str, int | None, np.dtype[Any] | None, bool]"  # Any: of any scalar
"""Name, batch axis, dtype, and whether it may be None."""

_SMALL = 1 << 12
"""Bytes up to which inputs without a batch axis are compared by value."""


class RowKeys:
    """Those of one model."""

    def __init__(
        self, params: Sequence[Field], inputs: Sequence[Input], padder: Padder | None
    ) -> None:
        self._inputs, self._padder = inputs, padder
        self._last: tuple[Hashable, ...] = ()
        self._common = _common(params, inputs)

    def of(self, columns: Sequence[Rows], row: int) -> Hashable:
        """Return the key of a row; a context, behind the inputs, is no matter.

        Where inputs of a row do not agree in what is to be padded, it meets none but its equals.
        """
        common, key, last = self._common, (), self._last
        if common is None:
            key = tuple(self._parts(columns, row))
        else:
            for index, dtype in common:
                key = (*key, _identity(columns[index], row, dtype))
        if key == last:
            return last  # so that those who wait hold one, of all that are equal
        self._last = key
        return key

    def _parts(self, columns: Sequence[Rows], row: int) -> list[Hashable]:
        padder = self._padder
        size = padder.size(columns, row) if padder is not None else None
        parts: list[Hashable] = [size is not None]
        for index, ((_, axis, dtype, _), column) in enumerate(
            zip(self._inputs, columns, strict=False)
        ):
            value = column.item(row)
            if axis is None:
                parts.append(_identity(column, row, dtype))
            elif value is None:
                parts.append(None)
            else:
                array = value if isinstance(value, View) else as_array(value, dtype)
                padded = padder is not None and size is not None
                parts.append(padder.shape(index, array.shape, size) if padded else array.shape)  # type: ignore[union-attr] looked at above
        return parts


def _common(
    params: Sequence[Field], inputs: Sequence[Input]
) -> "tuple[tuple[int, np.dtype[Any] | None], ...] | None":  # Any: as above
    """Return the inputs without a batch axis where nothing else tells rows apart, as the signature
    leaves no size open; None where it does.

    From a model that gives something else than it says rows meet that cannot be stacked: each runs
    alone then.
    """
    found: list[tuple[int, np.dtype[Any] | None]] = []  # Any: as above
    for index, (field, (_, axis, dtype, _)) in enumerate(zip(params, inputs, strict=True)):
        if axis is None:
            found.append((index, dtype))
        elif not is_fixed(field.type):
            return None
    return tuple(found)


def _identity(column: Rows, row: int, dtype: "np.dtype[Any] | None") -> Hashable:  # Any: as above
    """Return what tells a value from others; of a literal the same whatever stage asks for it."""
    if column.__class__ is not Constant:
        return _compared(column.item(row), dtype)
    literal = cast("Constant", column)
    if literal.identity is None:
        literal.identity = _compared(literal.item(0), dtype)
    return literal.identity


def _compared(value: Value, dtype: "np.dtype[Any] | None") -> Hashable:  # Any: as above
    if value is None or isinstance(value, View):
        return value if value is None else id(value)
    array = as_array(value, dtype)
    if array.dtype != object and array.nbytes <= _SMALL:
        return array.shape, array.tobytes()
    return id(value)
