"""Runs an engine on a device's values: in place, in the order of a stream, waiting for nothing.

Sizes are held to those that the engine was built for before the library sees them, so that what
fails says which axis of which input. A result whose size the run alone tells, or that lies on the
host because sizes come of it, has to be waited for.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from ...compiler.plan import ShapeRange
from ...stdlib.op import Array
from ..devices.device import Device, Pointed, Stream, View
from ..devices.gpu import calls_to
from ..devices.resident import ResidentDevice
from ..devices.streams import Streams
from ..request import Code
from ..session import said
from ..stage import StageError, StageGone
from .engine import Context, Engine, Port
from .outputs import output_allocator

_BYTE = np.dtype(np.uint8)


class EngineSession:
    """One engine for all stages that have the model, for the same sizes. Several threads may run
    it at once."""

    def __init__(
        self,
        engine: Engine,
        device: Device,
        ranges: Sequence[ShapeRange],
        output_names: Sequence[str],
    ) -> None:
        self._engine: Engine | None = engine
        self._device = cast("ResidentDevice", device)  # as everything that is not the host
        self._ranges = {one.input: one for one in ranges}
        self._outputs = [engine.ports[name] for name in output_names]

    def streams(self) -> Streams:
        return Streams(self._device)

    def run(self, _feeds: Mapping[str, Array], /) -> NoReturn:
        raise StageError("an engine takes values in the memory of its GPU")

    def reason(self, error: Exception) -> str:
        return said(error)

    def close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def run_on_device(
        self,
        feeds: Mapping[str, View],
        results: "Sequence[tuple[tuple[int, ...] | None, np.dtype[Any]]]",  # Any: of any scalar
        stage: str,
        stream: Stream,
    ) -> list[View]:
        engine = self._engine
        if engine is None:
            raise StageGone(Code.UNAVAILABLE, "the engine was closed")
        for name, view in feeds.items():
            _require_within(self._ranges[name], view.shape)
        with calls_to(self._device), engine.context() as context:
            context.follow(stream)
            if not engine.prepare(context, cast("Pointed", stream).pointer):
                raise StageError("TensorRT does not take the sizes that the engine was built for")
            self._bind(context, feeds)
            run = _Run(engine, context, self._device, stage, stream)
            for output, (shape, dtype) in zip(self._outputs, results, strict=True):
                run.add(output, shape, dtype)
            return run.launch([*feeds.values()])

    def _bind(self, context: Context, feeds: Mapping[str, View]) -> None:
        handle = context.handle
        for name, view in feeds.items():
            if not handle.set_input_shape(name, view.shape):
                raise StageError(f"`{self._ranges[name].name}` cannot be {list(view.shape)}")
            if not handle.set_tensor_address(name, self._device.address(view)):
                raise StageError(f"`{self._ranges[name].name}` cannot lie where it does")
        missing = handle.infer_shapes()
        if missing:
            raise StageError(f"sizes are missing of {', '.join(map(str, missing))}")


class _Run:
    """One run: where its results go, and its scratch."""

    def __init__(
        self, engine: Engine, context: Context, device: ResidentDevice, stage: str, stream: Stream
    ) -> None:
        self.engine, self.context, self.device = engine, context, device
        self.stage, self.stream = stage, stream
        self.views: list[View | None] = []  # None: on the host
        self.arrays: list[Array | None] = []  # None: on the device
        self.dtypes: list[np.dtype[Any]] = []  # Any: of any scalar
        self.sized: dict[int, Any] = {}  # allocators by result; Any: of an untyped module

    # Any: of any scalar
    def add(self, output: Port, declared: tuple[int, ...] | None, dtype: "np.dtype[Any]") -> None:
        """Say where a result is to be put."""
        self.dtypes.append(dtype)
        handle = self.context.handle
        shape = tuple(handle.get_tensor_shape(output.name))
        known = all(size >= 0 for size in shape)
        if known and declared is not None and shape != declared:
            raise StageError(f"`{output.name}` is {list(shape)}, and {list(declared)} is declared")
        if output.on_host:
            array = np.empty(shape if known else declared or (), dtype)
            self._put(handle.set_tensor_address(output.name, array.ctypes.data), output)
            self.views.append(None)
            self.arrays.append(array)
            return
        self.arrays.append(None)
        if known:
            view = self.device.allocate(shape, dtype, self.stage, self.stream)
            self._put(handle.set_tensor_address(output.name, self.device.address(view)), output)
        else:
            capacity = int(handle.get_max_output_size(output.name))
            if capacity < 0:
                raise StageError(f"TensorRT does not say how large `{output.name}` may become")
            view = self.device.allocate((capacity,), _BYTE, self.stage, self.stream)
            place = self.device.address(view)
            allocator = output_allocator(self.engine.package, place, capacity)
            self._put(handle.set_output_allocator(output.name, allocator), output)
            self.sized[len(self.views)] = allocator
        self.views.append(view)

    def launch(self, reads: Sequence[View]) -> list[View]:
        """Ask for the run; wait only for what has no size before."""
        nbytes = self.engine.scratch(self.context)
        writes = [view for view in self.views if view is not None]
        if nbytes:
            scratch = self.device.allocate((nbytes,), _BYTE, self.stage, self.stream)
            self.engine.give_scratch(self.context, self.device.address(scratch), nbytes)
            writes.append(scratch)
        # the library reads addresses that it was given until the run has ended
        self.context.kept = [*self.sized.values(), *self.arrays]
        try:
            done = self.device.launch(self.stage, self.stream, reads, writes, self._enqueue)
        finally:  # what fails may have asked for a part
            self.context.last = self.stream.record()
        if self.sized or any(array is not None for array in self.arrays):
            done.synchronize()
            self.device.books.count(self.stage, syncs=1)
        return [self._result(number) for number in range(len(self.views))]

    def _enqueue(self) -> None:
        if not self.context.handle.execute_async_v3(cast("Pointed", self.stream).pointer):
            told = self.engine.heard[-1] if self.engine.heard else "TensorRT does not say why"
            raise StageError(f"the model failed: {told}")

    def _result(self, number: int) -> View:
        array, view = self.arrays[number], self.views[number]
        if array is not None:
            return self.device.upload(array, self.stage, self.stream)
        if view is None:
            raise AssertionError("a result is on the host or on the device")
        if number not in self.sized:
            return view
        shape = self.sized[number].shape
        if shape is None:
            raise StageError("TensorRT did not say how large a result has become")
        return View(view.buffer, view.offset, shape, self.dtypes[number], self.stage, view.ready)

    def _put(self, taken: bool, output: Port) -> None:
        if not taken:
            raise StageError(f"`{output.name}` cannot be put where it was to go")


def _require_within(range: ShapeRange, shape: tuple[int, ...]) -> None:
    """Raise StageError where an engine was not built for the sizes of an input."""
    if len(shape) != len(range.least):
        raise StageError(f"`{range.name}` has {len(shape)} axes, and not {len(range.least)}")
    for axis, (size, least, most) in enumerate(zip(shape, range.least, range.most, strict=True)):
        if not least <= size <= most:
            raise StageError(
                f"`{range.name}` has {size} in axis {axis}, and its engine is built for {least} "
                f"to {most}: see `sizes` of `engine` in the schedule"
            )
