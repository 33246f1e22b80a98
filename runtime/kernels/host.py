"""Kernels for this processor, by its C++ compiler: what a simulated device runs.

Products are not joined with sums (`-ffp-contract=off`), so that each op rounds as it does alone. Of
what lets a compiler do more at a time `-fno-trapping-math` is left out: GCC 12 then makes -0.0 of
-0.5 that goes by way of an integer.
"""

import ctypes
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ...compiler.kernel_file import Kernel
from ..load_error import BAD_MODEL, NO_RUNTIME, LoadError
from .kept import built
from .strides import Launch

OPTIONS: Final = (
    *("-x", "c++", "-std=c++17", "-O3", "-march=native", "-fPIC", "-shared"),
    *("-ffp-contract=off", "-fno-math-errno"),
)
_COMPILERS: Final = ("g++", "clang++", "c++")
_SHOWN: Final = 500  # characters of what a compiler says


class HostKernel:
    """A kernel as a library of this process; it stays loaded, for it may be running."""

    def __init__(
        self, kernel: Kernel, folder: Path | None = None, options: Sequence[str] = OPTIONS
    ) -> None:
        """Raises LoadError where there is no compiler, or it does not take the text."""
        compiler = find_compiler()
        key = "\0".join((kernel.text, _processor(), _version(compiler), *options))
        with built(folder, key, ".so", lambda: build(compiler, kernel.text, options)) as path:
            self._library = ctypes.CDLL(str(path))

    def start(self, launch: Launch, addresses: Sequence[int]) -> None:
        """Run over arrays at these addresses, of walks and results; nothing for no elements."""
        if launch.count:
            function: Any = self._library[launch.entry]  # Any: ctypes has no type for it
            function.restype = None
            function(*map(ctypes.c_int64, (*addresses, *launch.numbers)))


def find_compiler() -> str:
    """Return the path of a C++ compiler; raises LoadError where there is none."""
    found = next((path for name in _COMPILERS if (path := shutil.which(name))), None)
    if found is None:
        raise LoadError(
            NO_RUNTIME,
            "a generated kernel needs a C++ compiler here, and there is none "
            f"({', '.join(_COMPILERS)})",
            "install g++ or clang++",
        )
    return found


def build(compiler: str, text: str, options: Sequence[str] = OPTIONS) -> bytes:
    """Return the library of a kernel's text; raises LoadError where it is no C++."""
    with tempfile.TemporaryDirectory(prefix="headrace-kernel-") as folder:
        path = Path(folder) / "kernel.so"
        done = subprocess.run(
            [compiler, *options, "-o", str(path), "-"],
            input=text,
            text=True,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            said = done.stderr.strip()[:_SHOWN]
            raise LoadError(BAD_MODEL, f"{compiler} does not take a generated kernel: {said}")
        return path.read_bytes()


def _processor() -> str:
    """Return what code for this processor depends on."""
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.is_file() else []
    told = (one for one in lines if one.lower().startswith(("flags", "features", "model name")))
    return "\n".join((platform.machine(), *dict.fromkeys(told)))


def _version(compiler: str) -> str:
    done = subprocess.run([compiler, "--version"], text=True, capture_output=True, check=False)
    return f"{compiler} {done.stdout}"
