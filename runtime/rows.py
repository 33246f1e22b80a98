"""Columns of a group: the values of one slot for every row, stacked or one by one.

A column starts as what its maker has at hand (one item, a list of items, a stacked array) and is
turned into the other form only when someone asks. A value that all rows share is kept once.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from ..stdlib.op import Array, Item, Literal
from .devices.device import Stream, View

Tensor: TypeAlias = "Array | View"
Value: TypeAlias = "Item | View"
"""A value of one row: an item in host memory or a tensor in a device's."""


class Rows:
    """`count` values. Stacked columns have one leading axis more than their items."""

    __slots__ = ("_items", "_shared", "_stack", "count")

    def __init__(
        self,
        count: int,
        items: "list[Value] | None",
        stack: "Tensor | None",
        shared: bool = False,
    ) -> None:
        self.count = count
        self._items = items
        self._stack = stack
        self._shared = shared

    @classmethod
    def one(cls, item: Value) -> "Rows":
        """A column of one row."""
        return cls(1, [item], None)

    @classmethod
    def of(cls, items: "list[Value]") -> "Rows":
        """A column of items that may differ in shape; the list is kept."""
        return cls(len(items), items, None)

    @classmethod
    def stacked(cls, stack: Tensor) -> "Rows":
        """A column whose rows are the leading axis of `stack`."""
        return cls(stack.shape[0], None, stack)

    @classmethod
    def shared(cls, item: Value, count: int) -> "Rows":
        """A column in which every row has the same value."""
        return cls(count, [item], None, True)

    @property
    def is_shared(self) -> bool:
        """Whether every row is known to have the same value."""
        return self._shared

    @property
    def is_stacked(self) -> bool:
        """Whether the rows are at hand as one tensor."""
        return self._stack is not None

    def size(self) -> int:
        """Return about how many bytes the values take."""
        items = self._items
        if items is None:
            stack = self._stack
            if isinstance(stack, np.ndarray) and not stack.dtype.hasobject:
                return stack.nbytes
            return _size(stack if stack is not None else self._leading())
        return _size(items[0]) if len(items) == 1 else sum(map(_size, items))

    def item(self, row: int) -> Value:
        """Return the value of one row; of a stacked column a view of it."""
        items = self._items
        if items is not None:
            return items[0 if self._shared else row]
        stack = self._stack
        return stack[row] if stack is not None else self._leading()[row]

    def items(self) -> "list[Value]":
        """Return the value of each row; the list is not to be changed."""
        if self._items is None:
            # Any: iterating an array gives views or NumPy scalars, which are items
            self._items = cast("list[Value]", list(cast("Any", self._leading())))
        return self._items * self.count if self._shared and self.count != 1 else self._items

    def plain(self) -> list[Literal]:
        """Return single values as Python has them: what is compared and looked up."""
        if self._items is None and isinstance(self._stack, np.ndarray):
            return cast("list[Literal]", self._stack.tolist())
        return [plain(item) for item in self.items()]

    def stack(self, dtype: "np.dtype[Any] | None" = None) -> Tensor:  # Any: of any scalar
        """Return the rows as one tensor; raises ValueError when their shapes differ.

        `dtype` is for rows that are not arrays yet: Python numbers, strings, lists of items.
        """
        if self._stack is None:
            items = self._items
            if self.count == 1 and items is not None and items[0].__class__ is np.ndarray:
                self._stack = cast("Array", items[0])[None]
            else:
                self._stack = self._stacked(dtype)
        return self._stack

    def stack_on(self, stage: str, stream: Stream) -> Value:
        """Return the rows as one view where a device has them, stacked there in the order of
        `stream`; raises ValueError when their shapes differ. What is on the host stays as it is."""
        if self._stack is not None:
            return self._stack
        views = self.items()
        first = views[0]
        if not isinstance(first, View):
            return first
        if len(views) == 1:
            return first.expanded()
        return first.buffer.device.concat(cast("list[View]", views), stage, stream)

    def part(self, start: int, stop: int) -> "Rows":
        """Return rows `start` to `stop` (exclusive) without copying."""
        if start == 0 and stop == self.count:
            return self
        if self._shared:
            return self._same(stop - start)
        stack = self._stack
        if stack is not None:
            if stop - start == 1 and stack.__class__ is np.ndarray and stack.ndim > 1:
                return Rows(1, [stack[start]], None)  # as it is asked for; one view and not two
            return Rows(stop - start, None, stack[start:stop])
        return Rows(stop - start, cast("list[Value]", self._items)[start:stop], None)

    def take(self, rows: Sequence[int]) -> "Rows":
        """Return the rows with these numbers, in this order; a row may be taken often."""
        if self._shared or self.count == 1:
            return self._same(len(rows))
        if self._items is None and isinstance(self._stack, np.ndarray):
            return Rows.stacked(self._stack[np.asarray(rows, np.intp)])
        items = self.items()
        return Rows.of([items[row] for row in rows])

    def map_tensors(self, change: Callable[[Value], Value]) -> "Rows":
        """Return the column with `change` applied as seldom as possible: once when stacked."""
        if self._stack is not None:
            return Rows.stacked(cast("Tensor", change(self._stack)))
        items = cast("list[Value]", self._items)
        changed = [change(item) for item in items]
        return Rows(self.count, changed, None, self._shared)

    def _same(self, count: int) -> "Rows":
        return Rows.shared(self.item(0), count)

    def _leading(self) -> Tensor:
        if self._stack is None:
            raise AssertionError("a column has neither items nor a stack")
        return self._stack

    def _stacked(self, dtype: "np.dtype[Any] | None") -> Tensor:  # Any: of any scalar
        items = cast("list[Value]", self._items)
        first = items[0]
        if isinstance(first, View):
            first.__array__()  # refuses: a device stacks by itself, in the order of a stream
        if self._shared and self.count != 1:
            whole = as_array(first, dtype)
            return np.broadcast_to(whole, (self.count, *whole.shape))
        if len(items) == 1:
            return as_array(first, dtype)[None]
        return _stack_list(cast("list[Item]", items), dtype)


