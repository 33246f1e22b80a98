"""The host's own memory: values are NumPy arrays, nothing is copied, and all is done at once."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from ...stdlib.op import Array
from .device import DeviceError, DeviceKind, Event, Ledger, Stream, View


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


class HostDevice:
    """`cpu`. It has no views: what is on the host is an array."""

    name = "cpu"
    ledger = Ledger()
    stages: Mapping[str, Ledger] = MappingProxyType({})

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

    def close(self) -> None:
        """Nothing to give back."""


DEVICE = DeviceKind("cpu", lambda _index: HostDevice())
