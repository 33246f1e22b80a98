"""Devices: memory and copies, one kind a file.

device.py (what a device, a stream, an event, a buffer and a view are) · ledger.py (what is counted)
· streams.py (those of a stage) · host.py (`cpu`) · driver.py (what a kind of device does itself)
· resident.py (what devices with memory of their own have in common, with a pool.py) · gpu.py
(`gpu:0`, CuPy) · cuda_driver.py (which GPUs there are) · sim.py (`sim`, for tests, made of the
parts in simulation)
"""

from importlib import import_module
from pathlib import Path

from ..load_error import NO_DEVICE, LoadError
from .device import Device, DeviceKind


def device_kinds() -> dict[str, DeviceKind]:
    """Return the kinds that files of this folder define as `DEVICE`, by name."""
    kinds: dict[str, DeviceKind] = {}
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        kind = getattr(import_module(f".{path.stem}", __package__), "DEVICE", None)
        if isinstance(kind, DeviceKind):
            kinds[kind.name] = kind
    return kinds


def open_device(name: str) -> Device:
    """Open a device by the name that plans give it: `cpu`, `sim`, `gpu:0`."""
    kinds = device_kinds()
    for kind in kinds.values():
        if (index := kind.index(name)) is not None:
            return kind.open(index)
    known = ", ".join(f"`{one}`" for one in sorted(kinds))
    raise LoadError(
        NO_DEVICE,
        f"the plan asks for the device `{name}`; this headrace has {known}",
        "compile it with a schedule whose devices are here",
    )
