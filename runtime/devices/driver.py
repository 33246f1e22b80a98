"""What a kind of device does itself: get memory, move bytes, run things in the order of streams.

`resident.py` decides what is asked of it, looks that it may be, and counts it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from ...stdlib.op import Array
from .device import Event, ResidencyError, Stream, View

if TYPE_CHECKING:
    from .resident import ResidentDevice


class Kind(Enum):
    """What a device is asked to do."""

    RUN = "run"
    FILL = "fill"
    UPLOAD = "h2d"
    DOWNLOAD = "d2h"
    MOVE = "d2d"
    PEER = "p2p"


class ResidentStream(Stream, ABC):
    """A stream of one device; its events may be waited for by all devices of that kind."""

    def __init__(self, device: "ResidentDevice") -> None:
        self.device = device

    def wait(self, event: Event) -> None:
        if not isinstance(event.stream, type(self)):
            raise ResidencyError(f"{self} cannot wait for {event}")
        self._wait(event)

    @abstractmethod
    def _wait(self, event: Event) -> None:
        """Wait for an event of this kind of device."""

    def __str__(self) -> str:
        return f"a stream of {self.device.name}"


class Driver(ABC):
    """`memory` and `index` are how ONNX Runtime calls what values lie in."""

    memory: str
    index: int

    @abstractmethod
    def address(self, view: View) -> int:
        """Return where what runs on the device finds a view."""

    @abstractmethod
    def adopt(self, value: Any, stage: str, stream: Stream) -> View:  # Any: an OrtValue, untyped
        """Take over what a session on this device has put where it chose; no copy is counted."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Return how much memory the device has left."""

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
    def _take_mapped(self, nbytes: int) -> int | None:
        """Do as `_take` does, with memory that the host can write; asked for where the device is
        integrated."""

    @abstractmethod
    def _give_mapped(self, offset: int, nbytes: int) -> None: ...

    @abstractmethod
    def _write_mapped(self, address: int, array: Array) -> None:
        """Write from the host to memory of `_take_mapped`."""

    def _host_array(self, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Array:  # Any: as above
        """Return an array that a copy to the host is to fill."""
        return np.empty(shape, dtype)

    # Any: of any scalar; an array of the library that works on the device
    @abstractmethod
    def tensor(self, address: int, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Any:
        """Return an array in this memory, for what runs on the device."""

    @abstractmethod
    def on(self, stream: Stream) -> AbstractContextManager[object]:
        """Return a context in which arrays of `tensor` are worked on in the order of a stream."""

    @abstractmethod
    def _copy_in(self, address: int, array: Array, stream: Stream) -> None: ...

    @abstractmethod
    def _copy_out(self, array: Array, address: int, stream: Stream) -> None: ...

    @abstractmethod
    def _move(self, to: int, source: int, nbytes: int, stream: Stream) -> None: ...

    # Any: a device of this kind
    @abstractmethod
    def _move_from(self, other: Any, to: int, source: int, nbytes: int, stream: Stream) -> None: ...

    @abstractmethod
    def _clear(self, address: int, nbytes: int, stream: Stream) -> None: ...
