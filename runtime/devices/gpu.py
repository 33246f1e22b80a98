"""A CUDA GPU through CuPy: `gpu:0`. Written against CuPy 13 and 14.

Streams do not wait for the legacy default stream, and events carry no times. Memory comes from
`cudaMalloc` by way of the pool of every device (CuPy's own keeps blocks to one stream each). Copies
to the host go to pinned memory, which CuPy uses again when the array is dropped; those from it come
from wherever the caller's array lies, which the driver has read when the call returns. Where the
GPU shares the host's memory (Jetson) values come in pinned memory that it reads in place.

What is found of a device is asked of its attributes and not told by its name.
"""

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, cast

import numpy as np

from ...stdlib.op import Array
from ..load_error import NO_RUNTIME, LoadError
from ..tensorrt.package import dla_cores
from .device import Buffer, Capabilities, Device, DeviceError, DeviceKind, Event, Stream, View
from .driver import Kind, ResidentStream
from .resident import ResidentDevice

_ELSEWHERE: Final = "compile it with a schedule whose devices are here"
_INSTALL: Final = (
    "where there is a GPU, pip install 'headrace[gpu]' in place of 'headrace[cpu]'; else "
    f"{_ELSEWHERE}"
)
_NO_MEMORY: Final = 2
"""`cudaErrorMemoryAllocation`, for which CuPy has no name."""
_DLPACK_CUDA: Final = 2
_LEGACY, _NO_ORDER = 1, -1
"""DLPack's numbers of the legacy default stream, and of none: who asks sees to the order."""
_THOR, _CUDA_13 = 110, 13000
"""From here on an integrated GPU's memory can be given to another process."""


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

    def __str__(self) -> str:
        return f"an event of {self.stream.device.name}"


class GpuStream(ResidentStream):
    """A `cudaStream`; other libraries are given its `pointer`."""

    device: "GpuDevice"

    def __init__(self, device: "GpuDevice") -> None:
        super().__init__(device)
        with device.current():
            self.handle: Any = device.cuda.Stream(non_blocking=True)  # Any: CuPy is optional

    @property
    def pointer(self) -> int:
        return int(self.handle.ptr)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.pointer

    def record(self) -> GpuEvent:
        with self.device.current():
            event = self.device.cuda.Event(disable_timing=True)
            event.record(self.handle)
        return GpuEvent(self, event)

    def _wait(self, event: Event) -> None:
        self.handle.wait_event(cast("GpuEvent", event).handle)


class GpuGraph:
    """What a stream was asked for while it was captured, to be asked for again at once."""

    def __init__(self, handle: Any) -> None:  # Any: CuPy is optional
        self._handle = handle

    def launch(self, stream: GpuStream) -> None:
        self._handle.launch(stream.handle)


