"""What the process of the soak holds, and how that grows.

What stands still where nothing leaks are resident memory, where heaps of threads are bounded as
`headrace run` does it, and the blocks in use in Python's heap. An arena of ONNX Runtime keeps what
the largest runs that ever met have needed, and doubles at each step, most of it untouched at first:
bytes in use in the C library's heap, and not resident unless they are written to.
"""

import ctypes
import os
import statistics
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SETTLED, WINDOW = 60, 40  # seconds; in a window each version of all plans has its turn
GROWTH = {"rss": 0.02, "blocks": 0.02, "heap": 0.05}
"""By how much what is held may grow after the first minute."""


_M_PERTURB = -6  # malloc.h


def write_what_is_taken() -> None:
    """Let the C library write to memory when it is taken, so that it is resident from then on: the
    pages of an arena that runs come to after minutes would look like growth (glibc)."""
    ctypes.CDLL(None).mallopt(_M_PERTURB, 0x55)


class Mallinfo(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the process holds: bytes of memory and those of them in use in the C library's heap,
    blocks in use in Python's."""

    rss: int
    heap: int
    blocks: int
    threads: int
    descriptors: int

    @classmethod
    def now(cls) -> "Gauges":
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        mallinfo = ctypes.CDLL(None).mallinfo2
        mallinfo.restype = Mallinfo
        heap = mallinfo()
        return cls(
            pages * os.sysconf("SC_PAGE_SIZE"),
            heap.uordblks + heap.hblkhd,
            sys.getallocatedblocks(),
            threading.active_count(),
            descriptors,
        )

    def __str__(self) -> str:
        memory = f"{self.rss / 2**20:.1f} MiB, {self.heap / 2**20:.1f} MiB in use"
        return f"{memory}, {self.blocks} blocks, {self.threads} threads, {self.descriptors} files"


def growth(samples: Sequence[Gauges], of: str) -> float | None:
    """Return by how much one of the gauges has grown after the first minute, None where there is
    too little to tell: means of windows, for versions come and go."""
    later: list[int] = [getattr(one, of) for one in samples[SETTLED:]]
    if len(later) < 2 * WINDOW:
        return None
    starts = range(0, len(later) - WINDOW + 1, WINDOW)
    windows = [statistics.fmean(later[start : start + WINDOW]) for start in starts]
    return max(windows) / windows[0] - 1
