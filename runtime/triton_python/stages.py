"""Models of Triton's Python backend as stages.

`execute` is given requests and not rows: the rows of one request stay together, with what is known
of it.
"""

import json
import logging
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, cast

import ml_dtypes
import numpy as np

from ...compiler.plan import ModelSegment
from ...dsl.types import DType, TensorType
from ...stdlib.op import Array
from ..context import Context, Span, spans_of
from ..devices.host import HostDevice
from ..instance import ModelStage
from ..isolation.lease import Lease
from ..protocols.datatypes import DATATYPES
from ..rows import Rows, Value, as_array, scatter
from ..session import encoded
from ..stage import Policy, RowsFailed, StageError, StageGone
from .asked import Asked, Given, Outputs, Run
from .bound import Bound
from .config import Shapes
from .iterative import Iterations
from .worker.triton_python_backend_utils.batches import Group, Layout
from .worker.triton_python_backend_utils.contents import DTYPES

_LOG: Final = logging.getLogger(__name__)
AGAIN: Final = 1 << 20


class Nothing:
    """In place of a session: what is run here has none."""

    def run(self, feeds: object, /) -> Sequence[Array]:
        raise AssertionError(f"{feeds} for no session")

    def close(self) -> None:
        """Nothing is held."""


Outcome = Given | StageError | StageGone | None
"""What has been answered to a request; None: nothing yet."""


