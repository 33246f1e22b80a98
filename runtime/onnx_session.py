"""ONNX Runtime: one session, on the host's memory, a simulated device's or a GPU.

A provider that is missing is an error that names the extra to install; a GPU session refuses to
place a node on the CPU. Sessions may be run by several threads at once.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from ..stdlib.op import Array
from .devices.device import Device, Pointed, Stream, View
from .devices.resident import ResidentDevice
from .devices.streams import Streams
from .division import Share
from .onnx_library import import_runtime, load_cuda, reason
from .onnx_providers import choose_providers, open_session
from .onnx_values import runner
from .request import Code
from .stage import StageGone

Feeds = TypeVar("Feeds")
Results = TypeVar("Results")


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
        limit: int | None = None,
        graphs: bool = False,
        alike: bool = False,
    ) -> None:
        """`tensorrt` gives what runs on a GPU to TensorRT; what that cannot take goes to CUDA. An
        `engine` ("tensorrt", "tensorrt_rtx") is asked for by name, and is for GPUs only. `limit` is
        how many bytes of a GPU the session may take for itself; with `graphs` its runs may be
        captured (`onnx_graphs.py`), and one thread does them all. Where runs are `alike` in size
        but for their rows, ONNX Runtime keeps where the values of each number of rows lie."""
        runtime = import_runtime()
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
        if self._stream is None and not alike:
            # each size's would be kept for ever, and wants a block for all values from its second
            # run on, for which the arena grows though it has as much in parts
            options.enable_mem_pattern = False
        pointer = cast("Pointed", self._stream).pointer if self._stream is not None else None
        available = runtime.get_available_providers()
        providers = choose_providers(
            available, device.name, tensorrt, pointer, engine=engine, limit=limit, graphs=graphs
        )
        if self._stream is not None:
            load_cuda(runtime)
        # Any: onnxruntime has no types of its own
        self._session: Any = open_session(runtime, model, options, providers)
        self._names = list(output_names)
        self._device = device
        self._new_options = runtime.RunOptions
        self._options = self._run_options(-1 if graphs else None)
        self._thread = ThreadPoolExecutor(1, "cuda graphs") if graphs else None
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
        if self._thread is not None:
            self._thread.shutdown()
        self.run = _closed
        self._session = None

    @property
    def stream(self) -> Stream | None:
        """The stream that all runs are in, on a GPU."""
        return self._stream

    def _run_options(self, number: int | None) -> Any:  # Any: as above
        """Return the options of runs that are a graph of this number; -1: that are none."""
        options = self._new_options()
        if self._stream is not None:  # what comes next waits for an event
            options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        if number is not None:
            options.add_run_config_entry("gpu_graph_id", str(number))
        return options

    def bound(
        self, inputs: Mapping[str, View], outputs: Sequence[View], number: int
    ) -> Callable[[], None]:
        """Return the run that reads and writes these places, as the graph of a number."""
        if self._session is None:
            _closed(inputs)
        binding, device = self._session.io_binding(), cast("ResidentDevice", self._device)
        for name, view in inputs.items():
            self._bind(binding.bind_input, name, view, device)
        for name, view in zip(self._names, outputs, strict=True):
            self._bind(binding.bind_output, name, view, device)
        return self._launching(binding, self._run_options(number))

    @staticmethod
    # Any: a method of a binding
    def _bind(bind: Any, name: str, view: View, device: ResidentDevice) -> None:
        address = device.address(view)
        bind(name, device.memory, device.index, view.dtype.type, list(view.shape), address)

    def _launching(self, binding: Any, options: Any) -> Callable[[], None]:  # Any: as above
        run = partial(self._session.run_with_iobinding, binding, options)
        if (thread := self._thread) is None:
            return run
        return lambda: thread.submit(run).result()

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
        binding = self._session.io_binding()
        for name, view in feeds.items():
            self._bind(binding.bind_input, name, view, device)
        views: list[View | None] = []
        for name, (shape, dtype) in zip(self._names, results, strict=True):
            if shape is None:
                views.append(None)
                binding.bind_output(name, device.memory, device.index)
                continue
            view = device.allocate(shape, dtype, stage, stream)
            views.append(view)
            self._bind(binding.bind_output, name, view, device)
        known = [view for view in views if view is not None]
        run = self._launching(binding, self._options)
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
