"""A kernel as a stage runs it: on arrays of the host, or on views of a device in place."""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ...compiler.kernel_file import Kernel
from ...stdlib.dtypes import to_numpy
from ...stdlib.op import Array
from ..devices.device import Device, Stream, View
from ..devices.gpu import GpuDevice
from ..devices.resident import ResidentDevice
from ..devices.streams import Streams
from ..stage import StageError
from .cuda import CudaKernel
from .host import HostKernel
from .strides import Launch, Layout, contiguous, plan_launch


class HostSession:
    """Runs on arrays of the host, however they lie."""

    def __init__(self, kernel: Kernel, names: Sequence[str], folder: Path | None = None) -> None:
        self._kernel, self._names = kernel, names
        self._host = HostKernel(kernel, folder)
        self.dtypes = [to_numpy(dtype) for dtype in kernel.outputs]

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        arrays = [_walkable(feeds[name]) for name in self._names]
        launch = _planned(self._kernel, [_layout(one) for one in arrays])
        results: list[Array] = [np.empty(launch.shape, dtype) for dtype in self.dtypes]
        given = [arrays[walk.input] for walk in self._kernel.walks]
        self._host.start(launch, [one.ctypes.data for one in (*given, *results)])
        return results

    def close(self) -> None:
        """Nothing to give back: a library stays loaded."""


class ResidentSession:
    """Runs on what is in a device's memory: one launch, and no copy."""

    def __init__(
        self,
        kernel: Kernel,
        names: Sequence[str],
        device: ResidentDevice,
        folder: Path | None = None,
    ) -> None:
        self._kernel, self._names, self._device = kernel, names, device
        self._gpu = CudaKernel(kernel, device, folder) if isinstance(device, GpuDevice) else None
        self._host = None if isinstance(device, GpuDevice) else HostKernel(kernel, folder)
        self.dtypes = [to_numpy(dtype) for dtype in kernel.outputs]
        self._launch = lru_cache(maxsize=64)(self._plan)

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        del feeds
        raise StageError(f"a kernel on {self._device.name} is given arrays of the host")

    def streams(self) -> Streams:
        return Streams(self._device)

    def run_on_device(
        self,
        feeds: Mapping[str, View],
        results: "Sequence[tuple[tuple[int, ...] | None, np.dtype[Any]]]",  # Any: of any scalar
        stage: str,
        stream: Stream,
    ) -> list[View]:
        """Start the kernel on views in place, in the order of a stream."""
        views = [feeds[name] for name in self._names]
        launch = self._launch(*(view.shape for view in views))
        for shape, _ in results:
            if shape is not None and shape != launch.shape:
                raise StageError(f"results are {list(shape)}, and its inputs give {launch.shape}")
        made = [self._device.allocate(launch.shape, dtype, stage, stream) for dtype in self.dtypes]
        if launch.count:
            given = [views[walk.input] for walk in self._kernel.walks]
            addresses = [self._device.address(view) for view in (*given, *made)]
            run = partial(self._start, launch, addresses, stream)
            self._device.launch(stage, stream, views, made, run)
            self._device.books.count(stage, launches=1)
        return made

    def close(self) -> None:
        """Nothing to give back: what was loaded stays so."""

    def _plan(self, *shapes: tuple[int, ...]) -> Launch:
        return _planned(self._kernel, [contiguous(shape) for shape in shapes])

    def _start(self, launch: Launch, addresses: Sequence[int], stream: Stream) -> None:
        if self._gpu is not None:
            self._gpu.start(launch, addresses, stream)
        elif self._host is not None:
            self._host.start(launch, addresses)


def open_session(
    kernel: Kernel, names: Sequence[str], device: Device, folder: Path | None
) -> HostSession | ResidentSession:
    """Return the session of a kernel on a device, which is kept in a folder where there is one;
    raises LoadError where it cannot be built."""
    if isinstance(device, ResidentDevice):
        return ResidentSession(kernel, names, device, folder)
    return HostSession(kernel, names, folder)


def _planned(kernel: Kernel, layouts: Sequence[Layout]) -> Launch:
    try:
        return plan_launch(kernel, layouts)
    except ValueError as error:
        raise StageError(str(error)) from error


def _walkable(array: Array) -> Array:
    """Return the array, or a copy where its elements are not a whole number of them apart."""
    apart = any(stride % array.itemsize for stride in array.strides)
    return array.copy() if apart or not array.flags.aligned else array


def _layout(array: Array) -> Layout:
    return Layout(array.shape, tuple(stride // array.itemsize for stride in array.strides))
