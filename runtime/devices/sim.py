"""A simulated device: a second address space on the CPU, for tests that need no GPU.

A stray read from the host dies at once; new and released memory is poisoned; reading what nobody
wrote, using what was given back and work whose order nothing says are errors, found the same way
at each run. What is asked for is done at once, or with a seed as late as can be, in any order that
streams and events allow.
"""

import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from ...stdlib.op import Array
from .device import (
    Buffer,
    Capabilities,
    DeviceKind,
    Event,
    OutOfMemory,
    ResidencyError,
    Stream,
    View,
)
from .driver import Kind, ResidentStream
from .pool import Block
from .resident import ResidentDevice
from .simulation.clocks import Clock, Track, Use, join
from .simulation.delay import Operation, Queue
from .simulation.faults import NO_FAULTS, Faults, Injector
from .simulation.memory import POISON, Memory

CAPACITY: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class SimConfig:
    """`capacity` is in bytes. With a seed as `delay` nothing is done before somebody waits for it.
    `copying` names the stages that may copy between host and device (None: all may); with `leaks`
    the device refuses to be closed over values that live. With `integrated` what comes from the
    host is written in place, as on a Jetson."""

    capacity: int = CAPACITY
    delay: int | None = None
    faults: Faults = NO_FAULTS
    copying: frozenset[str] | None = None
    leaks: bool = False
    integrated: bool = False


class SimEvent:
    """What a stream knew when it was recorded, and what it had been asked for."""

    __slots__ = ("clock", "device", "operations", "stream")

    def __init__(
        self,
        device: "SimDevice",
        stream: "SimStream",
        clock: Clock,
        operations: frozenset[Operation],
    ) -> None:
        self.device, self.stream = device, stream
        self.clock, self.operations = clock, operations

    def synchronize(self) -> None:
        self.device.wait_for(self)

    def __str__(self) -> str:
        return f"an event of {self.device.name}"


class SimStream(ResidentStream):
    """A clock, and with delay the last operations that what comes next is behind. `key` is how
    clocks call it, those of other devices too."""

    device: "SimDevice"

    def __init__(self, device: "SimDevice", number: int) -> None:
        super().__init__(device)
        self.number, self.key = number, (device.name, number)
        self.clock: Clock = {}
        self.tail: frozenset[Operation] = frozenset()

    def record(self) -> SimEvent:
        with self.device.lock:
            self.tail = frozenset(one for one in self.tail if not one.done or one.error)
            return SimEvent(self.device, self, dict(self.clock), self.tail)

    def _wait(self, event: Event) -> None:
        known = cast("SimEvent", event)
        with self.device.lock:
            join(self.clock, known.clock)
            self.tail |= known.operations


