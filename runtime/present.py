"""The border of a pipeline on the way out: columns become what a caller gets.

Prepared once a pipeline; `accept.py` is the way in.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from ..compiler.plan import PipelinePlan
from ..dsl.types import ListType, TensorType, Type
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array, Item
from .devices.device import View
from .request import Code, Fault
from .rows import Rows, as_array


def _scalar(item: Item) -> Item:
    """Return a single number as a NumPy scalar, and anything else as it is."""
    return item[()] if isinstance(item, np.ndarray) and item.ndim == 0 else item


class Presenter:
    """Turns one result column into what the caller gets; numbers are NumPy scalars."""

    def __init__(self, pipeline: PipelinePlan, index: int) -> None:
        field = pipeline.results[index]
        self.name = field.name
        self._pipeline, self._type, self._batch = pipeline, field.type, pipeline.batch is not None
        self._dtype = to_numpy(field.type.dtype) if isinstance(field.type, TensorType) else None
        self._scalar = isinstance(field.type, TensorType) and not field.type.dims

    def present(self, column: Rows) -> Item:
        """Return the result: one item, or in a `batch` pipeline all rows behind a leading axis."""
        if not self._batch:
            return self.present_row(column, 0)
        count = column.count
        if self._dtype is not None and count:
            if column.is_stacked:
                stack = column.stack()
                if isinstance(stack, np.ndarray):
                    return stack
            elif count == 1 and (value := column.item(0)).__class__ is np.ndarray:
                # its maker may write to it again, a caller to what many have; in the fewest steps
                return cast("Array", value)[None].copy()
        items = [self._item(column.item(row)) for row in range(count)]
        if self._dtype is None:
            return items
        if not items:
            return self.empty()
        try:
            return as_array(items, self._dtype)
        except ValueError as error:
            raise self._fault(f"rows cannot be stacked: {error}") from error

    def present_row(self, column: Rows, row: int) -> Item:
        """Return the result of a request that is one of the rows of a column."""
        if self._batch:
            return self.present(column.part(row, row + 1))
        value = column.item(row)
        if value.__class__ is np.ndarray and self._dtype is not None:
            return value[()] if self._scalar else value  # type: ignore[index, return-value] by its class, which is quicker than isinstance
        item = self._item(value)
        return item[()] if self._scalar and isinstance(item, np.ndarray) else item

    def empty(self) -> Item:
        """Return the result of a request of no rows."""
        if not isinstance(self._type, TensorType):
            return []
        sizes = tuple(dim if isinstance(dim, int) else 0 for dim in self._type.dims)
        return np.empty((0, *sizes), self._dtype)

    def _item(self, value: object) -> Item:
        if value.__class__ is np.ndarray and self._dtype is not None:
            return value  # type: ignore[return-value] by its class, which is quicker than isinstance
        if isinstance(value, View):
            raise self._fault(f"is still in the memory of {value.buffer.device.name}")
        item = cast("Item", value)
        if self._dtype is None:
            return self._listed(item, self._type)
        if isinstance(item, np.ndarray | np.generic | str | bytes):
            return item
        try:
            return as_array(item, self._dtype)
        except ValueError as error:
            raise self._fault(str(error)) from error

    def _listed(self, item: Item, kind: Type) -> Item:
        if not isinstance(kind, ListType):
            return _scalar(item)
        items = [_scalar(one) for one in cast("list[Item]", item)]
        if kind.maximum is not None and len(items) > kind.maximum:
            raise self._fault(f"has {len(items)} items, expected {kind}")
        return items

    def _fault(self, message: str) -> Fault:
        return Fault(
            Code.FAILED, f"the result `{self.name}` {message}", pipeline=self._pipeline.name
        )


def present(presenters: Sequence[Presenter], columns: Sequence[Rows]) -> dict[str, Item]:
    """Return the results by name."""
    items: dict[str, Item] = {}
    for presenter, column in zip(presenters, columns, strict=True):
        items[presenter.name] = presenter.present(column)
    return items


def present_rows(
    presenters: Sequence[Presenter], columns: Sequence[Rows], start: int, stop: int
) -> dict[str, Item]:
    """Return the results by name of a request whose rows stand there among those of others."""
    if stop - start != 1:
        return present(presenters, [column.part(start, stop) for column in columns])
    items: dict[str, Item] = {}
    for presenter, column in zip(presenters, columns, strict=True):
        items[presenter.name] = presenter.present_row(column, start)
    return items


def nothing(presenters: Sequence[Presenter]) -> dict[str, Item]:
    """Return the results of a request of no rows."""
    return {presenter.name: presenter.empty() for presenter in presenters}
