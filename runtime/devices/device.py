"""What a device is to the runtime: memory of its own, and copies that a ledger counts.

A `View` is a tensor in a device's memory. It refuses every way in which a host array library
would look inside: what reads it on the host by mistake gets a ResidencyError, never the bytes.
Memory belongs to its `Buffer` and goes back when the last view of it is gone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import numpy as np

from ...stdlib.op import Array


class ResidencyError(RuntimeError):
    """Something on the host reads a device's memory without a copy in the plan."""


class DeviceError(RuntimeError):
    """A device cannot do what is asked of it: out of memory, or a value that it cannot hold."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a device has done since it was opened; all counts, and bytes where it says so."""

    h2d: int = 0
    d2h: int = 0
    d2d: int = 0
    h2d_bytes: int = 0
    d2h_bytes: int = 0
    d2d_bytes: int = 0
    allocations: int = 0
    releases: int = 0
    live_bytes: int = 0
    peak_bytes: int = 0

    @property
    def balanced(self) -> bool:
        """Whether all memory that was taken has been given back."""
        return self.allocations == self.releases and self.live_bytes == 0


class Device(Protocol):
    """Memory and copies. `name` is what plans call it: "cpu", "sim", "gpu:0"."""

    @property
    def name(self) -> str: ...

    @property
    def ledger(self) -> Ledger: ...

    def upload(self, array: Array) -> "Array | View":
        """Copy a host array to the device; the host's own device returns it as it is."""
        ...

    def download(self, view: "View") -> Array:
        """Copy a view to the host."""
        ...

    # Any: of any scalar
    def allocate(self, shape: tuple[int, ...], dtype: "np.dtype[Any]", stage: str) -> "View":
        """Return a view of new, undefined memory, owned by `stage` in error messages."""
        ...

    def concat(self, views: "Sequence[View]") -> "View":
        """Stack views of one shape along a new first axis, by copies within the device."""
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


class Buffer:
    """A piece of a device's memory at `offset`; the device takes it back when it is dropped."""

    __slots__ = ("__weakref__", "device", "nbytes", "offset")

    def __init__(self, device: Device, offset: int, nbytes: int) -> None:
        self.device, self.offset, self.nbytes = device, offset, nbytes


class View:
    """A contiguous tensor in a buffer. `stage` made it; indexing goes along the first axis."""

    __slots__ = ("buffer", "dtype", "offset", "shape", "stage")

    def __init__(
        self,
        buffer: Buffer,
        offset: int,
        shape: tuple[int, ...],
        dtype: "np.dtype[Any]",  # Any: of any scalar
        stage: str,
    ) -> None:
        self.buffer, self.offset, self.shape, self.dtype = buffer, offset, shape, dtype
        self.stage = stage

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def leading(self) -> "View":
        """Return the same memory with a leading axis of one."""
        return View(self.buffer, self.offset, (1, *self.shape), self.dtype, self.stage)

    def __getitem__(self, index: "int | slice") -> "View":
        rows = self.shape[0]
        start, stop, step = (
            index.indices(rows) if isinstance(index, slice) else (index, index + 1, 1)
        )
        if step != 1 or not 0 <= start < rows + isinstance(index, slice):
            raise IndexError(f"{index} of a view of {rows} rows")
        row = math.prod(self.shape[1:]) * self.dtype.itemsize
        shape = (max(0, stop - start), *self.shape[1:])
        return View(
            self.buffer,
            self.offset + start * row,
            shape if isinstance(index, slice) else shape[1:],
            self.dtype,
            self.stage,
        )

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise ResidencyError(
            f"the result of `{self.stage}` is in the memory of {self.buffer.device.name}; "
            "reading it on the host takes a copy that the plan does not have"
        )

    def __bool__(self) -> NoReturn:
        self.__array__()

    def __float__(self) -> NoReturn:
        self.__array__()

    def __int__(self) -> NoReturn:
        self.__array__()

    def __dlpack__(self, **_: object) -> NoReturn:
        self.__array__()

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} on {self.buffer.device.name}, of {self.stage}>"
