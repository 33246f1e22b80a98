"""The border of a pipeline: a caller's values become columns, columns become a caller's results.

Prepared once a pipeline. What does not fit is a RequestError that shows the signature.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NoReturn, cast

import numpy as np

from ..compiler.plan import Parameter, PipelinePlan
from ..dsl.types import ANY_DIM, ListType, TensorType, Type
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array, Item
from .convert import Convert, Mismatch, converter, from_dlpack
from .devices.device import View
from .literals import literal_item, show_literal
from .request import Code, Fault, RequestError
from .rows import Constant, Rows, Value, as_array
from .shapes import Bindings, fixed_size, is_derived, names

_UNNAMED: Final[Bindings] = {}
"""Of types without named sizes, of which none is ever bound."""


def show_signature(pipeline: PipelinePlan) -> str:
    """Return `ocr(photo: bytes, min_score: f32 = 0.5) -> (text: string[N])`."""
    params = ", ".join(_show_parameter(parameter) for parameter in pipeline.parameters)
    results = ", ".join(map(str, pipeline.results))
    batch = f" batch {pipeline.batch}" if pipeline.batch is not None else ""
    arrow = "-> stream" if pipeline.stream else "->"
    idle = f" per sequence idle {pipeline.idle:g} s" if pipeline.idle is not None else ""
    return f"{pipeline.name}({params}) {arrow} ({results}){batch}{idle}"


def _show_parameter(parameter: Parameter) -> str:
    if not parameter.has_default:
        return str(parameter.field)
    return f"{parameter.field} = {show_literal(parameter.default)}"


def require_results(pipeline: PipelinePlan, outputs: Sequence[str]) -> None:
    """Raise RequestError when a caller cannot have these results and no others."""
    names = tuple(field.name for field in pipeline.results)
    if pipeline.stream and tuple(outputs) != names:
        raise RequestError(
            f"what `{pipeline.name}` emits comes whole: no outputs can be left out",
            pipeline=pipeline.name,
        )
    for name in outputs:
        if name not in names:
            known = ", ".join(f"`{one}`" for one in names)
            raise RequestError(
                f"`{pipeline.name}` has no result `{name}`; it has {known}"
                f"\n  {show_signature(pipeline)}",
                pipeline=pipeline.name,
            )
    if len(set(outputs)) != len(outputs):
        raise RequestError("a result is asked for twice", pipeline=pipeline.name)


class Acceptor:
    """Turns the inputs of one pipeline into columns."""

    def __init__(self, pipeline: PipelinePlan) -> None:
        self._pipeline = pipeline
        self._signature = show_signature(pipeline)
        self._batch = pipeline.batch
        self._entries = tuple(
            (parameter.field.name, converter(parameter.field.type), _default(parameter))
            for parameter in pipeline.parameters
        )
        self._stacked = {
            parameter.field.name: converter(_with_rows(kind))
            for parameter in pipeline.parameters
            if isinstance(kind := parameter.field.type, TensorType)
        }
        kinds = [parameter.field.type for parameter in pipeline.parameters]
        found = names(kinds)
        self._derived = any(map(is_derived, kinds))
        self._independent = len(found) == len(set(found)) and not self._derived
        self._named = bool(found) or self._derived
        plain = self._independent and len(self._stacked) == len(self._entries)
        self._arrays = tuple(self._stacked.items()) if plain else ()
        self.size = None if self._batch is not None else fixed_size(kinds)
        """The bytes of all inputs, where none may be larger than another; else None."""

    def accept(self, inputs: Mapping[str, object]) -> list[Rows]:
        """Return one column per parameter; all have as many rows as the request."""
        if self._batch is not None:
            return self._accept_rows(inputs)
        bindings: Bindings = {} if self._named else _UNNAMED
        columns: list[Rows] = []
        given = 0
        for name, convert, default in self._entries:
            if name in inputs:
                given += 1
                try:
                    columns.append(Rows(1, [convert(inputs[name], bindings)], None))
                except Mismatch as error:
                    raise self._error(f"`{name}` {error}") from None
            elif default is not None:
                columns.append(default)
            else:
                self._missing(name, inputs)
        if given != len(inputs):
            self._unknown(inputs)
        if self._derived:
            self._check_again(columns, [bindings])
        return columns

    def _check_again(self, columns: "list[Rows]", bindings: "list[Bindings]") -> None:
        """Compare computed dimensions whose names only a later input has given a value."""
        for (name, convert, _), column in zip(self._entries, columns, strict=True):
            for row, known in enumerate(bindings):
                try:
                    convert(column.item(row), known)
                except Mismatch as error:
                    of = f"row {row} of " if self._batch is not None else ""
                    raise self._error(f"{of}`{name}` {error}") from None

    def _accept_arrays(self, inputs: Mapping[str, object]) -> list[Rows] | None:
        """Do as `_accept_rows` in fewer steps where each input is an array; None where not, and
        where anything is wrong."""
        columns: list[Rows] = []
        count = None
        for name, convert in self._arrays:
            value = inputs.get(name)
            if value.__class__ is not np.ndarray:
                return None
            try:
                array = cast("Array", convert(value, {}))
            except Mismatch:
                return None
            rows = array.shape[0]
            if rows != count and count is not None:
                return None
            count = rows
            columns.append(Rows(rows, None, array))
        fits = count is not None and self._batch is not None and count <= self._batch
        return columns if fits and len(columns) == len(inputs) else None

    def _accept_rows(self, inputs: Mapping[str, object]) -> list[Rows]:
        if (accepted := self._accept_arrays(inputs)) is not None:
            return accepted
        given = {name: _rows_of(inputs[name]) for name, _, _ in self._entries if name in inputs}
        if len(given) != len(inputs):
            self._unknown(inputs)
        count = self._count(given)
        bindings: list[Bindings] = [{} for _ in range(1 if self._independent else count)]
        columns: list[Rows] = []
        for name, convert, default in self._entries:
            if name in given:
                columns.append(self._rows(name, convert, given[name], bindings))
            elif default is not None:
                columns.append(default.take(range(count)))
            else:
                self._missing(name, inputs)
        if self._derived:
            self._check_again(columns, bindings)
        return columns

    def _count(self, given: Mapping[str, object]) -> int:
        counts: dict[str, int] = {}
        for name, value in given.items():
            if isinstance(value, np.ndarray) and value.ndim > 0:
                counts[name] = cast("Array", value).shape[0]
            elif isinstance(value, list | tuple):
                counts[name] = len(cast("list[object]", value))
            else:
                raise self._error(
                    f"`{name}` has no leading axis of rows; `{self._pipeline.name}` takes many "
                    "items at once: give a list, or an array with one axis more"
                )
        if len(set(counts.values())) > 1:
            shown = ", ".join(f"`{name}` has {count}" for name, count in counts.items())
            raise self._error(f"the inputs differ in their number of rows: {shown}")
        count = next(iter(counts.values()), 1)
        if self._batch is not None and count > self._batch:
            raise self._error(
                f"the request has {count} rows, and `{self._pipeline.name}` takes at most "
                f"{self._batch} (batch {self._batch}); split it"
            )
        return count

    def _rows(self, name: str, convert: Convert, value: object, bindings: "list[Bindings]") -> Rows:
        stacked = self._stacked.get(name)
        try:
            if isinstance(value, np.ndarray) and stacked is not None:
                array = [stacked(value, known) for known in bindings]
                return Rows.stacked(cast("Array", array[0])) if array else Rows.of([])
        except Mismatch as error:
            raise self._error(f"`{name}` {error} (rows first)") from None
        items: list[Value] = []
        for row, one in enumerate(cast("list[object]", value)):
            try:
                items.append(convert(one, {} if self._independent else bindings[row]))
            except Mismatch as error:
                raise self._error(f"row {row} of `{name}` {error}") from None
        return Rows.of(items)

    def _missing(self, name: str, inputs: Mapping[str, object]) -> NoReturn:
        unknown = [one for one in inputs if one not in {entry[0] for entry in self._entries}]
        if unknown:
            self._unknown(inputs)
        raise self._error(f"the input `{name}` is missing")

    def _unknown(self, inputs: Mapping[str, object]) -> NoReturn:
        known = [name for name, _, _ in self._entries]
        name = next(one for one in inputs if one not in known)
        near = get_close_matches(name, known, 1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise self._error(f"`{self._pipeline.name}` has no input `{name}`{hint}")

    def _error(self, message: str) -> RequestError:
        return RequestError(f"{message}\n  {self._signature}", pipeline=self._pipeline.name)


def _rows_of(value: object) -> object:
    """Return rows as they are, or as an array where another library has them in one."""
    if isinstance(value, np.ndarray | list | tuple) or not hasattr(value, "__dlpack__"):
        return value
    try:
        return from_dlpack(value)
    except Mismatch:
        return value  # which is no rows either, and is refused as such


def _with_rows(kind: TensorType) -> TensorType:
    return TensorType(kind.dtype, (ANY_DIM, *kind.dims))


def _default(parameter: Parameter) -> Rows | None:
    if not parameter.has_default:
        return None
    item = literal_item(parameter.default, parameter.field.type)
    return Constant(item, parameter.default, 1)


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
