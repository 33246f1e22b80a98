"""Runs of an ONNX model on a GPU as CUDA graphs: launched as a whole, not node by node.

ONNX Runtime captures a graph at addresses that are fixed, keeps it for the thread that has captured
it, and wants nothing else in the session's stream meanwhile. So one thread runs the session, each
size has inputs and results at a place of its own, to and from which values are moved within the
device, and an execution has the stream to itself from the first of these moves to the last. Graphs
are of the sizes that come first, which are those that the stage is warmed up with; a run of
another size is an ordinary one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from .devices.device import Device, Stream, View
from .devices.resident import ResidentDevice
from .devices.streams import Streams
from .onnx_session import OnnxSession


@dataclass(frozen=True, slots=True)
class Fixed:
    """What a size has: where its inputs are written, where its results are, and its run."""

    inputs: Mapping[str, View]
    outputs: Sequence[View]
    run: Callable[[], None]


class GraphSession:
    """A session whose runs of the first `most` sizes are graphs."""

    def __init__(self, session: OnnxSession, device: Device, most: int) -> None:
        self._session, self._most = session, most
        self._device = cast("ResidentDevice", device)  # as everything that is not the host
        self._streams = Streams(device, session.stream or device.stream(), alone=True)
        self._fixed: dict[tuple[tuple[int, ...], ...], Fixed] = {}
        self.run = session.run
        self.reason = session.reason

    def streams(self) -> Streams:
        """Return the stream, which one execution at a time has."""
        return self._streams

    def run_on_device(
        self,
        feeds: Mapping[str, View],
        results: "Sequence[tuple[tuple[int, ...] | None, np.dtype[Any]]]",  # Any: of any scalar
        stage: str,
        stream: Stream,
    ) -> list[View]:
        """Run on views in place, in the order of the stream."""
        size = tuple(view.shape for view in feeds.values())
        fixed = self._fixed.get(size)
        if fixed is None and len(self._fixed) < self._most:
            fixed = self._fixed[size] = self._fix(feeds, results, stage, stream)
        if fixed is None:
            return self._session.run_on_device(feeds, results, stage, stream)
        device = self._device
        for name, view in feeds.items():
            device.write(fixed.inputs[name], view, stage, stream)
        device.launch(stage, stream, [*fixed.inputs.values()], fixed.outputs, fixed.run)
        return [device.copy(view, stage, stream) for view in fixed.outputs]

    def close(self) -> None:
        self._fixed.clear()
        self._session.close()
        self.run = self._session.run  # which says that it is closed

    def _fix(
        self,
        feeds: Mapping[str, View],
        results: "Sequence[tuple[tuple[int, ...] | None, np.dtype[Any]]]",  # Any: as above
        stage: str,
        stream: Stream,
    ) -> Fixed:
        allocate = self._device.allocate
        inputs = {
            name: allocate(view.shape, view.dtype, stage, stream) for name, view in feeds.items()
        }
        outputs = [
            allocate(shape, dtype, stage, stream) for shape, dtype in results if shape is not None
        ]
        number = len(self._fixed) + 1
        return Fixed(inputs, outputs, self._session.bound(inputs, outputs, number))
