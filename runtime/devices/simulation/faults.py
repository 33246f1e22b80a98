"""What goes wrong on purpose on a simulated device, told by number: the third copy, the first
allocation, operations 5 to 9."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from ..device import DeviceError


class DeviceLost(DeviceError):
    """The device does not answer."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Numbers count from 1. `copies` between host and device fail, for `allocations` there is no
    memory, during the operations `lost` the device does not answer; `stall` is called with number
    and stage before each operation and may take as long as it likes."""

    copies: frozenset[int] = frozenset()
    allocations: frozenset[int] = frozenset()
    lost: range = range(0)
    stall: Callable[[int, str], None] | None = None


NO_FAULTS = Faults()


class Injector:
    """Counts, and says when."""

    def __init__(self, device: str, faults: Faults) -> None:
        self._device, self._faults = device, faults
        self._lock = threading.Lock()
        self._copies = self._allocations = self._operations = 0

    def allocates(self) -> bool:
        """Whether there is memory for the next allocation."""
        with self._lock:
            self._allocations += 1
            return self._allocations not in self._faults.allocations

    def operates(self, stage: str, *, copies: bool) -> None:
        """Let an operation begin; raises DeviceError where it is to fail."""
        with self._lock:
            self._operations += 1
            self._copies += copies
            operation, copy = self._operations, self._copies
        if self._faults.stall is not None:
            self._faults.stall(operation, stage)
        if operation in self._faults.lost:
            raise DeviceLost(f"{self._device} is lost: it does not answer `{stage}`")
        if copies and copy in self._faults.copies:
            raise DeviceError(f"{self._device}: copy {copy}, of `{stage}`, has failed")
