"""Imports TensorRT, or TensorRT for RTX; nothing else does."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from ..load_error import NO_RUNTIME, LoadError
from .features import Dialect, dialect, lacking

_INSTALL: Final = {
    "tensorrt": "pip install 'headrace[tensorrt]'; on a Jetson `apt install python3-libnvinfer`",
    "tensorrt_rtx": "pip install 'headrace[tensorrt-rtx]'",
}
HEARD: Final = 8
"""Errors that are remembered: what fails may say more than one."""

OTHERWISE: Final = "or leave `backend` out, and ONNX Runtime runs it"


@dataclass(frozen=True, slots=True)
class Package:
    """A library that builds and runs engines."""

    module: Any  # Any: an untyped module, which is optional
    name: str
    version: str
    dialect: Dialect

    @property
    def title(self) -> str:
        return f"{'TensorRT for RTX' if self.name == 'tensorrt_rtx' else 'TensorRT'} {self.version}"

    @property
    def needs_gpu(self) -> bool:
        """Whether it builds on the GPU that it builds for."""
        return self.name == "tensorrt"

    def lacking(self, key: str) -> str | None:
        """Return why it has not what a key of `engine` asks for; None where it has."""
        return lacking(self.module, self.name, self.version, key)

    def logger(self, heard: deque[str]) -> Any:  # Any: a class of the module
        """Return a logger that notes errors: the library raises none."""
        module = self.module

        class Logger(module.ILogger):
            def __init__(self) -> None:
                module.ILogger.__init__(self)

            def log(self, severity: object, message: str) -> None:
                if severity in (module.ILogger.ERROR, module.ILogger.INTERNAL_ERROR):
                    heard.append(message)

        return Logger()


def open_package(name: str, modules: Sequence[str] = ()) -> Package:
    """Return the library of a backend; raises LoadError that says what to install."""
    failed: ImportError | None = None
    for module in modules or (name, f"{name}_bindings"):
        try:
            found: Any = import_module(module)  # Any: an untyped module
        except ImportError as error:
            failed = failed or error
            continue
        return described(found, name)
    absent = isinstance(failed, ModuleNotFoundError) and failed.name == name
    said = "is not installed" if absent else f"cannot be imported: {failed}"
    message = f"the backend `{name}` needs the Python package `{name}`, which {said}"
    raise LoadError(NO_RUNTIME, message, f"{_INSTALL[name]}, {OTHERWISE}") from failed


def described(module: Any, name: str) -> Package:  # Any: an untyped module
    """Return a module as a package."""
    version = str(module.__version__)
    return Package(module, name, version, dialect(name, int(version.partition(".")[0])))


def dla_cores() -> int | None:
    """Return how many DLA cores TensorRT finds on a board; None where it is not there to be asked.
    There must be a driver: without one it is not to be asked at all."""
    try:
        package = open_package("tensorrt")
    except LoadError:
        return None
    return int(package.module.Builder(package.logger(deque())).num_DLA_cores)
