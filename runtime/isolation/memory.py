"""Memory that two processes map: a memfd without a name, of a size that nobody can change.

Who reads it may keep what it has read without a copy. `Loan.end` then says that the memory cannot
be written again yet.
"""

import fcntl
import mmap
import os
import weakref
from typing import Final

import numpy as np
from numpy.typing import NDArray

_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_LEAST: Final = 1 << 16

LIMIT: Final = 1 << 33
"""The bytes of one message, either way."""


class MemoryRefused(Exception):
    """A descriptor is not the memory that it is said to be."""


class Arena:
    """Memory of this process's and another's. `number` is what both call it by."""

    def __init__(self, number: int, descriptor: int, size: int, *, writable: bool) -> None:
        """Map what a descriptor stands for, which stays the caller's to close.

        Raises MemoryRefused unless it is `size` bytes long and sealed.
        """
        self.number, self.size = number, size
        try:
            long = os.fstat(descriptor).st_size
            seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        except OSError as error:
            raise MemoryRefused(f"memory {number} cannot be sealed: {error}") from None
        if long != size or not 0 < size <= LIMIT or seals & _SEALS != _SEALS:
            raise MemoryRefused(f"memory {number} of {size} bytes has {long}, seals {seals:#x}")
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._map = mmap.mmap(descriptor, size, mmap.MAP_SHARED, protection)
        self.view = memoryview(self._map)

    def lend(self) -> "Loan":
        """Return all of it to be read."""
        return Loan(np.frombuffer(self._map, np.uint8))


class Loan:
    """Memory that is being read. What is made of `bytes` without a copy keeps it from ending."""

    __slots__ = ("_alive", "_bytes")

    def __init__(self, content: "NDArray[np.uint8]") -> None:
        self._bytes: NDArray[np.uint8] | None = content
        self._alive = weakref.ref(content)  # a view of an array refers to it, however far it is

    @property
    def bytes(self) -> "NDArray[np.uint8]":
        if self._bytes is None:
            raise AssertionError("the loan has ended")
        return self._bytes

    def end(self) -> bool:
        """Read no more; False while something that was read is a part of the memory."""
        self._bytes = None
        return self._alive() is None


def make(number: int, need: int) -> tuple[Arena, int]:
    """Return new memory of at least `need` bytes, and its descriptor, which the caller closes.

    Its pages are taken by the first who writes to them.
    """
    size = max(_LEAST, 1 << (need - 1).bit_length()) if need > 1 else _LEAST
    size = min(size, max(need, LIMIT))
    descriptor = os.memfd_create("headrace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        return Arena(number, descriptor, size, writable=True), descriptor
    except BaseException:
        os.close(descriptor)
        raise
