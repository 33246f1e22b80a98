"""Who may touch which bytes when: vector clocks, one a stream, and the uses of each block.

A stream counts what it is asked for. Its clock says of each stream how far it knows that one to
have come: through events that it waits for, and through what the thread that asks has waited for. A
use of bytes is noted as (stream, count); a later use by a stream whose clock does not reach that
count may come before it on a real device, so it is a RaceError, whatever order the simulation
happens to run things in. Everything here is called with the lock of the device held.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..device import ResidencyError
from .delay import Operation

Key = tuple[str, int]
"""A stream: the name of its device, and its number there."""

Clock = dict[Key, int]


class RaceError(ResidencyError):
    """Two uses of the same bytes, one of them a write, have no order: an event was not waited for,
    or one that came too early was."""


class UninitialisedRead(ResidencyError):
    """Bytes are read before anything was written there."""


def join(clock: Clock, other: Clock) -> None:
    """Let a clock know all that another knows."""
    for stream, count in other.items():
        if clock.get(stream, 0) < count:
            clock[stream] = count


@dataclass(slots=True)
class Use:
    """Bytes `start` to `stop` of a block, used by an operation of `stage`."""

    stage: str
    stream: Key
    count: int
    start: int
    stop: int
    operation: Operation

    def meets(self, start: int, stop: int) -> bool:
        return self.start < stop and start < self.stop


@dataclass(slots=True)
class Track:
    """The uses of one block since it was last written as a whole, and which bytes were written
    for the value that has it now."""

    written: NDArray[np.bool_]
    reads: list[Use] = field(default_factory=list[Use])
    writes: list[Use] = field(default_factory=list[Use])

    def check_read(self, stage: str, clock: Clock, start: int, stop: int, of: str) -> None:
        """Raise where a stream cannot rely on finding bytes."""
        if not self.written[start:stop].all():
            missing = int((~self.written[start:stop]).sum())
            raise UninitialisedRead(
                f"`{stage}` reads the result of `{of}` before anything was written there: "
                f"{missing} of {stop - start} bytes"
            )
        _require_order(stage, "reads", clock, self.writes, "has written", start, stop)

    def check_write(self, stage: str, clock: Clock, start: int, stop: int) -> None:
        """Raise where somebody may still use bytes."""
        _require_order(stage, "writes", clock, self.writes, "has written", start, stop)
        _require_order(stage, "writes", clock, self.reads, "has read", start, stop)

    def read(self, use: Use) -> None:
        """Note a read; an earlier one of these bytes on the same stream says nothing more."""
        self.reads = [
            one
            for one in self.reads
            if (one.stream, one.start, one.stop) != (use.stream, use.start, use.stop)
        ]
        self.reads.append(use)

    def write(self, use: Use) -> None:
        """Note a write, behind which all uses of these bytes lie that were noted before."""
        self.reads = [one for one in self.reads if not _covers(use, one)]
        self.writes = [one for one in self.writes if not _covers(use, one)]
        self.writes.append(use)
        self.written[use.start : use.stop] = True

    def writers(self, start: int, stop: int) -> list[Operation]:
        """Return what has made bytes."""
        return [one.operation for one in self.writes if one.meets(start, stop)]


def _covers(use: Use, other: Use) -> bool:
    return use.start <= other.start and other.stop <= use.stop


def _require_order(
    stage: str, does: str, clock: Clock, uses: list[Use], did: str, start: int, stop: int
) -> None:
    for one in uses:
        if one.meets(start, stop) and clock.get(one.stream, 0) < one.count:
            raise RaceError(
                f"`{stage}` {does} bytes which `{one.stage}` {did} on another stream, without "
                f"waiting for the event behind that"
            )
