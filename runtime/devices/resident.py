"""What devices with memory of their own have in common: order, copies, a pool and a ledger.

A kind of device says how bytes are moved and memory is got; here is what may be asked of it, and
that all of it is in order: work on views waits for what made them, and leaves an event behind.
What is asked of the wrong device, or with its stream or event, is refused here and nowhere else.

Where the memory is the host's as well (`capabilities.integrated`), what comes from the host is
written where the device reads it, in a pool of its own (`mapped`), and nothing is copied.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from ...stdlib.op import Array
from .device import (
    Buffer,
    Capabilities,
    Device,
    DeviceError,
    Event,
    ResidencyError,
    Stream,
    Uses,
    View,
)
from .driver import Driver, Kind, ResidentStream
from .ledger import Books, Ledger
from .pool import Block, Pool


class ResidentDevice(Driver, Device):
    """Thread-safe. What a kind of device does itself is a Driver's."""

    def __init__(self, name: str, capabilities: Capabilities) -> None:
        self._name, self._capabilities = name, capabilities
        self.books = Books()
        self.pool = Pool(self, self.books, self._take, self._give, self.free_bytes, self._went_idle)
        self.mapped = Pool(
            self, self.books, self._take_mapped, self._give_mapped, self.free_bytes, self._went_idle
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def ledger(self) -> Ledger:
        self._collect()
        return self.books.total()

    @property
    def stages(self) -> Mapping[str, Ledger]:
        self._collect()
        return self.books.stages()

    def _collect(self) -> None:
        self.pool.collect()
        self.mapped.collect()

    def upload(self, array: Array, stage: str, stream: Stream) -> View:
        if self._capabilities.integrated:
            return self._map(array, stage, stream)
        view = self.allocate(array.shape, array.dtype, stage, stream)
        source, address = np.ascontiguousarray(array), self.address(view)

        def run() -> None:
            self._copy_in(address, source, stream)

        self.launch(stage, stream, (), (view,), run, Kind.UPLOAD)
        self.books.count(stage, h2d=1, h2d_bytes=view.nbytes)
        return view

    def _map(self, array: Array, stage: str, stream: Stream) -> View:
        """Write an array where the device reads it in place."""
        view, uses = self._leased_from(self.mapped, array.shape, array.dtype, stage, stream)
        for event in uses.values():
            event.synchronize()  # it is the host that writes, and it writes now
        source, address = np.ascontiguousarray(array), self.address(view)
        run = partial(self._write_mapped, address, source)
        self.launch(stage, stream, (), (view,), run, Kind.FILL).synchronize()
        self.books.count(stage, mapped=1, mapped_bytes=view.nbytes)
        return view

    def download(self, view: View, stage: str, stream: Stream) -> Array:
        array, address = self._host_array(view.shape, view.dtype), self.address(view)

        def run() -> None:
            self._copy_out(array, address, stream)

        self.launch(stage, stream, (view,), (), run, Kind.DOWNLOAD).synchronize()
        self.books.count(stage, d2h=1, d2h_bytes=view.nbytes, syncs=1)
        return array

    # Any: of any scalar
    def allocate(
        self, shape: tuple[int, ...], dtype: "np.dtype[Any]", stage: str, stream: Stream
    ) -> View:
        return self._leased_from(self.pool, shape, dtype, stage, stream)[0]

    # Any: of any scalar
    def _leased_from(
        self,
        pool: Pool,
        shape: tuple[int, ...],
        dtype: "np.dtype[Any]",
        stage: str,
        stream: Stream,
    ) -> tuple[View, Uses]:
        """Return a view of memory that a pool has, and who used it before."""
        if dtype.hasobject:
            raise DeviceError(f"`{stage}`: text cannot be kept in the memory of {self._name}")
        self._require_own(stage, stream)
        buffer, uses = pool.lease(math.prod(shape) * dtype.itemsize, stage)
        for other, last in uses.items():
            if other is not stream:
                stream.wait(last)
        view = View(buffer, 0, shape, dtype, stage, stream.record())
        buffer.uses[stream] = view.ready
        self._leased(view, stream)
        return view, uses

    # Any: of any scalar
    def wrap(
        self,
        offset: int,
        shape: tuple[int, ...],
        dtype: "np.dtype[Any]",
        stage: str,
        owner: object,
        stream: Stream,
    ) -> View:
        """Return a view of memory that is somebody else's, who is kept until it is dropped, as it
        is at this point of a stream. `offset` is as of a Buffer."""
        self._require_own(stage, stream)
        nbytes = math.prod(shape) * dtype.itemsize
        buffer = Buffer(self, offset, nbytes, stage, partial(_drop, owner))
        return View(buffer, 0, shape, dtype, stage, stream.record())

    def place(self, view: View) -> tuple[int, int]:
        """Refuse to say where a value is to other libraries: none of them could read it."""
        view.__array__()

    def lend(self, view: View, **asked: Any) -> object:  # Any: see Lends
        del asked
        view.__array__()

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

    def write(self, target: View, view: View, stage: str, stream: Stream) -> None:
        """Copy a view over another of its size, within the device."""
        self._move_to(target, [view], stage, stream)

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

    def takes_from(self, other: Device) -> bool:
        return type(other) is type(self)

    def receive(self, view: View, stage: str, stream: Stream) -> View:
        own, source = self.allocate(view.shape, view.dtype, stage, stream), view.buffer.device
        if not isinstance(source, type(self)):
            raise ResidencyError(f"{self._name} takes nothing from {source.name} by itself")
        run = partial(self._move_from, source, self.address(own), source.address(view), own.nbytes)
        self.launch(stage, stream, (view,), (own,), partial(run, stream), Kind.PEER)
        self.books.count(stage, d2d=1, d2d_bytes=own.nbytes)
        return own

    # Any: of any scalar
    def fill_up(
        self, views: Sequence[View], shape: tuple[int, ...], value: Any, stage: str, stream: Stream
    ) -> View:
        first = views[0]
        whole = self.allocate((len(views), *shape), first.dtype, stage, stream)
        to, all_of_it, dtype = self.address(whole), whole.shape, first.dtype
        sources = [(self.address(view), view.shape) for view in views]

        def run() -> None:
            with self.on(stream):
                target = self.tensor(to, all_of_it, dtype)
                target[...] = value
                for row, (source, size) in enumerate(sources):
                    target[(row, *map(slice, size))] = self.tensor(source, size, dtype)

        self.launch(stage, stream, views, (whole,), run, Kind.MOVE)
        self.books.count(stage, d2d=len(views), d2d_bytes=sum(view.nbytes for view in views))
        return whole

    def cut(self, view: View, shape: tuple[int, ...], stage: str, stream: Stream) -> View:
        if shape[1:] == view.shape[1:]:
            return view if shape == view.shape else view[: shape[0]]
        part = self.allocate(shape, view.dtype, stage, stream)
        to, source, whole, dtype = self.address(part), self.address(view), view.shape, view.dtype

        def run() -> None:
            with self.on(stream):
                cut = self.tensor(source, whole, dtype)[tuple(map(slice, shape))]
                self.tensor(to, shape, dtype)[...] = cut

        self.launch(stage, stream, (view,), (part,), run, Kind.MOVE)
        self.books.count(stage, d2d=1, d2d_bytes=part.nbytes)
        return part

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
        self._require(stage, stream, reads, writes, kind)
        views = (*reads, *writes)
        for view in views:
            if view.ready.stream is not stream:
                stream.wait(view.ready)
        try:
            self._submit(stage, stream, reads, writes, run, kind)
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
        self._require(stage, stream, reads, writes, kind)
        self._submit(stage, stream, reads, writes, run, kind)

    def _require(
        self,
        stage: str,
        stream: Stream,
        reads: Sequence[View],
        writes: Sequence[View],
        kind: Kind,
    ) -> None:
        """Raise where a stage is given what is not this device's, or is nobody's any more."""
        self._require_own(stage, stream)
        for view in (*reads, *writes):
            if view.buffer.device is not self and kind is not Kind.PEER:
                raise ResidencyError(
                    f"`{stage}` is on {self._name}, and the result of `{view.stage}` is in the "
                    f"memory of {view.buffer.device.name}"
                )
            if view.buffer.released:
                raise ResidencyError(
                    f"`{stage}` uses the result of `{view.stage}`, whose memory was given back"
                )

    def _require_own(self, stage: str, stream: Stream) -> None:
        if cast("ResidentStream", stream).device is not self:
            raise ResidencyError(f"`{stage}` is on {self._name}, and its stream is {stream}")

    def _move_to(self, whole: View, views: Sequence[View], stage: str, stream: Stream) -> None:
        to, nbytes = self.address(whole), views[0].nbytes
        sources = [self.address(view) for view in views]

        def run() -> None:
            for index, source in enumerate(sources):
                self._move(to + index * nbytes, source, nbytes, stream)

        self.launch(stage, stream, views, (whole,), run, Kind.MOVE)
        self.books.count(stage, d2d=len(views), d2d_bytes=whole.nbytes)

    def _leased(self, view: View, stream: Stream) -> None:
        """Hear of a value that has just got its memory."""

    def _went_idle(self, block: Block) -> None:
        """Hear of memory that no value has any more."""


def _drop(owner: object, uses: object) -> None:
    """Let go of whoever owns wrapped memory."""
    del owner, uses


def _adjoin(views: Sequence[View]) -> bool:
    """Whether views lie one behind the other in one buffer, so that together they are one."""
    first = views[0]
    return all(
        view.buffer is first.buffer
        and view.ready is first.ready
        and view.offset == first.offset + index * first.nbytes
        for index, view in enumerate(views)
    )
