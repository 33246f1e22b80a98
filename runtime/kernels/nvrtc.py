"""Kernels for NVIDIA's GPUs, by its run-time compiler, which needs no GPU to build for one.

The library is that of the wheel `nvidia-cuda-nvrtc` (CUDA 13; `nvidia-cuda-nvrtc-cu12` for 12) or
of an installed toolkit. CUDA 13 has no code for architectures before 7.5, 12 none for Thor
(`sm_110`).
"""

import ctypes
import ctypes.util
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ..load_error import BAD_MODEL, NO_RUNTIME, LoadError

OPTIONS: Final = (
    "--std=c++17",
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
)
_INSTALL: Final = (
    "pip install nvidia-cuda-nvrtc (for CUDA 12, and for sm_72 and before: nvidia-cuda-nvrtc-cu12)"
)
_FOLDERS: Final = ("cu13/lib", "cuda_nvrtc/lib")
_TOOLKITS: Final = ("/usr/local/cuda/lib64", "/usr/local/cuda/targets/aarch64-linux/lib")
_SHOWN: Final = 500  # characters of what the compiler says


class Nvrtc:
    """The library at a path. `version` is that of CUDA. Raises OSError where it is none."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def architectures(self) -> tuple[str, ...]:
        """Return what there may be code for: `sm_75`, ..."""
        count = ctypes.c_int()
        self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self._library.nvrtcGetSupportedArchs(numbers)
        return tuple(f"sm_{number}" for number in numbers)

    def build(self, text: str, architecture: str) -> bytes:
        """Return the code of a kernel's text; raises LoadError where there is none."""
        program = ctypes.c_void_p()
        self._library.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None
        )
        try:
            return self._built(program, architecture)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _built(self, program: ctypes.c_void_p, architecture: str) -> bytes:
        given = [one.encode() for one in (f"--gpu-architecture={architecture}", *OPTIONS)]
        options = (ctypes.c_char_p * len(given))(*given)
        if self._library.nvrtcCompileProgram(program, len(given), options):
            log = self._text(program, "ProgramLog").decode("utf-8", "replace")
            message = f"NVRTC {self.version} does not take a generated kernel: {log[:_SHOWN]}"
            raise LoadError(BAD_MODEL, message)
        return self._text(program, "CUBIN")

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._library[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._library[f"nvrtcGet{what}"](program, buffer)
        return buffer.raw


def find_nvrtc(architecture: str, cuda: int | None = None) -> Nvrtc:
    """Return the newest library here that has code for an architecture, of one major version of
    CUDA where that matters: a driver loads nothing of a later one. Raises LoadError without one."""
    found: dict[str, Nvrtc] = {}
    for path in _candidates():
        with suppress(OSError):
            nvrtc = Nvrtc(path)
            found.setdefault(nvrtc.version, nvrtc)
    fit = [one for one in found.values() if architecture in one.architectures()]
    fit = [one for one in fit if cuda in (None, int(one.version.partition(".")[0]))]
    if fit:
        return max(fit, key=lambda one: tuple(map(int, one.version.split("."))))
    wanted = "NVRTC" if cuda is None else f"NVRTC of CUDA {cuda}"
    here = ", ".join(sorted(found)) or "none"
    raise LoadError(
        NO_RUNTIME,
        f"a generated kernel for {architecture} needs {wanted} with code for it; here is {here}",
        _INSTALL,
    )


def _candidates() -> Iterator[str]:
    spec = find_spec("nvidia")
    wheels = [Path(root) / one for root in _roots(spec) for one in _FOLDERS]
    for folder in (*wheels, *map(Path, _TOOLKITS)):
        yield from map(str, sorted(folder.glob("libnvrtc.so*"), reverse=True))
    found = ctypes.util.find_library("nvrtc")
    if found is not None:
        yield found


def _roots(spec: object) -> Sequence[str]:
    return list(getattr(spec, "submodule_search_locations", None) or ())
