"""What this machine has: processor, memory, GPUs, and which board it is.

GPUs are asked of the driver through ctypes, so that no library need be installed to see them.
"""

import os
import platform
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..runtime.devices.cuda_driver import Gpu, find_gpu
from ..runtime.tensorrt.package import dla_cores

_MODEL: Final = Path("/proc/device-tree/model")
_RELEASE: Final = Path("/etc/nv_tegra_release")
_CPUS: Final = Path("/proc/cpuinfo")
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True, slots=True)
class Machine:
    """`cores` are those that this process may use, `quota` how many of them its control group pays
    for (None: all); `memory` and `shared_memory` (free in /dev/shm, None: there is none) are bytes;
    `files` is how many it may have open. `board` is "" but on one that names itself, with its
    release of L4T; `dla` the DLA cores that TensorRT finds there (None: it is not there to ask).
    """

    processor: str
    machine: str
    system: str
    python: str
    cores: int
    quota: float | None
    memory: int
    shared_memory: int | None
    files: int
    board: str
    gpus: tuple[Gpu, ...]
    dla: int | None = None


def this_machine() -> Machine:
    board, gpus = _text(_MODEL).rstrip("\0\n"), tuple(_gpus())
    release = read_release(_text(_RELEASE))
    return Machine(
        processor=_processor(),
        machine=platform.machine(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        cores=len(os.sched_getaffinity(0)),
        quota=read_quota(_text(_QUOTA)),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        shared_memory=_free("/dev/shm"),
        files=_files(),
        board=f"{board}, L4T {release}" if release else board,
        gpus=gpus,
        dla=dla_cores() if release and gpus else None,
    )


def _gpus() -> Iterator[Gpu]:
    index = 0
    while (gpu := find_gpu(index)) is not None:
        yield gpu
        index += 1


def _processor() -> str:
    for line in _text(_CPUS).splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return platform.machine()


def read_quota(text: str) -> float | None:
    """Return the cores that `cpu.max` of a control group grants ("200000 100000"); None for all."""
    words = text.split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        return None
    return int(words[0]) / int(words[1])


def read_release(text: str) -> str:
    """Return the release of L4T that `/etc/nv_tegra_release` tells, as "36.4.3"; "" of none."""
    found = re.search(r"R(\d+) \(release\), REVISION: ([\d.]+)", text)
    return f"{found[1]}.{found[2]}" if found is not None else ""


def _free(folder: str) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _files() -> int:
    import resource  # not everywhere

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
