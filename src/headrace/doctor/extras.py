"""The extras of headrace: what each brings, and which packages it takes, as the metadata say."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from types import MappingProxyType
from typing import Final

BRINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpu": "ONNX models on the processor",
        "gpu": "ONNX models on an NVIDIA GPU, values in its memory (CUDA 13)",
        "gpu-cuda12": "the same where the driver is of CUDA 12",
        "tensorrt": "engines that TensorRT builds and runs",
        "tensorrt-rtx": "the same for RTX GPUs; builds without one",
        "openvino": "models of OpenVINO, and ONNX models on it",
        "torch": "models of PyTorch",
        "tensorflow": "SavedModels of TensorFlow",
        "litert": "models of TensorFlow Lite",
        "server": "`headrace run`: HTTP and gRPC",
        "otel": "spans of requests for an OpenTelemetry collector",
        "image": "the ops `image.*`",
        "audio": "the ops `audio.*`",
        "text": "the ops `text.*`",
        "cli": "progress bars on a terminal",
        "graph": "pictures of `headrace graph` as SVG",
    }
)
"""Those that someone who runs headrace may want; others are for its own development."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"extra == ['\"]([^'\"]+)['\"]")
_LEAST = re.compile(r">=\s*([0-9.]+)")
_BELOW = re.compile(r"<\s*([0-9.]+)")


@dataclass(frozen=True, slots=True)
class Package:
    """What an extra asks for; `installed` is the version here, "" where there is none, and `least`
    and `below` ("": any) bound which it may be."""

    name: str
    installed: str
    least: str = ""
    below: str = ""

    @property
    def fits(self) -> bool:
        found = _numbers(self.installed)
        above = not self.least or found >= _numbers(self.least)
        return above and (not self.below or found < _numbers(self.below))


@dataclass(frozen=True, slots=True)
class Extra:
    name: str
    brings: str
    packages: tuple[Package, ...]

    @property
    def missing(self) -> tuple[Package, ...]:
        return tuple(one for one in self.packages if not one.installed)

    @property
    def state(self) -> str:
        """In a word whether it is here."""
        if not self.packages:
            return "not known"
        if not self.missing:
            return "installed"
        return "missing" if len(self.missing) == len(self.packages) else "in part"


def all_extras() -> tuple[Extra, ...]:
    """Return the extras in the order of BRINGS."""
    asked = metadata.requires("headrace") or []
    return tuple(Extra(name, brings, tuple(_of(name, asked))) for name, brings in BRINGS.items())


def _of(extra: str, asked: list[str]) -> Iterator[Package]:
    for line in asked:
        requirement, _, condition = line.partition(";")
        found = _EXTRA.search(condition)
        name = _NAME.match(requirement)
        if found is None or name is None or found[1] != extra:
            continue
        least, below = _LEAST.search(requirement), _BELOW.search(requirement)
        yield Package(
            name[0],
            installed(name[0]),
            least[1] if least is not None else "",
            below[1] if below is not None else "",
        )


def installed(name: str) -> str:
    """Return the version of a package that is here, "" where it is not."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with: (1, 23) of 1.23rc1."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found is not None else ()
