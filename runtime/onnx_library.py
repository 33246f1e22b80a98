"""The module onnxruntime: that one package brings it, that all of it is there, and why the part of
it that is for a GPU does not load."""

import ctypes
import io
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from importlib import metadata
from pathlib import Path, PurePath
from typing import Any, Final

from .load_error import NO_RUNTIME, TWO_RUNTIMES, LoadError

PACKAGES: Final = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-openvino",
    "onnxruntime-directml",
    "onnxruntime-windowsml",
    "onnxruntime-trt-rtx",
    "onnxruntime-qnn",
    "onnxruntime-rocm",
    "onnxruntime-migraphx",
    "onnxruntime-cann",
    "onnxruntime-training",
    "onnxruntime-training-cpu",
    "onnxruntime-silicon",
    "ort-nightly",
    "ort-nightly-gpu",
)
"""What installs the module, each a build of its own."""

INSTALL: Final = "pip install 'headrace[cpu]' (or 'headrace[gpu]')"
_SHOWN: Final = 500  # characters of what ONNX Runtime says
_LIBRARIES: Final = {
    "CUDAExecutionProvider": "libonnxruntime_providers_cuda.so",
    "TensorrtExecutionProvider": "libonnxruntime_providers_tensorrt.so",
}


def import_runtime() -> Any:  # Any: an untyped module, here and below
    """Return the module; raises LoadError where it is missing, broken or there twice."""
    try:
        import onnxruntime
    except ImportError as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name == "onnxruntime"
        said = "is not installed" if absent else f"cannot be imported: {error}"
        message = f"ONNX models need ONNX Runtime, which {said}"
        raise LoadError(NO_RUNTIME, message, INSTALL) from error
    check_packages(owners())
    if not hasattr(onnxruntime, "InferenceSession"):
        raise LoadError(
            NO_RUNTIME,
            "files of ONNX Runtime are missing, as where one package of it was removed from over "
            "another",
            f"pip uninstall {' '.join(owners())}, then {INSTALL}",
        )
    return onnxruntime


def owners() -> tuple[str, ...]:
    """Return the packages that are installed here and bring the module."""
    return tuple(_installed(PACKAGES))


def _installed(packages: Sequence[str]) -> Iterator[str]:
    for package in packages:
        try:
            metadata.distribution(package)
        except metadata.PackageNotFoundError:
            continue
        yield package


def check_packages(installed: Sequence[str]) -> None:
    """Refuse several packages that all provide the module onnxruntime and overwrite each other."""
    if len(installed) > 1:
        raise LoadError(
            TWO_RUNTIMES,
            f"{' and '.join(installed)} are both installed and overwrite each other's files",
            f"pip uninstall {' '.join(installed)}, then {INSTALL}",
        )


def load_cuda(runtime: Any) -> None:
    """Let ONNX Runtime find the CUDA that its package's extras bring, where it has such; what it
    prints of those that it does not find `unloadable` says better."""
    if hasattr(runtime, "preload_dlls"):  # since 1.21
        with redirect_stdout(io.StringIO()):
            runtime.preload_dlls()


def unloadable(runtime: Any, provider: str) -> str | None:
    """Return why the library of a provider does not load on this machine; None where it does."""
    path = Path(runtime.__file__).parent / "capi" / _LIBRARIES.get(provider, "")
    if not path.is_file():
        return None
    try:
        for name in ("libonnxruntime_providers_shared.so", path.name):
            ctypes.CDLL(str(path.with_name(name)), ctypes.RTLD_GLOBAL)
    except OSError as error:
        return str(error)
    return None


def reason(error: Exception) -> str:
    """Return what ONNX Runtime says of a failed run, without its prefix and its paths."""
    lines = [line.strip() for line in str(error).splitlines()]
    text = " ".join(line for line in lines if line and not line.startswith("Please fix"))
    for token in text.split():
        if token.startswith("/") and token.count("/") > 1:
            text = text.replace(token, PurePath(token).name)
    _, _, rest = text.partition(" : ")
    return (rest.lstrip("0123456789 :") or text or type(error).__name__)[:_SHOWN]
