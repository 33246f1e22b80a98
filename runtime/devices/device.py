"""What a device is to the runtime: memory of its own, streams, and copies that a ledger counts.

What a device is asked to do is done later, in the order of the *stream* it is asked on. A `View` is
a tensor in its memory together with the *event* behind which it is there: whoever reads it on
another stream lets that stream wait for the event, and no thread waits for anything but a copy to
the host. A view refuses every way in which a host array library would look inside: what reads it on
the host by mistake gets a ResidencyError, never the bytes.

Memory belongs to its `Buffer` and goes back when the last view of it is gone. It may be written
again by another stream before those that read it have come so far: so a buffer keeps the last event
of each stream that used it, and who gets its memory next waits for these.
"""

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ...stdlib.op import Array
from .ledger import Ledger


class ResidencyError(RuntimeError):
    """A device's memory is used as no plan says: read on the host, too early or too late."""


class DeviceError(RuntimeError):
    """A device cannot do what is asked of it: a copy fails, or it cannot hold a value."""


class OutOfMemory(DeviceError):
    """There is no room left. `asked` and `free` are bytes."""

    def __init__(self, device: str, stage: str, asked: int, free: int) -> None:
        self.asked, self.free = asked, free
        super().__init__(
            f"{device} is out of memory: `{stage}` asks for {asked} bytes, and {free} are free"
        )


class Event(Protocol):
    """A point in the order of a stream."""

    @property
    def stream(self) -> "Stream": ...

    def synchronize(self) -> None:
        """Wait in this thread until the stream has come here; raises DeviceError when what led here
        has failed."""
        ...


class Stream(Protocol):
    """An order of work on one device. Several threads may ask for work on it."""

    def record(self) -> Event:
        """Return the point behind all that was asked for so far."""
        ...

    def wait(self, event: Event) -> None:
        """Let what is asked for from now on come behind an event, of this or another stream."""
        ...


