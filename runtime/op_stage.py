"""A stage that is a stdlib op, run through its reference implementation: row by row, or where the
op treats each element alone, for all rows at once."""

from collections.abc import Sequence
from time import perf_counter
from typing import Any, cast

import numpy as np

from ..compiler.plan import OpSegment
from ..dsl.types import DType
from ..stdlib.op import Array, Fold, Item, Kernel, Op
from .metrics import StageCell
from .rows import Constant, Rows, Value
from .stage import Part, StageError


class OpStage:
    """Literals of the plan reach the op as they are written, so that it can give them a dtype."""

    policy = None

    def __init__(self, segment: OpSegment, op: Op, index: int) -> None:
        self.name, self.index = segment.name, index
        self._reference = op.reference
        self._width = len(segment.results)
        kernel = op.kernel
        self._each = isinstance(kernel, Kernel) and kernel.exact
        self._folds = isinstance(kernel, Fold) and not kernel.sums

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        start = perf_counter()
        whole = self._whole(columns, count) if count > 1 and (self._each or self._folds) else None
        if whole is not None:
            results = [Rows.stacked(whole)]
        elif self._width == 1:
            results = [Rows.of([self._call(columns, row) for row in range(count)])]
        else:
            rows = [cast("tuple[Item, ...]", self._call(columns, row)) for row in range(count)]
            results = [Rows.of(list[Value](items)) for items in zip(*rows, strict=True)]
        cell.record(count, perf_counter() - start)
        return results

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        return self.run(columns, count, cell)

    def split(self, columns: Sequence[Rows], count: int) -> list[Part]:
        return [Part(None, None, tuple(columns), count)]

    def _call(self, columns: Sequence[Rows], row: int) -> Item:
        arguments = [
            column.literal if isinstance(column, Constant) else column.item(row)
            for column in columns
        ]
        try:
            # an op with several results gives a tuple of items, which `run` takes apart
            return cast("Item", self._reference(*arguments))
        except Exception as error:
            raise StageError(f"{type(error).__name__}: {error}", row) from error

    def _whole(self, columns: Sequence[Rows], count: int) -> "Array | None":
        """Return the results of all rows in one array; None where each row has to run alone, also
        to find the one to blame."""
        arguments = [_argument(column) for column in columns]
        stacks = [one for one in arguments if isinstance(one, np.ndarray)]
        if not stacks or any(one is _NONE for one in arguments):
            return None
        if self._each and any(isinstance(one, tuple) for one in arguments):
            return None
        if self._folds:
            arguments[1] = _behind_rows(arguments[1], stacks[0].ndim)
        rank = max(one.ndim for one in stacks)
        aligned = [_aligned(one, rank) if isinstance(one, np.ndarray) else one for one in arguments]
        try:
            found = np.asarray(self._reference(*aligned))
        except Exception:  # of some row, which is about to be found
            return None
        return found if found.shape[:1] == (count,) else None


_NONE = object()
"""Stands for a column that is no stack of arrays."""


def _argument(column: Rows) -> Any:  # Any: an array, or a literal
    if isinstance(column, Constant):
        literal = column.literal
        simple = literal is None or isinstance(literal, bool | int | float | DType)
        return literal if simple or isinstance(literal, tuple) else _NONE
    if not isinstance(column.item(0), np.ndarray | np.generic):
        return _NONE
    try:
        stack = column.stack()
    except ValueError:  # rows of several sizes
        return _NONE
    return stack if isinstance(stack, np.ndarray) and not stack.dtype.hasobject else _NONE


def _aligned(stack: Array, rank: int) -> Array:
    """Return rows with as many axes as those of others have, new ones in front of their own."""
    new = rank - stack.ndim
    return stack if not new else stack.reshape(len(stack), *[1] * new, *stack.shape[1:])


def _behind_rows(axes: Any, rank: int) -> "int | tuple[int, ...]":  # Any: a literal
    """Return the axes of items, of which None are all, in a stack of them."""
    each = range(rank - 1) if axes is None else axes if isinstance(axes, tuple) else (axes,)
    behind = tuple(int(one) + 1 if one >= 0 else int(one) for one in each)
    return behind[0] if len(behind) == 1 else behind
