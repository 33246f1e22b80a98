"""The host's own memory: values are NumPy arrays and nothing is copied."""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ...stdlib.op import Array
from .device import DeviceError, DeviceKind, Ledger, View


class HostDevice:
    """`cpu`. It has no views: what is on the host is an array."""

    name = "cpu"
    ledger = Ledger()

    def upload(self, array: Array) -> Array:
        return array

    def download(self, view: View) -> NoReturn:
        raise DeviceError(f"{view!r} is not in the host's memory")

    # Any: of any scalar
    def allocate(self, shape: tuple[int, ...], dtype: "np.dtype[Any]", stage: str) -> NoReturn:
        raise DeviceError(f"`{stage}` asks the host for device memory of {list(shape)} {dtype}")

    def concat(self, views: Sequence[View]) -> NoReturn:
        raise DeviceError(f"{views[0]!r} is not in the host's memory")

    def close(self) -> None:
        """Nothing to give back."""


DEVICE = DeviceKind("cpu", lambda _index: HostDevice())