class TritonStage(ModelStage):
    """Rows of equal shape share a run of the model, the rows of each request as one request."""

    def __init__(
        self,
        segment: ModelSegment,
        pool: Lease | Bound | None,
        policy: Policy | None,
        index: int,
        iterations: Iterations | None = None,
        shapes: Shapes | None = None,
    ) -> None:
        super().__init__(segment, Nothing(), HostDevice(), policy, index)
        self._given_shapes = [(shapes or {}).get(name) for name, *_ in self._inputs]
        # Only an input that may be absent is declared in its caller's shape.
        self._as_declared = all(
            shape is None or not optional
            for shape, (*_, optional) in zip(self._given_shapes, self._inputs, strict=True)
        )
        self._pool, self._iterations = pool, iterations
        self._given_types = [_datatype(field.type) for field in segment.signature.params]
        self._results = [
            (name, cast("TensorType", field.type), _datatype(field.type), axis)
            for name, field, axis in zip(
                segment.output_names, segment.signature.results, segment.output_axes, strict=True
            )
        ]
        self._fitting: object = None  # the shapes that were last found to agree
        self._stacks = all(axis is not None for axis in segment.input_axes)
        self.chains = type(self) is TritonStage and isinstance(pool, Lease) and iterations is None
        self._warned: set[str] = set()

    def _execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        spans = spans_of(columns[-1], count)
        counts = tuple([stop - start for start, stop, _ in spans])
        whole = None if self._iterations is not None else self._whole(columns, counts)
        if whole is not None:
            run = self._run(Run([context for *_, context in spans], [whole]))
            answer = run.answer
            if answer is not None and len(answer.groups) == 1 and not answer.others:
                (found,) = answer.groups
                if found.layout.rows and found.counts == counts:
                    for index, said in answer.parameters.items():
                        remark(run.contexts[index], said)
                    return self._columns(_outputs(found.arrays, found), count, whole.arrays)
            outcomes = outcomes_of(run)
        else:
            outcomes = list[Outcome]([None] * len(spans))
        self._ask_again(columns, spans, outcomes)
        return self._apart(columns, spans, outcomes)

    def _key(self, columns: Sequence[Rows], row: int) -> Hashable:
        key = super()._key(columns, row)
        if self._segment.batching is None:  # a request is given alone where no queue is asked for
            key = id(columns[-1].item(row)), key
        if isinstance(self._pool, Bound):
            return self._pool.number(cast("Context", columns[-1].item(row))), key
        return key

    def _run(self, run: Run) -> Run:
        """Let the model execute a run; raises what ends all of its requests."""
        assert self._pool is not None
        self._pool(run)
        if isinstance(run.error, StageGone) or (run.error and len(run.contexts) > 1):
            raise run.error
        return run

    def _whole(self, columns: Sequence[Rows], counts: tuple[int, ...]) -> Group | None:
        """Return the inputs of requests of so many rows as they lie, None where those are no
        stacks."""
        tensors: list[tuple[str, str, tuple[int, ...]]] = []
        arrays: list[Array] = []
        if not self._stacks and len(counts) > 1:
            return None
        for (name, axis, dtype, _), datatype, shape, column in zip(
            self._inputs, self._given_types, self._given_shapes, columns, strict=False
        ):
            value = column.item(0)
            if value is None:
                continue
            try:
                array = as_array(value, dtype) if axis is None else column.stack(dtype)
            except ValueError:  # of several sizes: request by request
                return None
            array = _wire(_reshaped(array, shape))  # type: ignore[arg-type] no View
            tensors.append((name, datatype, array.shape[1:] if self._stacks else array.shape))
            arrays.append(array)
        layout = Layout(tuple(tensors), self._stacks)
        return Group(layout, counts if self._stacks else (1,), arrays)

    def _ask_again(
        self, columns: Sequence[Rows], spans: Sequence[Span], outcomes: "list[Outcome]"
    ) -> None:
        """Ask those that have no outcome yet, until the model does not want them again."""
        requests = {
            index: Asked(context, self._given(columns, start, stop))
            for index, (start, stop, context) in enumerate(spans)
            if outcomes[index] is None
        }
        if self._iterations is not None:
            for one in requests.values():
                self._iterations.begin(one)
        for _ in range(AGAIN):
            if not requests:
                return
            run = self._run(run_of([*requests.values()]))
            for index, outcome in zip(requests, outcomes_of(run), strict=True):
                outcomes[index] = outcome
            requests = {index: one for index, one in requests.items() if outcomes[index] is None}
            if self._iterations is not None:
                for one in requests.values():
                    self._iterations.follow(one)
        raise StageError("the model has asked for the same request a million times")

    def _apart(
        self,
        columns: Sequence[Rows],
        spans: Sequence[Span],
        outcomes: "Sequence[Outcome]",
        again: "Mapping[int, Value]" = MappingProxyType({}),
    ) -> list[Rows]:
        """Return the columns that responses of each its own form make; raises RowsFailed where not
        all have one, with the rows that are to run `again`."""
        pieces: list[tuple[range, list[Rows]]] = []
        errors: dict[int, StageError | StageGone] = {}
        at = 0
        for (start, stop, context), outcome in zip(spans, outcomes, strict=True):
            rows = stop - start
            if start in again:
                continue
            try:
                if outcome is None or isinstance(outcome, StageError | StageGone):
                    raise outcome or StageError("the model has sent no response")
                inputs = [array for _, _, array in self._given(columns, start, stop)]
                results = self._columns(outcome.outputs, rows, inputs)
                remark(context, outcome.parameters)
            except (StageError, StageGone) as error:
                errors.update(dict.fromkeys(range(start, stop), error))
                continue
            pieces.append((range(at, at + rows), results))
            at += rows
        fields = self._segment.signature.results
        kept = (
            [scatter(at, [(rows, given[i]) for rows, given in pieces]) for i in range(len(fields))]
            if pieces
            else [Rows.of([]) for _ in fields]
        )
        if errors or again:
            raise RowsFailed(errors, kept, again)
        return kept

    def _given(
        self, columns: Sequence[Rows], start: int, stop: int
    ) -> list[tuple[str, str, Array]]:
        given: list[tuple[str, str, Array]] = []
        for (name, axis, dtype, _), datatype, shape, column in zip(
            self._inputs, self._given_types, self._given_shapes, columns, strict=False
        ):
            value = column.item(0 if axis is None else start)
            if value is None:
                continue
            if axis is None:
                array = as_array(value, dtype)
            else:
                array = cast("Array", column.part(start, stop).stack(dtype))
            given.append((name, datatype, _wire(_reshaped(array, shape))))
        return given

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
        arrays: list[Array] = []
        for name, kind, wanted, axis in self._results:
            if name not in answer:
                raise StageError(f"the model gave no output `{name}`")
            datatype, array = answer[name]
            if datatype != wanted:
                array = self._converted(name, array, datatype, wanted)
            if kind.dtype is DType.BF16:
                array = array.view(ml_dtypes.bfloat16)
            elif kind.dtype is DType.STRING:
                array = _texts(name, array)
            rank = len(kind.dims) + (axis is not None)
            if array.ndim != rank or not array.size:
                array = _formed(array, kind, axis, rows)
            if array.ndim != rank:
                raise StageError(f"output `{name}` has {array.ndim} axes, and should have {rank}")
            if axis is not None and array.shape[axis] != rows:
                raise StageError(f"output `{name}` has {array.shape[axis]} rows for {rows}")
            arrays.append(array)
        shapes = [one.shape for one in (*inputs, *arrays)]
        complete = len(inputs) == len(self._inputs) and self._as_declared
        if complete and shapes != self._fitting:
            self._check(inputs, arrays)
            self._fitting = shapes
        if self._bytes:
            arrays = list(encoded(arrays, self._segment.signature.results))
        return [self._column(one, axis, rows) for one, axis in zip(arrays, self._axes, strict=True)]


