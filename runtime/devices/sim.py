"""A simulated device: a second address space on the CPU, for tests that need no GPU.

One piece of memory is mapped twice. The address that the outside sees is PROT_NONE, so a stray
read from the host dies at once; only what runs "on the device" gets the readable alias. New and
released memory is poisoned, reading what nobody wrote is an error, and a ledger counts copies.
"""

import ctypes
import os
import threading
import weakref
from bisect import insort
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...stdlib.op import Array
from .device import Buffer, Device, DeviceError, DeviceKind, Ledger, ResidencyError, View

POISON: Final = 0xCB
CAPACITY: Final = 1 << 30
"""Bytes of address space; pages are taken only when they are touched."""
_ALIGNMENT: Final = 256
_PROT_NONE, _PROT_READ_WRITE, _MAP_SHARED = 0, 3, 1


class SimDevice(Device):
    """`sim` or `sim:1`. Safe to use from several threads."""

    def __init__(self, index: int = 0, capacity: int = CAPACITY) -> None:
        self._name = f"sim:{index}" if index else "sim"
        self._capacity = capacity
        self._lock = threading.Lock()
        self._ledger = Ledger()
        self._free: list[tuple[int, int]] = [(0, capacity)]  # (offset, bytes), by offset
        self._released: deque[tuple[int, int]] = deque()
        self._written: dict[int, NDArray[np.bool_]] = {}
        self._outside, self._alias = _map_twice(capacity)
        self._memory = np.ctypeslib.as_array((ctypes.c_uint8 * capacity).from_address(self._alias))

    @property
    def name(self) -> str:
        return self._name

    @property
    def ledger(self) -> Ledger:
        with self._lock:
            self._take_back()
            return self._ledger

    def pointer(self, view: View) -> int:
        """Return the address that the outside has; touching it kills the process."""
        return self._outside + view.buffer.offset + view.offset

    def upload(self, array: Array) -> View:
        view = self.allocate(array.shape, array.dtype, "a copy from the host")
        self._write(view, array)
        self._count(h2d=1, h2d_bytes=view.nbytes)
        return view

    def download(self, view: View) -> Array:
        array = self._array(view).copy()
        self._count(d2h=1, d2h_bytes=view.nbytes)
        return array

    # Any: of any scalar
    def allocate(self, shape: tuple[int, ...], dtype: "np.dtype[Any]", stage: str) -> View:
        if dtype.hasobject:
            raise DeviceError(f"`{stage}`: text cannot be kept in the memory of {self._name}")
        view_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        nbytes = max(1, -(-view_bytes // _ALIGNMENT)) * _ALIGNMENT
        with self._lock:
            self._take_back()
            offset = self._place(nbytes, stage)
            self._memory[offset : offset + nbytes] = POISON
            self._written[offset] = np.zeros(nbytes, np.bool_)
            live = self._ledger.live_bytes + nbytes
            self._ledger = replace(
                self._ledger,
                allocations=self._ledger.allocations + 1,
                live_bytes=live,
                peak_bytes=max(self._ledger.peak_bytes, live),
            )
        buffer = Buffer(self, offset, nbytes)
        weakref.finalize(buffer, self._released.append, (offset, nbytes))
        return View(buffer, 0, shape, dtype, stage)

    def concat(self, views: Sequence[View]) -> View:
        first = views[0]
        for index, view in enumerate(views):
            if view.shape != first.shape:
                raise ValueError(
                    f"item {index} has shape {list(view.shape)}, but item 0 has "
                    f"{list(first.shape)}; items of different shapes are no tensor"
                )
        if _adjoin(views):
            shape = (len(views), *first.shape)
            return View(first.buffer, first.offset, shape, first.dtype, first.stage)
        whole = self.allocate((len(views), *first.shape), first.dtype, first.stage)
        for index, view in enumerate(views):
            self._write(whole[index], self._array(view))
        self._count(d2d=len(views), d2d_bytes=whole.nbytes)
        return whole

    def address(self, view: View, *, filled: bool) -> int:
        """Return where something that runs on the device finds a view; `filled`: to read it."""
        start = view.buffer.offset + view.offset
        if filled:
            self._require_written(view)
        return self._alias + start

    def adopt(self, array: Array, stage: str) -> View:
        """Take over what something that runs on the device has made: no copy is counted."""
        view = self.allocate(array.shape, array.dtype, stage)
        self._write(view, array)
        return view

    def written(self, view: View) -> None:
        """Note that something on the device has filled a view."""
        self._written[view.buffer.offset][view.offset : view.offset + view.nbytes] = True

    def close(self) -> None:
        """Unmap the memory; the outside address stays reserved so that stray reads still fail."""
        self._memory = np.empty(0, np.uint8)
        _libc().munmap(ctypes.c_void_p(self._alias), ctypes.c_size_t(self._capacity))

    def _array(self, view: View) -> Array:
        self._require_written(view)
        start = view.buffer.offset + view.offset
        return self._memory[start : start + view.nbytes].view(view.dtype).reshape(view.shape)

    def _write(self, view: View, array: Array) -> None:
        start = view.buffer.offset + view.offset
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._memory[start : start + view.nbytes] = flat
        self.written(view)

    def _require_written(self, view: View) -> None:
        if not self._written[view.buffer.offset][view.offset : view.offset + view.nbytes].all():
            raise ResidencyError(f"{view!r} is read before anything was written there")

    def _count(self, **counts: int) -> None:
        with self._lock:
            old = self._ledger
            self._ledger = replace(
                old, **{name: getattr(old, name) + count for name, count in counts.items()}
            )

    def _place(self, nbytes: int, stage: str) -> int:
        for index, (offset, room) in enumerate(self._free):
            if room >= nbytes:
                self._free[index : index + 1] = (
                    [(offset + nbytes, room - nbytes)] if room > nbytes else []
                )
                return offset
        raise DeviceError(
            f"{self._name} is out of memory: `{stage}` asks for {nbytes} bytes, and "
            f"{self._ledger.live_bytes} of {self._capacity} are in use"
        )

    def _take_back(self) -> None:
        while self._released:
            offset, nbytes = self._released.popleft()
            del self._written[offset]
            if len(self._memory):
                self._memory[offset : offset + nbytes] = POISON
            insort(self._free, (offset, nbytes))
            self._free = _joined(self._free)
            self._ledger = replace(
                self._ledger,
                releases=self._ledger.releases + 1,
                live_bytes=self._ledger.live_bytes - nbytes,
            )


def _adjoin(views: Sequence[View]) -> bool:
    """Whether views lie one behind the other in one buffer, so that together they are one."""
    first = views[0]
    return all(
        view.buffer is first.buffer and view.offset == first.offset + index * first.nbytes
        for index, view in enumerate(views)
    )


def _joined(free: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for offset, nbytes in free:
        if joined and sum(joined[-1]) == offset:
            joined[-1] = (joined[-1][0], joined[-1][1] + nbytes)
        else:
            joined.append((offset, nbytes))
    return joined


def _map_twice(capacity: int) -> tuple[int, int]:
    if not hasattr(os, "memfd_create"):
        raise DeviceError("the simulated device needs Linux: memory is mapped through a memfd")
    descriptor = os.memfd_create("headrace-sim")
    try:
        os.ftruncate(descriptor, capacity)
        addresses = [
            _libc().mmap(None, capacity, protection, _MAP_SHARED, descriptor, 0)
            for protection in (_PROT_NONE, _PROT_READ_WRITE)
        ]
    finally:
        os.close(descriptor)
    if any(address in (None, ctypes.c_void_p(-1).value) for address in addresses):
        raise DeviceError(f"the simulated device cannot map {capacity} bytes of memory")
    return addresses[0], addresses[1]


def _libc() -> Any:  # Any: functions of a foreign library
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_long,
    ]
    return libc


DEVICE = DeviceKind("sim", SimDevice, several=True)
