"""Whether there is a CUDA driver with a GPU, and which: asked of the driver itself, through ctypes.

Nothing need be installed for it, and no library is the one to ask: without a driver TensorRT's
`Runtime` looks alive, and the next call ends the process.
"""

import ctypes
from dataclasses import dataclass

_MAJOR, _MINOR = 75, 76
"""`CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `_MINOR`."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """What engines may depend on: `sm` is 90 for compute capability 9.0, `driver` 13000."""

    name: str
    sm: int
    driver: int


def find_gpu(index: int) -> Gpu | None:
    """Return the GPU of a number; None where there is no driver, or no such GPU."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count, driver, device = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return None
    if index >= count.value or cuda.cuDeviceGet(ctypes.byref(device), index):
        return None
    name, numbers = ctypes.create_string_buffer(256), [ctypes.c_int(), ctypes.c_int()]
    cuda.cuDeviceGetName(name, len(name), device)
    cuda.cuDriverGetVersion(ctypes.byref(driver))
    for number, attribute in zip(numbers, (_MAJOR, _MINOR), strict=True):
        cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
    return Gpu(name.value.decode(), numbers[0].value * 10 + numbers[1].value, driver.value)
