"""The border of a pipeline on the way in: a caller's values become columns (out: `present.py`).

Prepared once a pipeline. What does not fit is a RequestError that shows the signature.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final, NoReturn, cast

import numpy as np

from ..compiler.plan import Parameter, PipelinePlan
from ..dsl.types import ANY_DIM, TensorType
from ..stdlib.op import Array
from .convert import Convert, Mismatch, converter, from_dlpack
from .literals import literal_item, show_literal
from .request import RequestError
from .rows import Constant, Rows, Value
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
