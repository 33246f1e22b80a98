"""Kernels on a CUDA GPU, through CuPy: loaded from code that was built ahead.

Written against CuPy 13 and 14, whose own compilation is not used: it asks the driver first, and
could not build for another GPU.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...compiler.kernel_file import Kernel
from ..devices.device import Stream
from ..devices.gpu import GpuDevice
from .kept import built
from .nvrtc import OPTIONS, find_nvrtc
from .strides import Launch

_BLOCK: Final = 256  # threads
_MOST_BLOCKS: Final = 1 << 15  # each goes on with what is left


class CudaKernel:
    """A kernel as code of one GPU: that of the plan where it has some for its architecture, else
    what NVRTC makes of the text."""

    def __init__(self, kernel: Kernel, device: GpuDevice, folder: Path | None) -> None:
        """Raises LoadError where there is no code for the device, and none can be made."""
        self._device = device
        with device.current():
            architecture = f"sm_{device.cuda.Device(device.index).compute_capability}"
            cuda = int(device.cuda.runtime.runtimeGetVersion()) // 1000
            with _code(kernel, architecture, cuda, folder) as path:
                module = device.cupy.RawModule(path=str(path))
                self._functions = {one: module.get_function(one) for one in kernel.entries}
                for function in self._functions.values():
                    function.compile()  # loads it, while the file is there

    def start(self, launch: Launch, addresses: Sequence[int], stream: Stream) -> None:
        """Ask for a run over arrays at these addresses, in the order of a stream."""
        if not launch.count:
            return
        blocks = min(-(-launch.count // _BLOCK), _MOST_BLOCKS)
        arguments = tuple(np.int64(one) for one in (*addresses, *launch.numbers))
        with self._device.current(), self._current(stream):
            self._functions[launch.entry]((blocks,), (_BLOCK,), arguments)

    def _current(self, stream: Any) -> Any:  # Any: CuPy is optional
        """Return a context in which what is started is in the order of a stream."""
        streams = self._device.cuda.Stream
        if hasattr(streams, "from_external"):  # since 14
            return streams.from_external(stream)
        return self._device.cuda.ExternalStream(stream.pointer)


def _code(
    kernel: Kernel, architecture: str, cuda: int, folder: Path | None
) -> AbstractContextManager[Path]:
    image = next((one for one in kernel.images if one.architecture == architecture), None)
    if image is not None:
        return built(folder, f"image\0{image.content}", ".cubin", lambda: image.bytes)
    nvrtc = find_nvrtc(architecture, cuda)
    key = "\0".join((kernel.text, architecture, nvrtc.version, *OPTIONS))
    return built(folder, key, ".cubin", lambda: nvrtc.build(kernel.text, architecture))