class GpuDevice(ResidentDevice):
    """Raises LoadError where CuPy or the device is missing."""

    memory = "cuda"

    def __init__(self, index: int) -> None:
        self.cupy: Any = _import_cupy(index)  # Any: CuPy is optional
        self.cuda: Any = self.cupy.cuda  # Any: likewise, and so on below
        self._runtime: Any = self.cuda.runtime
        self.index = index
        self._pinned: dict[int, Any] = {}  # what the mapped pool has, by address
        super().__init__(f"gpu:{index}", probe(self.cuda, index))

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
        self.mapped.close()

    def capture(self, stream: GpuStream, run: Callable[[], None]) -> GpuGraph:
        """Return what `run` asks of a stream, as one graph; nothing of it is done yet.

        Addresses are those of now, so whoever launches it keeps the views. `run` may neither take
        memory nor wait, and must have run once before."""
        with self.current(), stream.handle:
            stream.handle.begin_capture()
            try:
                run()
            finally:
                graph = stream.handle.end_capture()
        return GpuGraph(graph)

    # Any: an array of any library that has DLPack
    def borrow(self, array: Any, stage: str, stream: Stream) -> View:
        """Return a view of another library's array on this GPU, in place, behind what it has been
        asked for there; it is kept until the view is dropped. One with gaps is copied."""
        with self.on(stream):
            own = self.cupy.ascontiguousarray(self.cupy.from_dlpack(array))
        if own.device.id != self.index:
            raise DeviceError(f"`{stage}` is on {self.name}, and is given what is on {own.device}")
        return self.wrap(int(own.data.ptr), own.shape, np.dtype(own.dtype), stage, own, stream)

    def place(self, view: View) -> tuple[int, int]:
        del view
        return _DLPACK_CUDA, self.index

    def lend(self, view: View, **asked: Any) -> object:  # Any: see Lends
        """Let another library use a value in place: its stream waits for what makes it, and who
        gets the memory next for what that stream was asked for until the value is dropped."""
        theirs = asked.get("stream") or _LEGACY
        with self.current():
            if theirs == _NO_ORDER:
                theirs = _LEGACY
            else:
                self._runtime.streamWaitEvent(theirs, cast("GpuEvent", view.ready).handle.ptr)
            owner = _Lent()
            weakref.finalize(owner, self._given_back, view.buffer, theirs).atexit = False
            array = self._array(self.address(view), view.shape, view.dtype, owner)
            return array.__dlpack__(**{**asked, "stream": _NO_ORDER})

    def _given_back(self, buffer: Buffer, theirs: int) -> None:
        """Let who gets the memory next wait for what another library's stream was asked for."""
        stream = GpuStream(self)
        with self.current():
            event = self.cuda.Event(disable_timing=True)
            self._runtime.eventRecord(event.ptr, theirs)
            stream.handle.wait_event(event)
        buffer.uses[stream] = stream.record()

    # Any: a cupy.ndarray
    def tensor(self, address: int, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Any:
        return self._array(address, shape, dtype, None)

    # Any: as above
    def _array(
        self, address: int, shape: tuple[int, ...], dtype: "np.dtype[Any]", owner: object
    ) -> Any:
        nbytes = math.prod(shape) * dtype.itemsize
        memory = self.cuda.UnownedMemory(address, nbytes, owner, self.index)
        return self.cupy.ndarray(shape, dtype, memptr=self.cuda.MemoryPointer(memory, 0))

    def on(self, stream: Stream) -> AbstractContextManager[object]:
        return cast("GpuStream", stream).handle

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

    def _take_mapped(self, nbytes: int) -> int | None:
        with self.current():
            try:
                pinned = self.cuda.alloc_pinned_memory(nbytes)
            except self._runtime.CUDARuntimeError as error:
                if error.status == _NO_MEMORY:
                    return None
                raise DeviceError(f"the host gives no pinned memory: {error}") from error
        self._pinned[int(pinned.ptr)] = pinned
        return int(pinned.ptr)  # which is the device's address too

    def _give_mapped(self, offset: int, nbytes: int) -> None:
        del nbytes
        del self._pinned[offset]

    def _write_mapped(self, address: int, array: Array) -> None:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def _host_array(self, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Array:  # Any: as above
        count = math.prod(shape)
        if not count:
            return np.empty(shape, dtype)
        pinned = self.cuda.alloc_pinned_memory(count * dtype.itemsize)
        return np.frombuffer(pinned, dtype, count).reshape(shape)

    def _move_from(
        self, other: "GpuDevice", to: int, source: int, nbytes: int, stream: Stream
    ) -> None:
        if nbytes:
            pointer = _pointer(stream)
            self._runtime.memcpyPeerAsync(to, self.index, source, other.index, nbytes, pointer)

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


class _Lent:
    """Lives for as long as another library has a value."""


def _pointer(stream: Stream) -> int:
    return cast("GpuStream", stream).pointer  # whose it is was looked at


# Any: `cupy.cuda`
def probe(cuda: Any, index: int) -> Capabilities:
    """Return what a GPU says of itself."""
    device = cuda.Device(index)
    found: dict[str, int] = device.attributes
    integrated = bool(found.get("Integrated", 0))
    sm = str(device.compute_capability)
    name = cuda.runtime.getDeviceProperties(index)["name"]
    new = int(sm) >= _THOR and cuda.runtime.runtimeGetVersion() >= _CUDA_13
    return Capabilities(
        name.decode() if isinstance(name, bytes) else str(name),
        int(device.mem_info[1]),
        integrated,
        ipc=not integrated or new,
        sm=sm,
        dla_cores=dla_cores() if integrated else 0,
        managed=bool(found.get("ConcurrentManagedAccess", 0)),
        pageable=bool(found.get("PageableMemoryAccess", 0)),
    )


def calls_to(device: Device) -> AbstractContextManager[object]:
    """Return a context in which what a library is asked for in this thread is done on a GPU."""
    return device.current() if isinstance(device, GpuDevice) else nullcontext()


def _dtype(name: str) -> "np.dtype[Any]":  # Any: of any scalar
    """Return the dtype of what ONNX Runtime calls `tensor(float)`."""
    inner = name.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(inner, inner))


def _import_cupy(index: int) -> Any:  # Any: CuPy is optional
    """Return `cupy`; raises LoadError where this machine has no GPU of this number."""
    try:
        import cupy  # pyright: ignore[reportMissingImports] CuPy is optional
    except ImportError as error:
        message = f"the plan asks for gpu:{index}, whose memory needs CuPy, which is not installed"
        raise LoadError(NO_RUNTIME, message, _INSTALL) from error
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
    except RuntimeError as error:
        message = f"the plan asks for gpu:{index}, and CUDA finds no device: {error}"
        raise LoadError(NO_RUNTIME, message, _ELSEWHERE) from error
    if index >= count:
        message = f"the plan asks for gpu:{index}, and there are {count} GPUs"
        raise LoadError(NO_RUNTIME, message, _ELSEWHERE)
    return cupy


DEVICE = DeviceKind("gpu", GpuDevice, several=True, numbered=True, extra="gpu")
