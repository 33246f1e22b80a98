"""What a worker serves, and the interpreter that is started for it."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from ...compiler.plan import Isolation, PythonSegment

_CODE: Final = """\
import os, sys
if {cpus}: os.sched_setaffinity(0, {cpus})
sys.path[:] = {path}
from headrace.runtime.isolation.worker import main
main({socket}, {parent})
"""
_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Runs(Protocol):
    """What is known of any worker: whose it is, and how long one call may take."""

    @property
    def stage(self) -> str: ...

    @property
    def timeout(self) -> float | None: ...

    def start(self, descriptor: int) -> "subprocess.Popen[bytes]": ...


@dataclass(frozen=True, slots=True)
class Program:
    """What a worker of `stage` serves: `attribute` of a source, with `made` an object of it.

    `told` says that the last thing it is given are contexts of requests, packed.
    `memory` and `timeout` are those of its `isolate`; it runs on the cores `cpus` (none: on any)
    and with so many `threads` of the libraries that heed OpenMP's variables (None: as they like).
    """

    stage: str
    source: bytes
    digest: str
    file: str
    attribute: str
    made: bool = False
    device: str = "cpu"
    memory: int | None = None
    timeout: float | None = None
    cpus: tuple[int, ...] = ()
    threads: int | None = None
    told: bool = False

    def start(self, descriptor: int) -> "subprocess.Popen[bytes]":
        """Start a worker, which finds modules as this interpreter does."""
        code = _CODE.format(
            cpus=self.cpus, path=list(map(str, sys.path)), socket=descriptor, parent=os.getpid()
        )
        optimized = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
        name = f"headrace worker of {self.stage}"
        command = [sys.executable, "-P", *optimized, "-c", code, name]
        return start(command, descriptor, self.threads)


def program_of(segment: PythonSegment, blobs: Mapping[str, bytes]) -> Program:
    """Return what a worker of a stage serves."""
    service = segment.service
    isolation = service.isolation or Isolation()
    return Program(
        segment.name,
        blobs[segment.source],
        segment.source,
        segment.file,
        segment.attribute,
        segment.group is not None,
        segment.device,
        isolation.memory,
        isolation.timeout,
        service.cpus,
        service.threads,
        segment.told,
    )


def start(
    command: Sequence[str],
    descriptor: int,
    threads: int | None,
    environment: Mapping[str, str] = MappingProxyType({}),
    others: Sequence[int] = (),
) -> "subprocess.Popen[bytes]":
    """Start an interpreter that knows a socket by its number, and has `others` open too.

    It is no member of this one's group of processes: a Ctrl-C is not for it.
    """
    limits = {} if threads is None else dict.fromkeys(_THREADS, str(threads))
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(descriptor, *others),
        start_new_session=True,
        env={**os.environ, **limits, **environment},
        bufsize=0,
    )
