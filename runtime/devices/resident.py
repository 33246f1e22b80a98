"""What devices with memory of their own have in common: order, copies, a pool and a ledger.

A kind of device says how bytes are moved and memory is got; here is what may be asked of it, and
that all of it is in order: work on views waits for what made them, and leaves an event behind.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any

import numpy as np

from ...stdlib.op import Array
from .device import Device, DeviceError, Event, ResidencyError, Stream, View
from .ledger import Books, Ledger
from .pool import Block, Pool


class Kind(Enum):
    """What a device is asked to do."""

    RUN = "run"
    FILL = "fill"
    UPLOAD = "h2d"
    DOWNLOAD = "d2h"
    MOVE = "d2d"


class ResidentDevice(Device, ABC):
    """`memory` and `index` are how ONNX Runtime calls what values lie in. Thread-safe."""

    memory: str
    index: int

    def __init__(self, name: str) -> None:
        self._name = name
        self.books = Books()
        self.pool = Pool(self, self.books, self._take, self._give, self.free_bytes, self._went_idle)

    @property
    def name(self) -> str:
        return self._name

    @property
    def ledger(self) -> Ledger:
        self.pool.collect()
        return self.books.total()

    @property
    def stages(self) -> Mapping[str, Ledger]:
        self.pool.collect()
        return self.books.stages()

    def upload(self, array: Array, stage: str, stream: Stream) -> View:
        view = self.allocate(array.shape, array.dtype, stage, stream)
        source, address = np.ascontiguousarray(array), self.address(view)

        def run() -> None:
            self._copy_in(address, source, stream)

        self.launch(stage, stream, (), (view,), run, Kind.UPLOAD)
        self.books.count(stage, h2d=1, h2d_bytes=view.nbytes)
        return view

    def download(self, view: View, stage: str, stream: Stream) -> Array:
        array, address = np.empty(view.shape, view.dtype), self.address(view)

        def run() -> None:
            self._copy_out(array, address, stream)

        self.launch(stage, stream, (view,), (), run, Kind.DOWNLOAD).synchronize()
        self.books.count(stage, d2h=1, d2h_bytes=view.nbytes, syncs=1)
        return array

    # Any: of any scalar
    def allocate(
        self, shape: tuple[int, ...], dtype: "np.dtype[Any]", stage: str, stream: Stream
    ) -> View:
        if dtype.hasobject:
            raise DeviceError(f"`{stage}`: text cannot be kept in the memory of {self._name}")
        buffer, uses = self.pool.lease(math.prod(shape) * dtype.itemsize, stage)
        for other, last in uses.items():
            if other is not stream:
                stream.wait(last)
        view = View(buffer, 0, shape, dtype, stage, stream.record())
        buffer.uses[stream] = view.ready
        self._leased(view, stream)
        return view

    # Any: of any scalar
    def zeros(
        self, shape: tuple[int, ...], dtype: "np.dtype[Any]", stage: str, stream: Stream
    ) -> View:
        view = self.allocate(shape, dtype, stage, stream)
        address, nbytes = self.address(view), view.nbytes
        self.launch(
            stage, stream, (), (view,), lambda: self._clear(address, nbytes, stream), Kind.FILL
        )
        return view

    def copy(self, view: View, stage: str, stream: Stream) -> View:
        copied = self.allocate(view.shape, view.dtype, stage, stream)
        self._move_to(copied, [view], stage, stream)
        return copied

    def concat(self, views: Sequence[View], stage: str, stream: Stream) -> View:
        first = views[0]
        for index, view in enumerate(views):
            if view.shape != first.shape:
                raise ValueError(
                    f"item {index} has shape {list(view.shape)}, but item 0 has "
                    f"{list(first.shape)}; items of different shapes are no tensor"
                )
        shape = (len(views), *first.shape)
        if _adjoin(views):
            return View(first.buffer, first.offset, shape, first.dtype, first.stage, first.ready)
        whole = self.allocate(shape, first.dtype, stage, stream)
        self._move_to(whole, views, stage, stream)
        return whole

    def launch(
        self,
        stage: str,
        stream: Stream,
        reads: Sequence[View],
        writes: Sequence[View],
        run: Callable[[], None],
        kind: Kind = Kind.RUN,
    ) -> Event:
        """Let `run` work on views in place, behind what made them; return the point behind it.

        It may run later, in another thread, so it is to know addresses and not the views.
        """
        views = (*reads, *writes)
        for view in views:
            if view.ready.stream is not stream and view.buffer.device is self:
                stream.wait(view.ready)
        try:
            self.enqueue(stage, stream, reads, writes, run, kind)
        finally:
            done = stream.record()
            for view in views:
                view.buffer.uses[stream] = done
        for view in writes:
            view.ready = done
        return done

    def enqueue(
        self,
        stage: str,
        stream: Stream,
        reads: Sequence[View],
        writes: Sequence[View],
        run: Callable[[], None],
        kind: Kind = Kind.RUN,
    ) -> None:
        """Do as `launch` does where whoever calls sees to the order."""
        for view in (*reads, *writes):
            if view.buffer.device is not self:
                raise ResidencyError(
                    f"`{stage}` is on {self._name}, and the result of `{view.stage}` is in the "
                    f"memory of {view.buffer.device.name}"
                )
            if view.buffer.released:
                raise ResidencyError(
                    f"`{stage}` uses the result of `{view.stage}`, whose memory was given back"
                )
        self._submit(stage, stream, reads, writes, run, kind)

    @abstractmethod
    def address(self, view: View) -> int:
        """Return where what runs on the device finds a view."""

    @abstractmethod
    def adopt(self, value: Any, stage: str, stream: Stream) -> View:  # Any: an OrtValue, untyped
        """Take over what a session on this device has put where it chose; no copy is counted."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return how much memory the device has left."""

    def _move_to(self, whole: View, views: Sequence[View], stage: str, stream: Stream) -> None:
        to, nbytes = self.address(whole), views[0].nbytes
        sources = [self.address(view) for view in views]

        def run() -> None:
            for index, source in enumerate(sources):
                self._move(to + index * nbytes, source, nbytes, stream)

        self.launch(stage, stream, views, (whole,), run, Kind.MOVE)
        self.books.count(stage, d2d=len(views), d2d_bytes=whole.nbytes)

    @abstractmethod
    def _submit(
        self,
        stage: str,
        stream: Stream,
        reads: Sequence[View],
        writes: Sequence[View],
        run: Callable[[], None],
        kind: Kind,
    ) -> None:
        """Let `run` be done in the order of the stream."""

    @abstractmethod
    def _take(self, nbytes: int) -> int | None:
        """Return the offset of new memory; None when there is no more."""

    @abstractmethod
    def _give(self, offset: int, nbytes: int) -> None:
        """Give back memory that nothing uses or will use."""

    @abstractmethod
    def _copy_in(self, address: int, array: Array, stream: Stream) -> None: ...

    @abstractmethod
    def _copy_out(self, array: Array, address: int, stream: Stream) -> None: ...

    @abstractmethod
    def _move(self, to: int, source: int, nbytes: int, stream: Stream) -> None: ...

    @abstractmethod
    def _clear(self, address: int, nbytes: int, stream: Stream) -> None: ...

    def _leased(self, view: View, stream: Stream) -> None:
        """Hear of a value that has just got its memory."""

    def _went_idle(self, block: Block) -> None:
        """Hear of memory that no value has any more."""


def _adjoin(views: Sequence[View]) -> bool:
    """Whether views lie one behind the other in one buffer, so that together they are one."""
    first = views[0]
    return all(
        view.buffer is first.buffer
        and view.ready is first.ready
        and view.offset == first.offset + index * first.nbytes
        for index, view in enumerate(views)
    )