def run_of(requests: Sequence[Asked]) -> Run:
    """Return a run of requests with tensors of any sizes."""
    groups: list[Group] = []
    for one in requests:
        layout = Layout(tuple((name, kind, tuple(a.shape)) for name, kind, a in one.inputs), False)
        groups.append(Group(layout, (1,), [array for _, _, array in one.inputs]))
    return Run([one.context for one in requests], groups, [one.sequence for one in requests])


def outcomes_of(run: Run) -> list[Outcome]:
    """Return what has been answered to each request of a run, waiting for what is answered later;
    None to those that the model wants again."""
    answer = run.answer
    if answer is None:
        return [cast("StageError", run.error)]
    members = (
        _outputs([array for *_, array in member], group)
        for group in answer.groups
        for member in group.members()
    )
    outcomes: list[Outcome] = []
    for index in range(len(run.contexts)):
        if index not in answer.others:
            outcomes.append(Given(next(members), answer.parameters.get(index, "")))
        elif index in answer.again:
            outcomes.append(None)
        else:
            outcomes.append(answer.others[index] or _later(run.asked[index]))
    return outcomes


def remark(context: Context, said: str) -> None:
    """Let a request be answered with parameters beside its outputs; raises StageError."""
    if not said:
        return
    found: object = json.loads(said)
    if not isinstance(found, dict) or not all(map(_is_parameter, found.values())):
        raise StageError("the model's response has parameters that are none")
    context.remarks = {**context.remarks, **cast("dict[str, int | float | str]", found)}


def _is_parameter(value: object) -> bool:
    return isinstance(value, bool | str | float) or (
        isinstance(value, int) and -(1 << 63) <= value < 1 << 63
    )


def _later(one: Asked) -> Outcome:
    """Return what is answered after `execute`, for which no thread waits once its request is over:
    a model that forgets one would keep it for ever."""
    one.context.tell_end(one.responses.leave)
    left = one.context.remaining()
    due = None if left is None else time.monotonic() + left
    try:
        return one.responses.take(due) or StageError("the model has sent no response")
    except (StageError, StageGone) as error:
        return error


def _outputs(arrays: Sequence[Array], group: Group) -> Outputs:
    """Return tensors of a group's layout by their names."""
    return {
        name: (datatype, array)
        for (name, datatype, _), array in zip(group.layout.tensors, arrays, strict=True)
    }


def _datatype(kind: object) -> str:
    kind = getattr(kind, "item", kind)  # of an optional one
    return DATATYPES[cast("TensorType", kind).dtype].name


def _formed(array: Array, kind: TensorType, axis: int | None, rows: int) -> Array:
    """Return an output in the declared form, where that has the same elements: models leave out
    axes of size 1, and give `np.array([])` where they have found nothing."""
    shape = [dim if isinstance(dim, int) else None for dim in kind.dims]
    if axis is not None:
        shape.insert(axis, rows)
    if _fit(array.shape, shape):
        return array
    if not array.size and None in shape:
        return array.reshape([0 if one is None else one for one in shape])
    sizes = [one for one in array.shape if one != 1]
    found = list(_forms(sizes, shape))
    return array.reshape(found[0]) if len(found) == 1 else array


def _forms(sizes: Sequence[int], shape: Sequence[int | None]) -> Iterator[list[int]]:
    """Yield what a form with open sizes, None, can be of sizes that are not 1."""
    if not shape:
        if not sizes:
            yield []
        return
    if sizes and shape[0] in (None, sizes[0]):
        yield from ([sizes[0], *rest] for rest in _forms(sizes[1:], shape[1:]))
    if shape[0] in (None, 1):
        yield from ([1, *rest] for rest in _forms(sizes, shape[1:]))


def _fit(sizes: Sequence[int], wanted: Sequence[int | None]) -> bool:
    """Whether sizes are those that are wanted, where None is any."""
    return len(sizes) == len(wanted) and all(
        one in (None, size) for size, one in zip(sizes, wanted, strict=True)
    )


def _reshaped(array: Array, shape: Sequence[int | None] | None) -> Array:
    if shape is None:
        return array
    return array.reshape([len(array) if one is None else one for one in shape])


def _wire(array: Array) -> Array:
    return array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array


def _texts(name: str, array: Array) -> Array:
    try:
        return cast("Array", _DECODE(array)) if array.size else array
    except UnicodeDecodeError as error:
        raise StageError(f"output `{name}` is a string, but its bytes are no UTF-8") from error


_DECODE = np.frompyfunc(lambda one: one.decode() if isinstance(one, bytes) else one, 1, 1)
