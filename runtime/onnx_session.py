"""ONNX Runtime: one session, on the host's memory, a simulated device's or a GPU.

A provider that is missing is an error that names the extra to install; a GPU session refuses to
place a node on the CPU. Sessions may be run by several threads at once.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import metadata
from pathlib import PurePath
from typing import Any, Final, NoReturn, Protocol, TypeVar, cast

import numpy as np

from ..stdlib.op import Array
from .devices.device import Device, Stream, View
from .devices.resident import ResidentDevice
from .devices.streams import Streams
from .division import Share
from .load_error import BAD_MODEL, NO_DEVICE, NO_RUNTIME, TWO_RUNTIMES, LoadError
from .onnx_values import runner
from .request import Code
from .stage import StageGone

_PACKAGES: Final = ("onnxruntime", "onnxruntime-gpu")
Feeds = TypeVar("Feeds")
Results = TypeVar("Results")

_ENGINES: Final = {
    "tensorrt": "TensorrtExecutionProvider",
    "tensorrt_rtx": "NvTensorRTRTXExecutionProvider",
}
_SHOWN: Final = 500  # characters of what ONNX Runtime says
_INSTALL: Final = "pip install 'headrace[cpu]' (or 'headrace[gpu]')"


class OnnxSession:
    """A loaded model. Feeds and results go by the file's own names and carry their batch axis."""

    def __init__(
        self,
        model: bytes,
        output_names: Sequence[str],
        device: Device,
        share: Share,
        *,
        tensorrt: bool = False,
        engine: str = "",
    ) -> None:
        """`tensorrt` gives what runs on a GPU to TensorRT; what that cannot take goes to CUDA. An
        `engine` ("tensorrt", "tensorrt_rtx") is asked for by name, and is for GPUs only."""
        runtime = _import_runtime()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = share.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        if not share.spin:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        if share.cpus and share.threads > 1:
            cores = ",".join(str(cpu + 1) for cpu in share.cpus)  # it counts them from 1
            each = ";".join([cores] * (share.threads - 1))  # and leaves out the thread that calls
            options.add_session_config_entry("session.intra_op_thread_affinities", each)
        self._stream = device.stream() if device.name.startswith("gpu") else None
        pointer = cast("Pointed", self._stream).pointer if self._stream is not None else None
        available = runtime.get_available_providers()
        providers = choose_providers(available, device.name, tensorrt, pointer, engine=engine)
        if providers[0] != "CPUExecutionProvider":
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        # Any: onnxruntime has no types of its own
        self._session: Any = _open(runtime, model, options, providers)
        self._names = list(output_names)
        self._device = device
        self._options: Any = runtime.RunOptions()  # Any: likewise
        if self._stream is not None:  # what comes next waits for an event
            self._options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self.run: Callable[[Mapping[str, Array]], list[Array]] = runner(
            runtime, self._session, self._names, self._options
        )
        """Run on host arrays; results are in the order of `output_names`."""
        if share.cpus:
            self.run = partial(pinned, share.cpus, self.run)

    def reason(self, error: Exception) -> str:
        """Return what a failed run says, for callers."""
        return reason(error)

    def close(self) -> None:
        """Let go of the model, whoever still holds this: who runs it keeps it until he has."""
        self.run = _closed
        self._session = None

    def streams(self) -> Streams:
        """Return the streams of one stage that runs this: on a GPU all share the session's."""
        return Streams(self._device, self._stream)

    def run_on_device(
        self,
        feeds: Mapping[str, View],
        results: "Sequence[tuple[tuple[int, ...] | None, np.dtype[Any]]]",  # Any: of any scalar
        stage: str,
        stream: Stream,
    ) -> list[View]:
        """Run on views in place, in the order of a stream. A result of unknown shape is put where
        the session chooses, which has to be waited for, and then moved within the device."""
        if self._session is None:
            _closed(feeds)
        device = cast("ResidentDevice", self._device)  # as everything that is not the host
        memory, index = device.memory, device.index
        binding = self._session.io_binding()
        for name, view in feeds.items():
            kind, shape = view.dtype.type, list(view.shape)
            binding.bind_input(name, memory, index, kind, shape, device.address(view))
        views: list[View | None] = []
        for name, (shape, dtype) in zip(self._names, results, strict=True):
            if shape is None:
                views.append(None)
                binding.bind_output(name, memory, index)
                continue
            view = device.allocate(shape, dtype, stage, stream)
            views.append(view)
            address = device.address(view)
            binding.bind_output(name, memory, index, dtype.type, list(shape), address)
        known = [view for view in views if view is not None]
        run = partial(self._session.run_with_iobinding, binding, self._options)
        done = device.launch(stage, stream, [*feeds.values()], known, run)
        if len(known) < len(views):
            done.synchronize()
            device.books.count(stage, syncs=1)
        elif known:
            return known
        outputs = binding.get_outputs()
        return [
            view if view is not None else device.adopt(output, stage, stream)
            for view, output in zip(views, outputs, strict=True)
        ]