class Pointed(Protocol):
    """A stream that a library outside of this process's Python can be given."""

    @property
    def pointer(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a device was found to have; None where nothing says. `memory` is in bytes, `sm` the
    compute capability as in "87". With `integrated` its memory is the host's as well; `ipc` says
    whether another process can be given its memory, `managed` whether host and device may touch
    managed memory at one time, `pageable` whether it reads any memory of the host's."""

    product: str
    memory: int
    integrated: bool = False
    ipc: bool = False
    sm: str = ""
    dla_cores: int | None = None
    managed: bool = False
    pageable: bool = False


class Device(Protocol):
    """Memory, streams and copies. `name` is what plans call it: "cpu", "sim", "gpu:0".

    `stage` is who asks: the ledger and errors name it. `stream` is one of this device's.
    """

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities:
        """What was found when it was opened."""
        ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def stages(self) -> Mapping[str, Ledger]:
        """The ledger of each stage."""
        ...

    def stream(self) -> Stream:
        """Open a stream."""
        ...

    def upload(self, array: Array, stage: str, stream: Stream) -> "Array | View":
        """Copy a host array to the device; the host's own device returns it as it is."""
        ...

    def download(self, view: "View", stage: str, stream: Stream) -> Array:
        """Copy a view to the host, and wait until it is there."""
        ...

    # Any: of any scalar
    def allocate(
        self, shape: tuple[int, ...], dtype: "np.dtype[Any]", stage: str, stream: Stream
    ) -> "View":
        """Return a view of undefined memory, to be written on this stream; raises OutOfMemory."""
        ...

    # Any: of any scalar
    def zeros(
        self, shape: tuple[int, ...], dtype: "np.dtype[Any]", stage: str, stream: Stream
    ) -> "View":
        """Return a view of zeros; nothing is copied."""
        ...

    def copy(self, view: "View", stage: str, stream: Stream) -> "View":
        """Return a view with memory of its own, by a copy within the device."""
        ...

    def concat(self, views: "Sequence[View]", stage: str, stream: Stream) -> "View":
        """Stack views of one shape along a new first axis, by copies within the device, or none
        where they lie side by side."""
        ...

    def takes_from(self, other: "Device") -> bool:
        """Whether `receive` copies from the memory of another device without the host."""
        ...

    def receive(self, view: "View", stage: str, stream: Stream) -> "View":
        """Copy a view of a device that this one takes from."""
        ...

    # Any: of any scalar
    def fill_up(
        self,
        views: "Sequence[View]",
        shape: tuple[int, ...],
        value: Any,
        stage: str,
        stream: Stream,
    ) -> "View":
        """Stack views of different shape, each filled up at the ends of its axes to `shape`."""
        ...

    def cut(self, view: "View", shape: tuple[int, ...], stage: str, stream: Stream) -> "View":
        """Return what lies at the beginning of each axis, in a copy unless it lies in one piece."""
        ...

    def close(self) -> None:
        """Give the device back; views of it must not be used any more."""
        ...


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """What a file of this folder defines as `DEVICE`: the name of a kind, how to open one of it by
    number, and how plans call it: `several` says that there is more than one, `numbered` that the
    first has its number too. `extra` is the extra of headrace that it takes ("" for none)."""

    name: str
    open: Callable[[int], Device]
    several: bool = False
    numbered: bool = False
    extra: str = ""

    def called(self, index: int) -> str:
        """Return what plans call the device of a number."""
        return f"{self.name}:{index}" if index or self.numbered else self.name

    def index(self, name: str) -> int | None:
        """Return the number of the device that plans call so, None where it is not of this kind."""
        _, _, number = name.partition(":")
        index = int(number) if number.isdecimal() else 0
        there = index == 0 or self.several
        return index if there and self.called(index) == name else None


class Lends(Protocol):
    """A device whose values other libraries may be given, or that says why not."""

    def place(self, view: "View") -> tuple[int, int]:
        """Return DLPack's code and number of the device."""
        ...

    def lend(self, view: "View", **asked: Any) -> object:  # Any: as DLPack's protocol has them
        """Return a DLPack capsule, in the order of the stream that is asked for."""
        ...


Uses = dict[Stream, Event]
"""The last use of memory by each stream."""


class Buffer:
    """`nbytes` of a device's memory at `offset`, given back when dropped. `uses` are its own."""

    __slots__ = ("__weakref__", "_back", "device", "nbytes", "offset", "stage", "uses")

    def __init__(
        self,
        device: Device,
        offset: int,
        nbytes: int,
        stage: str,
        back: Callable[[Uses], object],
    ) -> None:
        self.device, self.offset, self.nbytes, self.stage = device, offset, nbytes, stage
        self.uses: Uses = {}
        self._back = weakref.finalize(self, back, self.uses)
        self._back.atexit = False  # the process takes all memory with it

    @property
    def released(self) -> bool:
        """Whether its memory went back though there are views of it."""
        return not self._back.alive

    def release(self) -> None:
        """Give the memory back now; no view of it may be used any more."""
        if self.released:
            raise ResidencyError(
                f"the memory of a result of `{self.stage}` on {self.device.name} is given back a "
                "second time"
            )
        self._back()


class View(NDArrayOperatorsMixin):
    """A contiguous tensor in a buffer. `stage` made it, `ready` is when; indexing goes along the
    first axis. Operators are NumPy's, which would read it on the host and are refused."""

    __slots__ = ("buffer", "dtype", "offset", "ready", "shape", "stage")

    def __init__(
        self,
        buffer: Buffer,
        offset: int,
        shape: tuple[int, ...],
        dtype: "np.dtype[Any]",  # Any: of any scalar
        stage: str,
        ready: Event,
    ) -> None:
        self.buffer, self.offset, self.shape, self.dtype = buffer, offset, shape, dtype
        self.stage, self.ready = stage, ready

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def expanded(self, axis: int = 0) -> "View":
        """Return the same memory with one more axis, of one."""
        return self._part(self.offset, (*self.shape[:axis], 1, *self.shape[axis:]))

    def squeezed(self, axis: int) -> "View":
        """Return the same memory without an axis of one."""
        return self._part(self.offset, (*self.shape[:axis], *self.shape[axis + 1 :]))

    @property
    def is_whole(self) -> bool:
        """Whether the buffer holds nothing else."""
        return self.nbytes == self.buffer.nbytes

    def __getitem__(self, index: "int | slice") -> "View":
        rows = self.shape[0]
        start, stop, step = (
            index.indices(rows) if isinstance(index, slice) else (index, index + 1, 1)
        )
        if step != 1 or not 0 <= start < rows + isinstance(index, slice):
            raise IndexError(f"{index} of a view of {rows} rows")
        row = math.prod(self.shape[1:]) * self.dtype.itemsize
        shape = (max(0, stop - start), *self.shape[1:])
        return self._part(
            self.offset + start * row, shape if isinstance(index, slice) else shape[1:]
        )

    def _part(self, offset: int, shape: tuple[int, ...]) -> "View":
        return View(self.buffer, offset, shape, self.dtype, self.stage, self.ready)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise ResidencyError(
            f"the result of `{self.stage}` is in the memory of {self.buffer.device.name}; "
            "reading it on the host takes a copy that the plan does not have"
        )

    def __array_ufunc__(self, *_: object, **__: object) -> NoReturn:
        self.__array__()

    def __hash__(self) -> int:  # the mixin's operators have taken it
        return id(self)

    def __bool__(self) -> NoReturn:
        self.__array__()

    def __float__(self) -> NoReturn:
        self.__array__()

    def __int__(self) -> NoReturn:
        self.__array__()

    def __complex__(self) -> NoReturn:
        self.__array__()

    def __index__(self) -> NoReturn:
        self.__array__()

    def __dlpack__(self, **asked: Any) -> object:  # Any: as the protocol has them
        return cast("Lends", self.buffer.device).lend(self, **asked)

    def __dlpack_device__(self) -> tuple[int, int]:
        return cast("Lends", self.buffer.device).place(self)

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} on {self.buffer.device.name}, of {self.stage}>"
