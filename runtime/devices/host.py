"""The host's own memory: values are NumPy arrays, nothing is copied, and all is done at once."""

import os
import platform
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn

import numpy as np

from ...stdlib.op import Array
from .device import Capabilities, Device, DeviceError, DeviceKind, Event, Ledger, Stream, View


class HostStream:
    """Work of the host, done when it has been asked for."""

    @property
    def stream(self) -> "HostStream":
        return self

    def record(self) -> "HostStream":
        return self

    def wait(self, event: Event) -> None:
        event.synchronize()

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def __str__(self) -> str:
        return "an event of cpu"


class HostDevice:
    """`cpu`. It has no views: what is on the host is an array."""

    name = "cpu"
    ledger = Ledger()
    stages: Mapping[str, Ledger] = MappingProxyType({})

    @property
    def capabilities(self) -> Capabilities:
        return _FOUND

    def stream(self) -> Stream:
        return HostStream()

    def upload(self, array: Array, stage: str, stream: Stream) -> Array:
        del stage, stream
        return array

    def download(self, view: View, stage: str, stream: Stream) -> NoReturn:
        del stage, stream
        raise DeviceError(f"{view!r} is not in the host's memory")

    # Any: of any scalar
    def allocate(
        self, shape: tuple[int, ...], dtype: "np.dtype[Any]", stage: str, stream: Stream
    ) -> NoReturn:
        del stream
        raise DeviceError(f"`{stage}` asks the host for device memory of {list(shape)} {dtype}")

    zeros = allocate

    def copy(self, view: View, stage: str, stream: Stream) -> NoReturn:
        self.download(view, stage, stream)

    def concat(self, views: Sequence[View], stage: str, stream: Stream) -> NoReturn:
        self.download(views[0], stage, stream)

    def takes_from(self, other: Device) -> bool:
        del other
        return False

    def receive(self, view: View, stage: str, stream: Stream) -> NoReturn:
        self.download(view, stage, stream)

    # Any: of any scalar
    def fill_up(
        self, views: Sequence[View], shape: tuple[int, ...], value: Any, stage: str, stream: Stream
    ) -> NoReturn:
        del shape, value
        self.download(views[0], stage, stream)

    def cut(self, view: View, shape: tuple[int, ...], stage: str, stream: Stream) -> NoReturn:
        del shape
        self.download(view, stage, stream)

    def close(self) -> None:
        """Nothing to give back."""


_FOUND: Final = Capabilities(
    platform.machine(),
    os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    integrated=True,
    ipc=True,
    managed=True,
    pageable=True,
)

DEVICE = DeviceKind("cpu", lambda _index: HostDevice())
