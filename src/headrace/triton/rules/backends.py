"""Which library runs a model: known, and the same by all of its names."""

from collections.abc import Iterator

from ...dsl.diagnostic import Diagnostic
from ..complete import ENSEMBLE, PLATFORMS
from ..subject import Subject, listed, meant

BACKENDS = ("onnxruntime", "python", "pytorch", "tensorflow", "openvino", "tensorrt")
_CODE = "HR609"


def check(subject: Subject) -> Iterator[Diagnostic]:
    config = subject.config
    if config.platform == ENSEMBLE and config.backend:
        yield subject.error(
            _CODE,
            f"an ensemble has no backend, but `{config.backend}` is given",
            "backend",
            help="leave out `backend`",
        )
    elif config.platform == ENSEMBLE or config.HasField("ensemble_scheduling"):
        return  # `ensemble` has its say
    elif not config.backend:
        yield _none(subject)
    elif config.backend not in BACKENDS:
        yield subject.error(
            _CODE,
            f"`{config.backend}` is no backend that headrace has",
            "backend",
            help=meant(config.backend, BACKENDS, "there are"),
        )
    elif config.platform and PLATFORMS.get(config.platform) != config.backend:
        platforms = [one for one, backend in PLATFORMS.items() if backend == config.backend]
        message = f"`{config.platform}` is no platform of the backend `{config.backend}`"
        if platforms:
            help = f"leave out `platform`, or write {listed(platforms)}"
            yield subject.error(_CODE, message, "platform", help=help)
        else:  # a backend that has no platforms
            yield subject.warning(_CODE, message, "platform", help="leave out `platform`")
    if config.backend in BACKENDS and config.runtime not in ("", _library(config.backend)):
        yield subject.error(
            _CODE,
            f"`{config.runtime}` is no library of the backend `{config.backend}`",
            "runtime",
            help=f'leave out `runtime`, or write `runtime: "{_library(config.backend)}"`; backends '
            f"are {', '.join(BACKENDS)}",
        )


def _library(backend: str) -> str:
    """Return what a tritonserver has a backend in."""
    return f"libtriton_{backend}.so"


def _none(subject: Subject) -> Diagnostic:
    """Say that nothing tells the backend: not the configuration, and no file that is there."""
    if subject.config.platform:
        return subject.error(
            _CODE,
            f"`{subject.config.platform}` is no platform",
            "platform",
            help=meant(subject.config.platform, (*PLATFORMS, ENSEMBLE), "there are"),
        )
    return subject.error(
        _CODE,
        f"nothing says which backend runs `{subject.name}`",
        help='write `backend: "onnxruntime"`, or one of '
        + listed(BACKENDS[1:])
        + ", or name the model's file as that backend does: `1/model.onnx`, `1/model.py`",
    )
