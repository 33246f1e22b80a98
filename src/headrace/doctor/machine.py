"""What this machine has: processor, memory, GPUs, and which board it is.

GPUs are asked of the driver through ctypes, so that no library need be installed to see them.
"""

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..runtime.tensorrt.driver import Gpu, find_gpu

_MODEL: Final = Path("/proc/device-tree/model")
_CPUS: Final = Path("/proc/cpuinfo")
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True, slots=True)
class Machine:
    """`cores` are those that this process may use, `quota` how many of them its control group pays
    for (None: all); `memory` and `shared_memory` (free in /dev/shm, None: there is none) are bytes;
    `files` is how many it may have open. `board` is "" but on one that names itself."""

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


def this_machine() -> Machine:
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
        board=_text(_MODEL).rstrip("\0\n"),
        gpus=tuple(_gpus()),
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
