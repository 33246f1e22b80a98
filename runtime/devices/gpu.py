"""A GPU as ONNX Runtime's CUDA provider sees it: values stay in the host's memory.

The session copies its inputs in and its results out at every run. Keeping them on the device
between stages takes a device with memory of its own, as `sim.py` has.
"""

from .device import DeviceKind
from .host import HostDevice


class GpuDevice(HostDevice):
    """`gpu:0`, ...; whether the provider is there is found out when a session is opened."""

    def __init__(self, index: int) -> None:
        self.name = f"gpu:{index}"


DEVICE = DeviceKind("gpu", GpuDevice, several=True, numbered=True, extra="gpu")