class Constant(Rows):
    """A literal of the plan, as an item of its type; ops get the literal itself, or the list.
    `identity` is what a stage has found to tell it from other values."""

    __slots__ = ("identity", "literal")

    def __init__(self, item: Value, literal: "Literal | list[Item]", count: int) -> None:
        super().__init__(count, [item], None, True)
        self.literal = item if isinstance(item, list) else literal
        self.identity: Hashable | None = None

    def _same(self, count: int) -> Rows:
        return Constant(self.item(0), self.literal, count)


def as_array(item: Value, dtype: "np.dtype[Any] | None" = None) -> Array:  # Any: of any scalar
    """Return an item as an array; lists are stacked, strings go into an object array.

    Raises ValueError naming the item when those of a list differ in shape.
    """
    if isinstance(item, np.ndarray):
        return item
    if isinstance(item, str | bytes):
        array = np.empty((), object)
        array[()] = item
        return array
    if isinstance(item, list):
        return _stack_list(item, dtype)
    if isinstance(item, View):
        item.__array__()  # refuses, and says whose memory it is
    return np.asarray(item, dtype)


def _stack_list(items: "list[Item]", dtype: "np.dtype[Any] | None") -> Array:  # Any: see above
    if not items:
        return np.empty((0,), dtype)
    arrays = [one if isinstance(one, np.ndarray) else as_array(one, dtype) for one in items]
    shape = arrays[0].shape
    for index, array in enumerate(arrays):
        if array.shape != shape:
            raise ValueError(
                f"item {index} has shape {list(array.shape)}, but item 0 has {list(shape)}; "
                "items of different shapes are no tensor"
            )
    if not shape:
        return np.stack(arrays)
    return np.concatenate(arrays).reshape(len(arrays), *shape)  # half of what `stack` takes


def size_of(columns: Sequence[Rows]) -> int:
    """Return about how many bytes columns take: those of their tensors, texts and bytes."""
    size = 0
    for column in columns:
        size += column.size()
    return size


def _size(item: Value) -> int:
    if isinstance(item, np.ndarray):
        if not item.dtype.hasobject:
            return item.nbytes
        return sum(map(_size, cast("list[Value]", item.ravel().tolist())))
    if isinstance(item, str | bytes):
        return len(item)
    if isinstance(item, list):
        return sum(map(_size, item))
    return 0 if item is None else item.nbytes


def merge(pieces: Sequence[Rows]) -> Rows:
    """Put columns one after the other, copying only when all of them are stacked alike."""
    if len(pieces) == 1:
        return pieces[0]
    if pieces[0].is_stacked and all(piece.is_stacked for piece in pieces):
        stacks = [piece.stack() for piece in pieces]
        if _alike(stacks):
            return Rows.stacked(np.concatenate(cast("list[Array]", stacks)))
    items: list[Value] = []
    for piece in pieces:
        if piece.count == 1:
            items.append(piece.item(0))
        else:
            items += piece.items()
    return Rows.of(items)


def scatter(count: int, pieces: Sequence[tuple[Sequence[int], Rows]]) -> Rows:
    """Join columns again whose rows go to these row numbers of a column of `count` rows.

    What is stacked alike becomes one tensor: a row at a time takes ten times as long."""
    if len(pieces) == 1:
        return pieces[0][1]
    stacks = [column.stack() for _, column in pieces if column.is_stacked]
    first = stacks[0] if len(stacks) == len(pieces) else None
    if isinstance(first, np.ndarray) and _alike(stacks):
        whole = np.empty((count, *first.shape[1:]), first.dtype)
        for (rows, _), stack in zip(pieces, stacks, strict=True):
            whole[np.asarray(rows, np.intp)] = cast("Array", stack)
        return Rows.stacked(whole)
    items: list[Value] = [None] * count
    for rows, column in pieces:
        for row, item in zip(rows, column.items(), strict=True):
            items[row] = item
    return Rows.of(items)


def plain(value: Value) -> Literal:
    """Return a single value as Python has it."""
    return value if isinstance(value, str | bytes) else np.asarray(value).item()


def _alike(stacks: Sequence[Tensor]) -> bool:
    """Whether all are arrays, with rows of one shape and type."""
    first = stacks[0]
    return all(
        isinstance(stack, np.ndarray)
        and (stack.shape[1:], stack.dtype) == (first.shape[1:], first.dtype)
        for stack in stacks
    )