class SimDevice(ResidentDevice):
    """`sim` or `sim:1`. Safe to use from several threads."""

    memory, index = "cpu", 0  # where ONNX Runtime finds the alias

    def __init__(self, index: int = 0, config: SimConfig | None = None) -> None:
        self.config = config or SimConfig()
        found = Capabilities(
            "simulated device", self.config.capacity, self.config.integrated, ipc=False
        )
        super().__init__(f"sim:{index}" if index else "sim", found)
        self.lock = (
            threading.RLock()
        )  # values may be dropped, and their memory given, at any moment
        self._numbers = itertools.count(1)
        self._memory = Memory(self.config.capacity)
        self._tracks: dict[int, Track] = {}  # of each block, by its offset
        self._leases: weakref.WeakSet[Buffer] = weakref.WeakSet()
        self._queue = None if self.config.delay is None else Queue(self.config.delay)
        self._injector = Injector(self.name, self.config.faults)
        self._seen = threading.local()  # what each thread has waited for

    def stream(self) -> SimStream:
        return SimStream(self, next(self._numbers))

    def pointer(self, view: View) -> int:
        """Return the address that the outside has; touching it kills the process."""
        return self._memory.outside + view.buffer.offset + view.offset

    def memory_at(self, view: View) -> NDArray[np.uint8]:
        """Return the bytes of a view as the device sees them, whatever is in the order."""
        return self._memory.at(self.address(view), view.nbytes)

    def address(self, view: View) -> int:
        return self._memory.alias + view.buffer.offset + view.offset

    def free_bytes(self) -> int:
        return self._memory.free

    def upload(self, array: Array, stage: str, stream: Stream) -> View:
        self._require_planned(stage)
        # a copy that is done later must not see what the caller does to the array
        return super().upload(array if self._queue is None else array.copy(), stage, stream)

    def download(self, view: View, stage: str, stream: Stream) -> Array:
        self._require_planned(stage)
        return super().download(view, stage, stream)

    def receive(self, view: View, stage: str, stream: Stream) -> View:
        self._require_planned(stage)
        return super().receive(view, stage, stream)

    # Any: of any scalar
    def allocate(
        self, shape: tuple[int, ...], dtype: "np.dtype[Any]", stage: str, stream: Stream
    ) -> View:
        if not self._injector.allocates():
            asked = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            raise OutOfMemory(self.name, stage, asked, self.free_bytes())
        return super().allocate(shape, dtype, stage, stream)

    def adopt(self, value: Any, stage: str, stream: Stream) -> View:  # Any: an OrtValue, untyped
        array = cast("Array", value.numpy())
        view = self.allocate(array.shape, array.dtype, stage, stream)
        address, source = self.address(view), np.ascontiguousarray(array)
        run = partial(self._copy_in, address, source, stream)
        self.launch(stage, stream, (), (view,), run, Kind.FILL)
        return view

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
        """Do as any device does; what is there counts as written. Raises ResidencyError where
        another value lies."""
        view = super().wrap(offset, shape, dtype, stage, owner, stream)
        with self.lock:
            self._lease(view.buffer)
            self._tracks[offset] = Track(np.ones(view.nbytes, np.bool_))
        return view

    # Any: of any scalar
    def tensor(self, address: int, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Array:
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self._memory.at(address, nbytes).view(dtype).reshape(shape)

    def on(self, stream: Stream) -> AbstractContextManager[object]:
        del stream
        return nullcontext()

    def wait_for(self, event: SimEvent) -> None:
        """Do what an event stands behind, and let this thread know of it."""
        if self._queue is not None:
            self._queue.run_until(event.operations)
        with self.lock:
            join(self._thread_clock(), event.clock)
        for operation in event.operations:
            if operation.error is not None:
                raise operation.error

    def settle(self) -> None:
        """Do all that was asked for."""
        if self._queue is not None:
            self._queue.drain()

    def close(self) -> None:
        self.settle()
        self.pool.close()
        self.mapped.close()
        self._memory.close()
        left = [one for one in self._leases if not one.released]
        if left and self.config.leaks:
            told = ", ".join(sorted(f"{one.nbytes} bytes of `{one.stage}`" for one in left))
            raise ResidencyError(f"{self.name} is closed over values that live: {told}")

    def _require_planned(self, stage: str) -> None:
        if self.config.copying is not None and stage not in self.config.copying:
            raise ResidencyError(f"`{stage}` copies between the host and {self.name} unplanned")

    def _submit(
        self,
        stage: str,
        stream: Stream,
        reads: Sequence[View],
        writes: Sequence[View],
        run: Callable[[], None],
        kind: Kind,
    ) -> None:
        own = cast("SimStream", stream)
        copies = kind in (Kind.UPLOAD, Kind.DOWNLOAD, Kind.PEER)
        self._injector.operates(stage, copies=copies)
        with self._locked(reads):
            join(own.clock, self._thread_clock())
            needs: list[Operation] = []
            for view in reads:
                track, start, stop = _bytes_of(view)
                track.check_read(stage, own.clock, start, stop, view.stage)
                needs += track.writers(start, stop)
            for view in writes:
                track, start, stop = _bytes_of(view)
                track.check_write(stage, own.clock, start, stop)
            operation = Operation(stage, run, own.tail, needs)
            if self._queue is not None:
                self._note(operation, own, reads, writes)
                own.tail = frozenset((operation,))
                self._queue.add(operation)
                return
        run()
        operation.finish()
        with self._locked(reads):
            self._note(operation, own, reads, writes)

    def _locked(self, reads: Iterable[View]) -> AbstractContextManager[object]:
        """Hold the locks of all devices that are read from, always in one order."""
        devices = {cast("SimDevice", view.buffer.device) for view in reads} | {self}
        held = ExitStack()
        for device in sorted(devices, key=lambda one: one.name):
            held.enter_context(device.lock)
        return held

    def _note(
        self, operation: Operation, stream: SimStream, reads: Sequence[View], writes: Sequence[View]
    ) -> None:
        count = stream.clock[stream.key] = stream.clock.get(stream.key, 0) + 1
        for view in reads:
            track, start, stop = _bytes_of(view)
            track.read(Use(operation.stage, stream.key, count, start, stop, operation))
        for view in writes:
            track, start, stop = _bytes_of(view)
            track.write(Use(operation.stage, stream.key, count, start, stop, operation))

    def track_of(self, buffer: Buffer) -> Track:
        """Return the uses of a buffer's memory; the lock is held."""
        return self._tracks[buffer.offset]

    def _leased(self, view: View, stream: Stream) -> None:
        """Poison the memory of a new value, in the order of its stream: a pool that forgets who may
        still use it is found out."""
        buffer, nbytes = view.buffer, view.buffer.nbytes
        with self.lock:
            self._lease(buffer)
            track = self._tracks.setdefault(buffer.offset, Track(np.zeros(0, np.bool_)))
            if len(track.written) < nbytes:
                track.written = np.zeros(nbytes, np.bool_)
        run = partial(self._memory.at(self.address(view), nbytes).fill, POISON)
        self._submit(view.stage, stream, (), (view,), run, Kind.FILL)
        with self.lock:
            track.written[:] = False
        view.ready = buffer.uses[stream] = stream.record()

    def _lease(self, buffer: Buffer) -> None:
        start, stop = buffer.offset, buffer.offset + buffer.nbytes
        for other in self._leases:
            if not other.released and other.offset < stop and start < other.offset + other.nbytes:
                raise ResidencyError(
                    f"`{buffer.stage}` and `{other.stage}` have bytes of {self.name} in common, "
                    f"from {max(start, other.offset)} to {min(stop, other.offset + other.nbytes)}"
                )
        self._leases.add(buffer)

    def _thread_clock(self) -> Clock:
        clock: Clock | None = getattr(self._seen, "clock", None)
        if clock is None:
            clock = self._seen.clock = {}
        return clock

    def _went_idle(self, block: Block) -> None:
        if self._queue is None and len(self._memory.bytes):
            self._memory.bytes[block.offset : block.offset + block.nbytes] = POISON

    def _take(self, nbytes: int) -> int | None:
        with self.lock:
            return self._memory.take(nbytes)

    def _give(self, offset: int, nbytes: int) -> None:
        with self.lock:
            self._tracks.pop(offset, None)
            self._memory.give(offset, nbytes)

    _take_mapped, _give_mapped = _take, _give

    def _write_mapped(self, address: int, array: Array) -> None:
        self._memory.at(address, array.nbytes)[:] = array.reshape(-1).view(np.uint8)

    def _move_from(
        self, other: "SimDevice", to: int, source: int, nbytes: int, stream: Stream
    ) -> None:
        del stream
        self._memory.at(to, nbytes)[:] = other.memory_from(source, nbytes)

    def memory_from(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """Return the bytes at an address, for another device."""
        return self._memory.at(address, nbytes)

    def _copy_in(self, address: int, array: Array, stream: Stream) -> None:
        del stream
        self._write_mapped(address, array)

    def _copy_out(self, array: Array, address: int, stream: Stream) -> None:
        del stream
        array.reshape(-1).view(np.uint8)[:] = self._memory.at(address, array.nbytes)

    def _move(self, to: int, source: int, nbytes: int, stream: Stream) -> None:
        del stream
        self._memory.at(to, nbytes)[:] = self._memory.at(source, nbytes)

    def _clear(self, address: int, nbytes: int, stream: Stream) -> None:
        del stream
        self._memory.at(address, nbytes)[:] = 0


def _bytes_of(view: View) -> tuple[Track, int, int]:
    track = cast("SimDevice", view.buffer.device).track_of(view.buffer)
    return track, view.offset, view.offset + view.nbytes


DEVICE = DeviceKind("sim", SimDevice, several=True)
