"""A CUDA GPU through CuPy: `gpu:0`. Written against CuPy 13 and 14.

Streams do not wait for the legacy default stream, and events carry no times. Memory comes from
`cudaMalloc` by way of the pool of every device (CuPy's own keeps blocks to one stream each). Copies
go from and to pageable memory: the driver has read the host's array when the call returns, and a
result is waited for.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...stdlib.op import Array
from ..load_error import NO_RUNTIME, LoadError
from .device import DeviceError, DeviceKind, Event, Stream, View
from .resident import Kind, ResidentDevice

_INSTALL: Final = "pip install 'headrace[gpu]'"
_NO_MEMORY: Final = 2
"""`cudaErrorMemoryAllocation`, for which CuPy has no name."""


class GpuEvent:
    """A recorded `cudaEvent`."""

    __slots__ = ("handle", "stream")

    def __init__(self, stream: "GpuStream", handle: Any) -> None:  # Any: CuPy is optional
        self.stream, self.handle = stream, handle

    def synchronize(self) -> None:
        try:
            self.handle.synchronize()
        except RuntimeError as error:
            raise DeviceError(f"the GPU has failed: {error}") from error


class GpuStream:
    """A `cudaStream`; other libraries are given its `pointer`."""

    def __init__(self, device: "GpuDevice") -> None:
        self._device = device
        with device.current():
            self._handle = device.cuda.Stream(non_blocking=True)

    @property
    def pointer(self) -> int:
        return int(self._handle.ptr)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer

    def record(self) -> GpuEvent:
        with self._device.current():
            event = self._device.cuda.Event(disable_timing=True)
            event.record(self._handle)
        return GpuEvent(self, event)

    def wait(self, event: Event) -> None:
        if not isinstance(event, GpuEvent):
            raise DeviceError(f"a stream of {self._device.name} cannot wait for {event!r}")
        self._handle.wait_event(event.handle)


class GpuDevice(ResidentDevice):
    """Raises LoadError where CuPy or the device is missing."""

    memory = "cuda"

    def __init__(self, index: int) -> None:
        self.cuda: Any = _import_cuda(index)  # Any: CuPy is optional
        self._runtime: Any = self.cuda.runtime  # Any: likewise
        self.index = index
        super().__init__(f"gpu:{index}")

    def current(self) -> Any:  # Any: likewise
        """Return a context in which this thread's calls go to this device."""
        return self.cuda.Device(self.index)

    def stream(self) -> GpuStream:
        return GpuStream(self)

    def address(self, view: View) -> int:
        return view.buffer.offset + view.offset

    def free_bytes(self) -> int:
        with self.current():
            return int(self._runtime.memGetInfo()[0])

    def adopt(self, value: Any, stage: str, stream: Stream) -> View:  # Any: an OrtValue, untyped
        shape, dtype = tuple(value.shape()), _dtype(value.data_type())
        view = self.allocate(shape, dtype, stage, stream)
        to, nbytes = self.address(view), math.prod(shape) * dtype.itemsize

        def run() -> None:
            self._move(to, value.data_ptr(), nbytes, stream)

        # the session's memory is free for others when `value` is dropped
        self.launch(stage, stream, (), (view,), run, Kind.MOVE).synchronize()
        return view

    def close(self) -> None:
        self.pool.close()

    def _submit(
        self,
        stage: str,
        stream: Stream,
        reads: Sequence[View],
        writes: Sequence[View],
        run: Callable[[], None],
        kind: Kind,
    ) -> None:
        del stream, reads, writes
        if kind is Kind.RUN:  # what a library runs says itself what went wrong
            run()
            return
        try:
            with self.current():
                run()
        except RuntimeError as error:
            told = f"{self.name} does not do what `{stage}` asks for ({kind.value}): {error}"
            raise DeviceError(told) from error

    def _take(self, nbytes: int) -> int | None:
        with self.current():
            try:
                return int(self._runtime.malloc(nbytes))
            except self._runtime.CUDARuntimeError as error:
                if error.status == _NO_MEMORY:
                    return None
                raise DeviceError(f"{self.name} gives no memory: {error}") from error

    def _give(self, offset: int, nbytes: int) -> None:
        del nbytes
        with self.current():
            self._runtime.free(offset)

    def _copy_in(self, address: int, array: Array, stream: Stream) -> None:
        self._copy(address, array.ctypes.data, array.nbytes, "memcpyHostToDevice", stream)

    def _copy_out(self, array: Array, address: int, stream: Stream) -> None:
        self._copy(array.ctypes.data, address, array.nbytes, "memcpyDeviceToHost", stream)

    def _move(self, to: int, source: int, nbytes: int, stream: Stream) -> None:
        self._copy(to, source, nbytes, "memcpyDeviceToDevice", stream)

    def _clear(self, address: int, nbytes: int, stream: Stream) -> None:
        if nbytes:
            self._runtime.memsetAsync(address, 0, nbytes, _pointer(stream))

    def _copy(self, to: int, source: int, nbytes: int, way: str, stream: Stream) -> None:
        if nbytes:
            way_code = getattr(self._runtime, way)
            self._runtime.memcpyAsync(to, source, nbytes, way_code, _pointer(stream))


def _pointer(stream: Stream) -> int:
    if not isinstance(stream, GpuStream):
        raise DeviceError(f"{stream!r} is no stream of a GPU")
    return stream.pointer


def _dtype(name: str) -> "np.dtype[Any]":  # Any: of any scalar
    """Return the dtype of what ONNX Runtime calls `tensor(float)`."""
    inner = name.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(inner, inner))


def _import_cuda(index: int) -> Any:  # Any: CuPy is optional
    """Return `cupy.cuda`; raises LoadError where this machine has no GPU of this number."""
    try:
        import cupy  # pyright: ignore[reportMissingImports] CuPy is optional
    except ImportError as error:
        message = f"the plan asks for gpu:{index}, whose memory needs CuPy, which is not installed"
        raise LoadError(NO_RUNTIME, message, _INSTALL) from error
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except RuntimeError as error:
        message = f"the plan asks for gpu:{index}, and CUDA finds no device: {error}"
        raise LoadError(NO_RUNTIME, message) from error
    if index >= count:
        raise LoadError(NO_RUNTIME, f"the plan asks for gpu:{index}, and there are {count} GPUs")
    return cupy.cuda


DEVICE = DeviceKind("gpu", GpuDevice, several=True, numbered=True, extra="gpu")
