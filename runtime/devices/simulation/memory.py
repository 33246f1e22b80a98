"""A second address space: memory that is mapped twice, of which the outside sees one that kills.

What touches the address of the outside dies at once (PROT_NONE); what runs on the device gets the
readable alias.
"""

import ctypes
import os
from bisect import insort
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..device import DeviceError

POISON: Final = 0xCB
_PROT_NONE, _PROT_READ_WRITE, _MAP_SHARED = 0, 3, 1


class Memory:
    """Pages are taken only when they are touched. Whoever takes and gives has a lock."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.free = capacity, capacity
        self._gaps: list[tuple[int, int]] = [(0, capacity)]  # (offset, bytes), by offset
        self.outside, self.alias = _map_twice(capacity)
        self.bytes: NDArray[np.uint8] = np.ctypeslib.as_array(
            (ctypes.c_uint8 * capacity).from_address(self.alias)
        )

    def take(self, nbytes: int) -> int | None:
        """Return the offset of the first gap that is large enough, None where there is none."""
        for index, (offset, room) in enumerate(self._gaps):
            if room >= nbytes:
                left = [(offset + nbytes, room - nbytes)] if room > nbytes else []
                self._gaps[index : index + 1] = left
                self.free -= nbytes
                return offset
        return None

    def give(self, offset: int, nbytes: int) -> None:
        """Take memory back."""
        insort(self._gaps, (offset, nbytes))
        self._gaps = _joined(self._gaps)
        self.free += nbytes

    def at(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """Return the bytes at an address of the alias."""
        start = address - self.alias
        return self.bytes[start : start + nbytes]

    def close(self) -> None:
        """Unmap the alias; the outside address stays reserved so that stray reads still fail."""
        self.bytes = np.empty(0, np.uint8)
        _libc().munmap(ctypes.c_void_p(self.alias), ctypes.c_size_t(self.capacity))


def _joined(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for offset, nbytes in gaps:
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
