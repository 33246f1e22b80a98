"""A stage that copies a column to a device's memory."""

from collections.abc import Sequence
from time import perf_counter
from typing import cast

import numpy as np

from ..stdlib.op import Array
from .devices.device import Device, View
from .devices.streams import Streams
from .metrics import StageCell
from .rows import Rows, Value
from .stage import Part, StageError


class TransferStage:
    """Copies once for a stacked or shared column, else once a row. Lists copy their items.

    What is there already is not copied, unless it is a part of something larger: then it gets
    memory of its own. From another device of the same kind it comes without the host, in the order
    of this device's streams. Copies are in the order of streams of this stage's own.
    """

    policy = None

    def __init__(self, device: Device, index: int) -> None:
        self.name, self.index = f"to {device.name}", index
        self._device = device
        self._streams = {device: Streams(device)}  # of each device that has been copied from or to

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        start = perf_counter()
        moved = columns[0].map_tensors(self._move)
        cell.record(count, perf_counter() - start)
        return [moved]

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        return self.run(columns, count, cell)

    def split(self, columns: Sequence[Rows], count: int) -> list[Part]:
        return [Part(None, None, tuple(columns), count)]

    def _move(self, value: Value) -> Value:
        if isinstance(value, View):
            return self._move_view(value)
        if isinstance(value, list):
            moved = [self._move(item) for item in value]
            return cast("list[object]", moved)  # type: ignore[return-value] items of one kind
        if value is None:
            return None
        array = cast("Array", np.asarray(value))
        if array.dtype.kind not in "OUS":
            return self._upload(array)
        if self._device.name == "cpu":
            return value
        raise StageError(f"text cannot be kept in the memory of {self._device.name}")

    def _move_view(self, view: View) -> Value:
        holder = view.buffer.device
        if holder is self._device and view.is_whole:
            return view
        if holder is not self._device and self._device.takes_from(holder):
            stream = self._streams[self._device].lend()
            try:
                return self._device.receive(view, self.name, stream)
            finally:
                self._streams[self._device].give_back(stream)
        streams = self._streams.get(holder)
        if streams is None:
            streams = self._streams.setdefault(holder, Streams(holder))
        stream = streams.lend()
        try:
            if holder is self._device:
                return holder.copy(view, self.name, stream)
            array = holder.download(view, self.name, stream)
        finally:
            streams.give_back(stream)
        return self._upload(array)

    def _upload(self, array: Array) -> Value:
        streams = self._streams[self._device]
        stream = streams.lend()
        try:
            return self._device.upload(array, self.name, stream)
        finally:
            streams.give_back(stream)
