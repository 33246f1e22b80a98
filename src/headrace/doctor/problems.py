"""What is wrong with a machine: packages that clash or do not fit it, and limits that are too low.

Each check is given what was found and asks nothing itself, but for imports that it is about.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from typing import Final

from ..runtime.backend import BACKENDS, find_backend
from ..runtime.load_error import LoadError
from ..runtime.onnx_library import check_packages, import_runtime, owners, unloadable
from .extras import Extra, installed
from .findings import Finding
from .machine import Machine

_CUDA: Final = "CUDAExecutionProvider"
_CUPY: Final = ("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy")
_LEAST_FILES: Final = 1024
_LEAST_SHARED: Final = 64 << 20


def problems(machine: Machine, extras: Sequence[Extra]) -> list[Finding]:
    """Return all that is wrong, the worst first."""
    return [
        *onnx_runtime(machine),
        *cupy(machine),
        *versions(extras),
        *entry_points(),
        *limits(machine),
    ]


def onnx_runtime(machine: Machine) -> Iterator[Finding]:
    """Two packages of one module, one that does not load, one that leaves a GPU idle."""
    found = owners()
    if not found:
        return
    try:
        check_packages(found)
        runtime = import_runtime()
    except LoadError as error:
        yield Finding(error.message, error.help or "")
        return
    has_cuda = _CUDA in runtime.get_available_providers()
    if has_cuda and not machine.gpus:
        message = f"{found[0]} is for an NVIDIA GPU, and no driver finds one here"
        yield Finding(message, f"pip uninstall {found[0]}, then pip install 'headrace[cpu]'")
    elif has_cuda and (why := unloadable(runtime, _CUDA)) is not None:
        yield Finding(f"ONNX Runtime cannot use the GPU: {why}", "pip install 'headrace[gpu]'")
    elif machine.gpus and not has_cuda:
        message = f"{found[0]} leaves the GPU idle: it has no {_CUDA}"
        yield Finding(
            message, f"pip uninstall {found[0]}, then pip install '{_gpu_extra(machine)}'"
        )


def cupy(machine: Machine, version: Callable[[str], str] = installed) -> Iterator[Finding]:
    """Packages of CuPy that clash, or are for another CUDA than the driver's."""
    found = [name for name in _CUPY if version(name)]
    if len(found) > 1:
        message = f"{' and '.join(found)} are all installed and overwrite each other's files"
        yield Finding(message, f"pip uninstall {' '.join(found)}, then install one")
    for name in found:
        major = name.removeprefix("cupy-cuda").removesuffix("x")
        driver = machine.gpus[0].driver // 1000 if machine.gpus else None
        if driver is None:
            yield Finding(
                f"{name} is installed, and no NVIDIA driver is: nothing can run on a GPU",
                "install NVIDIA's driver, or leave `gpu(n)` out of schedules",
            )
        elif major.isdecimal() and int(major) > driver:
            message = f"{name} is for CUDA {major}, and the driver is of CUDA {driver}"
            yield Finding(message, f"install a newer driver, or '{_gpu_extra(machine)}'")


def versions(extras: Sequence[Extra]) -> Iterator[Finding]:
    """Packages that are here in a version that headrace does not work with."""
    if unknown := [one.name for one in extras if not one.packages]:
        listed = ", ".join(unknown)
        message = f"the installed metadata of headrace are older than its code, and lack {listed}"
        yield Finding(message, "install headrace again")
    asked: dict[str, list[bool]] = {}
    wanted: dict[str, str] = {}
    for extra in extras:
        for one in extra.packages:
            if one.installed:
                asked.setdefault(one.name, []).append(one.fits)
                below = f", below {one.below}" if one.below else ""
                said = (
                    f"{one.installed} is here, and {one.least or 'any'} or later{below} is needed"
                )
                wanted.setdefault(one.name, f"{one.name} {said} for `{extra.name}`")
    for name, fits in asked.items():
        if not any(fits):  # of several extras that take it, one may fit
            yield Finding(wanted[name], f"pip install -U {name}")


def entry_points() -> Iterator[Finding]:
    """Backends that other packages offer and cannot be used."""
    for one in metadata.entry_points(group=BACKENDS):
        try:
            find_backend(one.name)
        except LoadError as error:
            yield Finding(error.message, error.help or "")


def limits(machine: Machine) -> Iterator[Finding]:
    """What the system grants too little of."""
    if machine.quota is not None and machine.quota < machine.cores:
        yield Finding(
            f"{machine.cores} cores may be used, and the control group pays for "
            f"{machine.quota:g}: threads will be stopped in turn",
            f"start it on as many cores as it has: `taskset -c 0-{max(1, int(machine.quota)) - 1}`",
        )
    if machine.files < _LEAST_FILES:
        message = f"{machine.files} files may be open at once, and each connection takes one"
        yield Finding(message, f"`ulimit -n {_LEAST_FILES * 64}` before the server is started")
    if machine.shared_memory is not None and machine.shared_memory < _LEAST_SHARED:
        free = machine.shared_memory >> 20
        message = f"/dev/shm has {free} MiB free: clients that pass tensors there need more"
        yield Finding(message, "in a container, `--shm-size=1g`")


def _gpu_extra(machine: Machine) -> str:
    old = bool(machine.gpus) and machine.gpus[0].driver < 13000
    return "headrace[gpu-cuda12]" if old else "headrace[gpu]"
