"""What runs a model: an interpreter that finds `triton_python_backend_utils`."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..isolation.program import start

_CODE: Final = """\
import os, sys
if {cpus}: os.sched_setaffinity(0, {cpus})
if {path}: sys.path[:] = {path}
sys.path[:] = [one for one in sys.path if one] + [{worker!r}]
from triton_python_backend_utils.serve import main
main({socket}, {parent}, {late})
"""
_WORKER: Final = str(Path(__file__).parent / "worker")


@dataclass(frozen=True, slots=True)
class ModelProgram:
    """A worker of `stage`: the `file` of a model that is called `model`, with what `initialize` is
    given. With `completes` its configuration is asked first. `python` is an interpreter of its own
    (None: this one), with `variables` of its environment. `late` is the descriptor of what it
    counts up when it says something unasked."""

    stage: str
    model: str
    file: str
    arguments: Mapping[str, str]
    decoupled: bool
    completes: bool = False
    python: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    memory: int | None = None
    timeout: float | None = None
    cpus: tuple[int, ...] = ()
    threads: int | None = None
    late: int = -1

    def start(self, descriptor: int) -> "subprocess.Popen[bytes]":
        """Start a worker; it finds modules as its interpreter does."""
        path = [] if self.python else [str(one) for one in sys.path if one]
        code = _CODE.format(
            cpus=self.cpus,
            path=path,
            worker=_WORKER,
            socket=descriptor,
            parent=os.getpid(),
            late=self.late,
        )
        command = [self.python or sys.executable, "-c", code, f"headrace worker of {self.stage}"]
        return start(command, descriptor, self.threads, self.variables, (self.late,))
