"""Models of Triton's Python backend as stages.

`execute` is given requests and not rows: the rows of one request stay together, with what is known
of it. A model that answers any number of times is two stages: what begins gives a handle, and what
follows gives the next response for it, or says that there is none.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import ml_dtypes
import numpy as np

from ...compiler.plan import ModelSegment
from ...dsl.types import DType, TensorType
from ...stdlib.dtypes import to_numpy
from ...stdlib.op import Array
from ..context import Context
from ..devices.host import HostDevice
from ..instance import ModelStage
from ..isolation.pool import Pool
from ..protocols.datatypes import DATATYPES
from ..rows import Rows, Value, as_array, scatter
from ..session import encoded
from ..stage import Policy, RowsFailed, StageError, StageGone
from .asked import Asked, Outputs, Responses, Run
from .iterative import Iterations
from .worker.triton_python_backend_utils.link import DTYPES

_LOG: Final = logging.getLogger(__name__)
_AGAIN: Final = 1 << 20


class Nothing:
    """In place of a session: what is run here has none."""

    def run(self, feeds: object, /) -> Sequence[Array]:
        raise AssertionError(f"{feeds} for no session")

    def close(self) -> None:
        """Nothing is held."""


class Handle(np.ndarray[Any, Any]):
    """A number that stands for the responses of a request; they go with the last who has it."""

    responses: Responses


class TritonStage(ModelStage):
    """Rows of equal shape share a run of the model, the rows of each request as one request."""

    def __init__(
        self,
        segment: ModelSegment,
        pool: Pool | None,
        policy: Policy | None,
        index: int,
        iterations: Iterations | None = None,
    ) -> None:
        super().__init__(segment, Nothing(), HostDevice(), policy, index)
        self._pool, self._iterations = pool, iterations
        self._warned: set[str] = set()

    def _execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        spans = _spans(columns[-1], count)
        asked = [
            Asked(context, self._given(columns, start, stop)) for start, stop, context in spans
        ]
        self._ask(asked)
        pieces: list[tuple[range, list[Rows]]] = []
        errors: dict[int, StageError | StageGone] = {}
        at = 0
        for (start, stop, _), one in zip(spans, asked, strict=True):
            try:
                results = self._results(one, stop - start)
            except StageGone:
                raise
            except StageError as error:
                errors[start] = error
                continue
            pieces.append((range(at, at + stop - start), results))
            at += stop - start
        fields = self._segment.signature.results
        kept = (
            [scatter(at, [(rows, given[i]) for rows, given in pieces]) for i in range(len(fields))]
            if pieces
            else [Rows.of([]) for _ in fields]
        )
        if errors:
            raise RowsFailed(errors, kept)
        return kept

    def _ask(self, asked: list[Asked]) -> None:
        """Let the model execute requests, those that it wants again until it has answered."""
        assert self._pool is not None
        if self._iterations is not None:
            for one in asked:
                self._iterations.begin(one)
        for _ in range(_AGAIN):
            run = Run(asked)
            self._pool(run)
            if isinstance(run.error, StageGone):
                raise run.error
            if run.error is not None and len(asked) > 1:
                raise StageError(run.error.message, detail=run.error.detail)
            asked = [one for one in asked if one.again]
            if not asked:
                return
            if self._iterations is not None:
                for one in asked:
                    self._iterations.follow(one)
        raise StageError("the model has asked for the same request a million times")

    def _given(
        self, columns: Sequence[Rows], start: int, stop: int
    ) -> list[tuple[str, str, Array]]:
        given: list[tuple[str, str, Array]] = []
        for (name, axis, dtype, _), column, field in zip(
            self._inputs, columns, self._segment.signature.params, strict=False
        ):
            value = column.item(0 if axis is None else start)
            if value is None:
                continue
            if axis is None:
                array = as_array(value, dtype)
            else:
                array = cast("Array", column.part(start, stop).stack(dtype))
            given.append((name, _datatype(field.type), _wire(array)))
        return given

    def _results(self, one: Asked, rows: int) -> list[Rows]:
        answer = one.responses.take()
        if answer is None:
            raise StageError("the model has sent no response")
        return self._columns(answer, rows, [array for _, _, array in one.inputs])

    def _converted(self, name: str, array: Array, datatype: str, wanted: str) -> Array:
        """Return an output of another type than declared, which models get away with elsewhere:
        floats rounded, and whole numbers that fit."""
        told = f"output `{name}` is {datatype}, and {wanted} is declared"
        if "BYTES" in (datatype, wanted) or "BF16" in (datatype, wanted):
            raise StageError(told)
        dtype = DTYPES[wanted]
        with np.errstate(over="ignore"):
            found = array.astype(dtype)
        if array.dtype.kind == "f" and dtype.kind == "f":
            fits = bool(np.array_equal(np.isfinite(found), np.isfinite(array)))
        else:
            fits = "f" not in (array.dtype.kind, dtype.kind) and np.array_equal(found, array)
        if not fits:
            raise StageError(f"{told}, which cannot have its values")
        if name not in self._warned:
            self._warned.add(name)
            _LOG.warning("stage `%s`: %s; it is converted each time", self.name, told)
        return found

    def _columns(self, answer: Outputs, rows: int, inputs: list[Array]) -> list[Rows]:
        """Return a response as columns, once it is as declared; raises StageError."""
        signature, arrays = self._segment.signature.results, list[Array]()
        names = self._segment.output_names
        for name, field, axis in zip(names, signature, self._axes, strict=True):
            if name not in answer:
                raise StageError(f"the model gave no output `{name}`")
            datatype, array = answer[name]
            wanted = _datatype(field.type)
            if datatype != wanted:
                array = self._converted(name, array, datatype, wanted)
            kind = cast("TensorType", field.type)  # models give tensors
            if kind.dtype is DType.BF16:
                array = array.view(ml_dtypes.bfloat16)
            elif kind.dtype is DType.STRING:
                array = _texts(name, array)
            rank = len(kind.dims) + (axis is not None)
            if array.ndim == rank + 1 and array.shape[-1] == 1 and not kind.dims:
                array = array[..., 0]  # a scalar goes as a tensor of one element
            if array.ndim != rank:
                raise StageError(f"output `{name}` has {array.ndim} axes, and should have {rank}")
            if axis is not None and array.shape[axis] != rows:
                raise StageError(f"output `{name}` has {array.shape[axis]} rows for {rows}")
            arrays.append(array)
        if len(inputs) == len(self._inputs):
            self._check(inputs, arrays)
        arrays = list(encoded(arrays, signature))
        return [self._column(one, axis, rows) for one, axis in zip(arrays, self._axes, strict=True)]


class OpenStage(TritonStage):
    """Begins a request; its result is a handle of the responses."""

    def _execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        context = cast("Context", columns[-1].item(0))
        one = Asked(context, self._given(columns, 0, count))
        self._ask([one])
        handle = np.array(one.number, np.int64).view(Handle)
        handle.responses = one.responses
        context.tell_end(lambda: one.responses.end(StageError("the request is over")))
        return [Rows.shared(cast("Value", handle), count)]


class NextStage(TritonStage):
    """Waits for the next response: whether there is one, and its outputs, zeros where not."""

    def ready(self, columns: Sequence[Rows], notify: Callable[[], object]) -> bool:
        """Whether there is something to give; else `notify` is called when there is."""
        return _responses(columns).ready(notify)

    def _execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        responses, context = _responses(columns), cast("Context", columns[-1].item(0))
        answer = responses.take(context.deadline)
        fields = self._segment.signature.results
        if answer is None:
            rest = [Rows.one(_blank(cast("TensorType", field.type))) for field in fields[1:]]
            return [Rows.one(np.array(False)), *rest]
        told = {**answer, self._segment.output_names[0]: ("BOOL", np.array(True))}
        return self._columns(told, count, [])


def _responses(columns: Sequence[Rows]) -> Responses:
    handle = columns[0].item(0)
    if not isinstance(handle, Handle):
        raise StageError("what it is given was not made by the `open` of its model")
    return handle.responses


def _spans(told: Rows, count: int) -> list[tuple[int, int, Context]]:
    """Return the rows of each request: from which to which, and whose they are."""
    spans: list[tuple[int, int, Context]] = []
    start = 0
    contexts = [cast("Context", told.item(row)) for row in range(count)]
    for row in range(1, count + 1):
        if row == count or contexts[row] is not contexts[start]:
            spans.append((start, row, contexts[start]))
            start = row
    return spans


def _datatype(kind: object) -> str:
    kind = getattr(kind, "item", kind)  # of an optional one
    return DATATYPES[cast("TensorType", kind).dtype].name


def _wire(array: Array) -> Array:
    return array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array


def _texts(name: str, array: Array) -> Array:
    try:
        return cast("Array", _DECODE(array)) if array.size else array
    except UnicodeDecodeError as error:
        raise StageError(f"output `{name}` is a string, but its bytes are no UTF-8") from error


_DECODE = np.frompyfunc(lambda one: one.decode() if isinstance(one, bytes) else one, 1, 1)


def _blank(kind: TensorType) -> Array:
    shape = tuple(dim if isinstance(dim, int) else 0 for dim in kind.dims)
    if kind.dtype in (DType.STRING, DType.BYTES):
        return np.full(shape, "" if kind.dtype is DType.STRING else b"", object)
    return np.zeros(shape, to_numpy(kind.dtype))
