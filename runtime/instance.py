"""A model on a device: stacks the rows of an execution, runs the session, splits again.

Rows of one execution have equal shapes, or are filled up to such where model and schedule say so
(`padding.py`); one row is not copied. An input without a batch axis must be the same for all rows
that run together. What another library than ONNX Runtime gives is held to the signature.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from ..compiler.plan import ON_DEVICES, ModelSegment
from ..dsl.types import OptionalType, TensorType, Type
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array
from .devices.device import Device, DeviceError, ResidencyError, Stream, View
from .devices.host import HostDevice
from .metrics import StageCell
from .padding import OnDevice, Padder
from .row_keys import RowKeys
from .rows import Rows, Value, as_array
from .session import DeviceSession, Session, SessionFor, encoded, gives_bytes, hold, said
from .shapes import Bindings, bind, evaluate, failed
from .stage import Part, Policy, StageError, StageGone, classes, run_parts, timed_run


class ModelStage:
    """Rows of equal shape share an execution, at most as many as the plan allows. It `chains` where
    a batch may come to it from another model (`chains.py`)."""

    def __init__(
        self,
        segment: ModelSegment,
        session: Session | SessionFor,
        device: Device,
        policy: Policy | None,
        index: int,
    ) -> None:
        self.name, self.index, self.policy = segment.name, index, policy
        self._segment, self._session = segment, cast("Session", session)
        self._reason: Callable[[Exception], str] = getattr(session, "reason", said)
        self._on_device = cast("DeviceSession", session)  # used where it has streams only
        self._streams = None if isinstance(device, HostDevice) else self._on_device.streams()
        self._device = device
        self._bytes = any(map(gives_bytes, segment.signature.results))
        self._held = segment.backend not in ON_DEVICES  # to its signature
        limit = segment.batching.maximum if segment.batching is not None else segment.group
        across = self._streams is not None and any((*segment.input_axes, *segment.output_axes))
        # a device stacks rows one behind the other, and nothing across another axis
        self._limit = limit if segment.stackable and not across else 1
        self._inputs = tuple(
            (name, axis, _dtype(field.type), isinstance(field.type, OptionalType))
            for name, axis, field in zip(
                segment.input_names, segment.input_axes, segment.signature.params, strict=True
            )
        )
        self._axes = segment.output_axes
        self._leading = all(axis == 0 for axis in segment.output_axes)
        self._checks = segment.checks
        self._padder = Padder.of(segment)
        self._keys = RowKeys(segment.signature.params, self._inputs, self._padder)
        self.chains = self._streams is None and self._padder is None

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        if count == 1:
            return timed_run(self, columns, 1, cell)
        if self._limit == 1:
            return self._one_by_one(columns, count, cell)
        if count <= self._limit and self._padder is None and self._alike(columns):
            try:
                return timed_run(self, columns, count, cell)
            except StageError as error:
                if error.row is not None:
                    raise
                return self._one_by_one(columns, count, cell)
        parts = self.split(columns, count)
        if self._padder is not None and len(parts) > 1:
            parts = self._padder.join(parts, columns, self._limit)
            for part in parts:
                self._padder.count(part.columns, part.count, cell)
        try:
            return run_parts(self, parts, count, self._limit, cell)
        except StageError as error:
            if error.row is not None:
                raise
            # rows that failed together run once more on their own, to find the one to blame
            return run_parts(self, parts, count, 1, cell)

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        if self._padder is not None:
            self._padder.count(columns, count, cell)
        return timed_run(self, columns, count, cell)

    def split(self, columns: Sequence[Rows], count: int) -> list[Part]:
        if count == 1 or self._alike(columns):
            size = self._padder.rank(columns, 0) if self._padder is not None else 0
            return [Part(self._key(columns, 0), None, columns, count, size)]
        if self._padder is None:
            return classes(columns, count, self._key)
        return self._padder.split(columns, count, self._key)

    def _alike(self, columns: Sequence[Rows]) -> bool:
        """Whether all rows are known to be of one shape, and equal where they must be."""
        for (_, axis, _, _), column in zip(self._inputs, columns, strict=False):
            if not (column.is_shared or (axis is not None and column.is_stacked)):
                return False
        return True

    def _one_by_one(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        """Run each row alone, also to find the one to blame where rows failed together."""
        return run_parts(self, [Part(None, None, tuple(columns), count)], count, 1, cell)

    def execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        """Run once for all rows; raises StageError when the model fails or miscounts."""
        if self._streams is not None:
            stream = self._streams.lend()
            try:
                return self._execute_on_device(columns, count, stream)
            finally:
                self._streams.give_back(stream)
        if self._padder is not None:
            return self._padder.run(self._execute, columns, count)
        return self._execute(columns, count)

    def _execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        feeds: dict[str, Array] = {}
        told = self._segment.told  # by one column more
        for (name, axis, dtype, optional), column in zip(self._inputs, columns, strict=not told):
            if axis is None:
                value = column.item(0)
                if value is None:
                    continue
                feeds[name] = as_array(value, dtype)
                continue
            if optional and column.item(0) is None:
                continue
            try:
                stack = column.stack(dtype)
            except ValueError as error:
                raise StageError(f"`{name}`: {error}") from error
            if stack.__class__ is View:
                raise StageError(f"{stack!r} is not in the host's memory")
            feeds[name] = stack if axis == 0 else _moved(stack, axis)  # type: ignore[assignment] no View
        try:
            if told:
                contexts = [columns[-1].item(row) for row in range(count)]
                outputs = cast("SessionFor", self._session).run_for(feeds, contexts)
            else:
                outputs = self._session.run(feeds)
        except (StageError, StageGone):
            raise
        except Exception as error:
            raise StageError(f"the model failed: {self._reason(error)}") from error
        if self._bytes:
            outputs = encoded(outputs, self._segment.signature.results)
        if self._held:
            hold(outputs, self._segment.signature.results, self._axes)
            self._check(list(feeds.values()), outputs)
        elif self._checks:
            self._check(list(feeds.values()), outputs)
        if self._leading:
            results: list[Rows] = []
            for output in outputs:
                if output.shape[0] != count:
                    self._miscounted(output.shape[0], count)
                results.append(Rows(count, None, output))
            return results
        return [
            self._column(out, axis, count) for out, axis in zip(outputs, self._axes, strict=True)
        ]

    def _column(self, output: "Array | View", axis: int | None, count: int) -> Rows:
        if axis is None:
            return Rows.shared(output, count)
        if output.shape[axis] != count:
            self._miscounted(output.shape[axis], count)
        if axis == 0:
            return Rows.stacked(output)
        if isinstance(output, View):  # of one row: no other gets here
            return Rows.one(output.squeezed(axis))
        around = (axis, *range(axis), *range(axis + 1, output.ndim))
        return Rows.stacked(output.transpose(around))

    def _miscounted(self, found: int, count: int) -> None:
        raise StageError(
            f"the model returned {found} rows for {count}; no row can be told from another's"
        )

    def _execute_on_device(self, columns: Sequence[Rows], count: int, stream: Stream) -> list[Rows]:
        run = partial(self._run_on_device, stream=stream)
        try:
            if self._padder is not None:
                space = OnDevice(self._device, self.name, stream)
                return self._padder.run(run, columns, count, space)
            return run(columns, count)
        except DeviceError as error:
            raise StageError(str(error)) from error

    def _run_on_device(self, columns: Sequence[Rows], count: int, stream: Stream) -> list[Rows]:
        try:
            feeds = self._views(columns, stream)
            outputs = self._on_device.run_on_device(
                feeds, self._shapes(feeds, count), self.name, stream
            )
        except (StageError, DeviceError, ResidencyError):
            raise
        except Exception as error:
            raise StageError(f"the model failed: {self._reason(error)}") from error
        if self._checks:
            self._check(list(feeds.values()), outputs)
        return [
            self._column(out, axis, count) for out, axis in zip(outputs, self._axes, strict=True)
        ]

    def _views(self, columns: Sequence[Rows], stream: Stream) -> dict[str, View]:
        """Return what the model is fed, each column as one view."""
        feeds: dict[str, View] = {}
        for (name, axis, _, _), column in zip(self._inputs, columns, strict=True):
            try:
                alone = axis != 0
                value: Value = column.item(0) if alone else column.stack_on(self.name, stream)
            except ValueError as error:
                raise StageError(f"`{name}`: {error}") from error
            if value is None:
                continue
            if not isinstance(value, View):
                raise StageError(f"`{name}` is in the host's memory, and the model runs elsewhere")
            if axis and column.count > 1:
                raise StageError(f"`{name}` has its batch axis at {axis}; a device wants it first")
            feeds[name] = value.expanded(axis) if axis else value
        return feeds

    # Any: of any scalar
    def _shapes(
        self, feeds: dict[str, View], count: int
    ) -> "list[tuple[tuple[int, ...] | None, np.dtype[Any]]]":
        bindings: Bindings = {}
        for (name, axis, _, _), field in zip(
            self._inputs, self._segment.signature.params, strict=True
        ):
            if name in feeds and isinstance(field.type, TensorType):
                bind(field.type.dims, _item_shape(feeds[name].shape, axis), bindings)
        shapes: list[tuple[tuple[int, ...] | None, np.dtype[Any]]] = []  # Any: of any scalar
        for field, axis in zip(self._segment.signature.results, self._axes, strict=True):
            kind = cast("TensorType", field.type)  # models give tensors
            sizes = [evaluate(dim, bindings) for dim in kind.dims]
            known = None if None in sizes else cast("list[int]", sizes)  # just looked at
            if known is not None and axis is not None:
                known.insert(axis, count)
            shapes.append((None if known is None else tuple(known), to_numpy(kind.dtype)))
        return shapes

    def _check(self, inputs: "Sequence[Array | View]", outputs: "Sequence[Array | View]") -> None:
        bindings: Bindings = {}
        signature = self._segment.signature
        for field, axis, tensor in (
            *zip(signature.params, self._segment.input_axes, inputs, strict=False),
            *zip(signature.results, self._segment.output_axes, outputs, strict=True),
        ):
            if isinstance(field.type, TensorType):
                wrong = bind(field.type.dims, _item_shape(tensor.shape, axis), bindings)
                if wrong is not None:
                    raise StageError(f"`{field.name}` {wrong}")
        for check in self._checks:
            wrong = failed(check, bindings)
            if wrong is not None:
                raise StageError(wrong)

    def _key(self, columns: Sequence[Rows], row: int) -> Hashable:
        """Return what rows that run together have in common."""
        return self._keys.of(columns, row)


def _moved(stack: "Array | View", axis: int) -> Array:
    around = (*range(1, axis + 1), 0, *range(axis + 1, stack.ndim))
    return cast("Array", stack).transpose(around)  # a tenth of what `moveaxis` takes


def _item_shape(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    return shape if axis is None else (*shape[:axis], *shape[axis + 1 :])


def _dtype(kind: Type) -> "np.dtype[Any] | None":  # Any: of any scalar
    return to_numpy(kind.dtype) if isinstance(kind, TensorType) else None
