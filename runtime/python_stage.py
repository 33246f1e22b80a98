"""A Python function or model as a stage.

What it returns is checked against its signature before anyone else sees it. What it is given
belongs to others too, the caller among them, so its arrays are read-only.
"""

import threading
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from ..compiler.plan import PythonSegment
from ..dsl.types import ListType, TensorType, Type
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array, Item
from .convert import Convert, Mismatch, converter
from .metrics import StageCell
from .padding import Padder
from .rows import Rows, Value, as_array
from .shapes import Bindings, bind, failed, names
from .stage import Part, Policy, StageError, StageGone, classes, run_parts, timed_run

_SHOWN = 500

Lent = TypeVar("Lent")


def said(error: BaseException) -> str:
    """Return a cause as the caller reads it."""
    try:
        text = str(error)
    except Exception as unsayable:
        text = f"its text cannot be had: {type(unsayable).__name__}"
    text = text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate fits no reply
    short = text if len(text) <= _SHOWN else text[:_SHOWN] + " ..."
    return f"{type(error).__name__}: {short}" if short else type(error).__name__


def is_interrupt(error: BaseException) -> bool:
    """Whether someone pressed Ctrl-C, which Python tells the main thread and no other."""
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
    )


class PythonStage:
    """Calls a function for each row, or once with all rows when it is `batched`."""

    def __init__(
        self,
        segment: PythonSegment,
        function: Callable[..., object],
        policy: Policy | None,
        index: int,
    ) -> None:
        self.name, self.index, self.policy = segment.name, index, policy
        self._segment, self._function = segment, function
        signature = segment.signature
        params = [field.type for field in signature.params]
        # the request of a row comes as one argument more, which is given as it is
        self._params: tuple[Type | None, ...] = (*params, None) if segment.told else (*params,)
        self._results = tuple(
            (field.name, field.type, converter(field.type)) for field in signature.results
        )
        self._takers = tuple(map(_taker, self._params))
        self._binds = bool(segment.checks or names(field.type for field in signature.results))
        self._only = self._results[0] if len(self._results) == 1 and not self._binds else None
        alone = len(self._takers) == 1 and not segment.batched
        self._simple = (self._takers[0], *self._only) if self._only and alone else None
        self._limit = segment.batching.maximum if segment.batching is not None else segment.group
        self._padder = Padder.of(segment)

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        if count == 1 and self._simple is not None:
            return self._run_one(columns[0].item(0), cell)
        if not self._segment.batched:
            return timed_run(self, columns, count, cell)
        limit, parts = self._limit or count, self.split(columns, count)
        if self._padder is not None and len(parts) > 1:
            parts = self._padder.join(parts, columns, limit)
            for part in parts:
                self._padder.count(part.columns, part.count, cell)
        try:
            return run_parts(self, parts, count, limit, cell)
        except StageError as error:
            if error.row is not None or count == 1 or self._segment.instances is None:
                raise
            # rows that failed together run once more on their own, to find the one to blame
            return run_parts(self, parts, count, 1, cell)

    def _run_one(self, item: Value, cell: StageCell) -> list[Rows]:
        """Do as `execute` does for one row of a function of one parameter and one result: such a
        function often takes less time than what is around it."""
        assert self._simple is not None
        take, name, kind, convert = self._simple
        start = perf_counter()
        try:
            given = take(item)
            try:
                returned = self._function(given)
            except BaseException as error:
                self._fail(error, 0)
            try:
                value: Value = convert(returned, {})
            except Mismatch as error:
                raise _mismatched(name, kind, error, 0) from error
            return [Rows(1, [value], None)]
        finally:
            cell.record(1, perf_counter() - start)

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        if self._padder is not None:
            self._padder.count(columns, count, cell)
        return timed_run(self, columns, count, cell)

    def split(self, columns: Sequence[Rows], count: int) -> list[Part]:
        if self._padder is not None:
            return self._padder.split(columns, count, self._key)
        if count == 1 or not self._segment.batched:
            key = self._key(columns, 0) if self._segment.batched else None
            return [Part(key, None, tuple(columns), count)]
        return classes(columns, count, self._key)

    def execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        """Run all rows; raises StageError naming the row where one is to blame."""
        if self._padder is not None:
            return self._padder.run(self._execute_batched, columns, count)
        if self._segment.batched:
            return self._execute_batched(columns, count)
        results: list[list[Value]] = [[] for _ in self._results]
        only = self._only
        for row in range(count):
            arguments = [
                take(column.item(row)) for take, column in zip(self._takers, columns, strict=True)
            ]
            returned = self._call(arguments, row)
            if only is not None:
                results[0].append(self._checked(*only, returned, {}, row))
            else:
                self._keep(arguments, self._fields(returned, row), results, row)
        return [Rows(count, items, None) for items in results]

    def _execute_batched(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        rows = [
            [argument(column.item(row), kind) for row in range(count)]
            for column, kind in zip(columns, self._params, strict=True)
        ]
        given = [
            items if (dtype := _stacked_dtype(kind)) is None else lent(column.stack(dtype))
            for column, kind, items in zip(columns, self._params, rows, strict=True)
        ]
        returned = self._fields(self._call(given, 0 if count == 1 else None), None)
        for (name, _, _), values in zip(self._results, returned, strict=True):
            found = len(cast("list[object]", values)) if hasattr(values, "__len__") else None
            if found != count or isinstance(values, str | bytes):
                shown = f"{found} rows" if found is not None else "no list"
                raise StageError(f"`{name}` has {shown} for a batch of {count}")
        results: list[list[Value]] = [[] for _ in self._results]
        for row in range(count):
            one = [cast("list[object]", values)[row] for values in returned]
            self._keep([items[row] for items in rows], one, results, row)
        return [Rows.of(items) for items in results]

    def _call(self, arguments: Sequence[object], row: int | None) -> object:
        try:
            return self._function(*arguments)
        except BaseException as error:
            self._fail(error, row)

    def _fail(self, error: BaseException, row: int | None) -> NoReturn:
        """Raise what a function has raised as what a stage raises: any other would end the thread
        it runs in, and leave its request without an answer."""
        if isinstance(error, StageGone) or is_interrupt(error):
            raise error
        raise StageError(f"`{self._segment.attribute}` raised {said(error)}", row) from error

    def _fields(self, returned: object, row: int | None) -> Sequence[object]:
        if len(self._results) == 1:
            return (returned,)
        if not isinstance(returned, tuple | list):
            raise StageError(
                f"`{self._segment.attribute}` returned a {type(returned).__name__}, not the "
                f"{len(self._results)} values of {self._segment.signature}",
                row,
            )
        values = cast("Sequence[object]", returned)
        if len(values) != len(self._results):
            raise StageError(
                f"`{self._segment.attribute}` returned {len(values)} values, not "
                f"{len(self._results)} as {self._segment.signature} says",
                row,
            )
        return values

    def _keep(
        self,
        arguments: Sequence[Item],
        returned: Sequence[object],
        results: "list[list[Value]]",
        row: int,
    ) -> None:
        bindings: Bindings = {}
        for kind, item in zip(self._params, arguments, strict=True) if self._binds else ():
            if isinstance(kind, TensorType) and isinstance(item, np.ndarray):
                bind(kind.dims, item.shape, bindings)
        for (name, kind, convert), value, items in zip(
            self._results, returned, results, strict=True
        ):
            items.append(self._checked(name, kind, convert, value, bindings, row))
        for check in self._segment.checks:
            wrong = failed(check, bindings)
            if wrong is not None:
                raise StageError(wrong, row)

    def _checked(
        self, name: str, kind: Type, convert: Convert, value: object, bindings: Bindings, row: int
    ) -> Item:
        try:
            return convert(value, bindings)
        except Mismatch as error:
            raise _mismatched(name, kind, error, row) from error

    def _key(self, columns: Sequence[Rows], row: int) -> Hashable:
        """Return what rows that run together have in common: shapes, but for what is filled up."""
        padder = self._padder
        size = padder.size(columns, row) if padder is not None else None
        parts: list[Hashable] = [size is not None]
        for index, (column, kind) in enumerate(zip(columns, self._params, strict=True)):
            if (dtype := _stacked_dtype(kind)) is None:
                continue
            shape = as_array(column.item(row), dtype).shape
            if padder is not None and size is not None:
                parts.append(padder.shape(index, shape, size))
            else:
                parts.append(shape)
        return tuple(parts)


def _mismatched(name: str, kind: Type, error: Mismatch, row: int) -> StageError:
    if isinstance(kind, ListType) and "\n" not in str(error):
        return StageError(f"its result `{name}`{_spaced(error)}", row)
    return StageError(f"its result `{name}` {error}", row)


def _spaced(error: Mismatch) -> str:
    return str(error) if str(error).startswith("[") else f" {error}"


def _stacked_dtype(kind: Type | None) -> "np.dtype[Any] | None":  # Any: of any scalar
    """Return the dtype of a parameter that a batched function gets as one array, else None."""
    if not isinstance(kind, TensorType):
        return None
    dtype = to_numpy(kind.dtype)
    return dtype if not dtype.hasobject or kind.dims else None


def _taker(kind: Type | None) -> Callable[[Value], Item]:
    """Return what does as `argument` does for this parameter, an array the quickest."""
    if not isinstance(kind, TensorType):
        return partial(argument, kind=kind)

    def take(item: Value) -> Item:
        if item.__class__ is not np.ndarray:
            return argument(item, kind)
        tensor = cast("Array", item)
        return lent(tensor) if tensor.flags.writeable else tensor

    return take


def argument(item: Value, kind: Type | None) -> Item:
    """Return an item as a function of this parameter type takes it: an array, or a list; of no
    type, as it is."""
    if isinstance(kind, TensorType):
        if isinstance(item, np.ndarray):
            return lent(item)
        if isinstance(item, str | bytes):
            return item
        return as_array(item, to_numpy(kind.dtype))
    if isinstance(kind, ListType):
        if isinstance(item, np.ndarray):
            return list(cast("Any", lent(item)))  # Any: iterating an array gives its items
        if isinstance(item, list):
            return [lent(one) if isinstance(one, np.ndarray) else one for one in item]
    return cast("Item", item)


def lent(tensor: Lent) -> Lent:
    """Return an array that cannot be written to: the same one, or a view of it."""
    if not isinstance(tensor, np.ndarray) or not tensor.flags.writeable:
        return tensor
    view = tensor.view()
    view.setflags(write=False)
    return view