def _closed(_feeds: object) -> NoReturn:
    raise StageGone(Code.UNAVAILABLE, "the engine was closed")


def pinned(cpus: Sequence[int], run: Callable[[Feeds], Results], feeds: Feeds) -> Results:
    """Run with the calling thread on these cores; it may go back to where it was."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        return run(feeds)
    finally:
        os.sched_setaffinity(0, before)


class Pointed(Protocol):
    """A stream that a library outside of this process's Python can be given."""

    @property
    def pointer(self) -> int: ...


# Any: an untyped module
def _open(runtime: Any, model: bytes, options: Any, providers: "list[Any]") -> Any:
    try:
        return runtime.InferenceSession(model, options, providers=providers)
    except Exception as error:
        raise LoadError(
            BAD_MODEL, f"ONNX Runtime does not load the model: {reason(error)}"
        ) from error


def _import_runtime() -> Any:  # Any: an untyped module
    try:
        import onnxruntime
    except ImportError as error:
        raise LoadError(
            NO_RUNTIME, "ONNX models need ONNX Runtime, which is not installed", _INSTALL
        ) from error
    check_packages(_owners())
    return onnxruntime


def _owners() -> tuple[str, ...]:
    found: list[str] = []
    for package in _PACKAGES:
        try:
            metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        found.append(package)
    return tuple(found)


def check_packages(installed: Sequence[str]) -> None:
    """Refuse two packages that both provide the module onnxruntime and overwrite each other."""
    if len(installed) > 1:
        raise LoadError(
            TWO_RUNTIMES,
            f"{' and '.join(installed)} are both installed and overwrite each other's files",
            f"pip uninstall {' '.join(installed)}, then {_INSTALL}",
        )


def choose_providers(
    available: Sequence[str],
    device: str,
    tensorrt: bool,
    stream: int | None = None,
    *,
    engine: str = "",
) -> "list[str | tuple[str, dict[str, int | str]]]":
    """Return the execution providers for a device, the first choice first, never one more. They run
    on the CUDA `stream` at that address where there is one.

    Raises LoadError where this ONNX Runtime lacks one of them.
    """
    kind, _, index = device.partition(":")
    if kind != "gpu":
        if engine:
            message = f"`{engine}` runs models on GPUs, and this one is on {device}"
            raise LoadError(NO_DEVICE, message, "add `device = gpu(0)` to the stage's settings")
        return ["CPUExecutionProvider"]
    place: dict[str, int | str] = {"device_id": int(index or 0)}
    if stream is not None:
        place["user_compute_stream"] = str(stream)
    cuda = ("CUDAExecutionProvider", {**place, "use_tf32": 0})
    engine = engine or ("tensorrt" if tensorrt else "")
    chosen = [(_ENGINES[engine], place), cuda] if engine else [cuda]
    for name, _ in chosen:
        if name not in available:
            extra = "gpu,tensorrt" if engine == "tensorrt" else "gpu"
            raise LoadError(
                NO_RUNTIME,
                f"the plan asks for {device}, and this ONNX Runtime has no {name}",
                f"pip uninstall onnxruntime, then pip install 'headrace[{extra}]'"
                if engine != "tensorrt_rtx"
                else "install a build of ONNX Runtime for TensorRT RTX",
            )
    return [*chosen]


def reason(error: Exception) -> str:
    """Return what ONNX Runtime says of a failed run, without its prefix and its paths."""
    lines = [line.strip() for line in str(error).splitlines()]
    text = " ".join(line for line in lines if line and not line.startswith("Please fix"))
    for token in text.split():
        if token.startswith("/") and token.count("/") > 1:
            text = text.replace(token, PurePath(token).name)
    _, _, rest = text.partition(" : ")
    return (rest.lstrip("0123456789 :") or text or type(error).__name__)[:_SHOWN]
