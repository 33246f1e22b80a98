"""What this process holds of the system, so that a test sees what it has left behind.

Compare by difference: what others held before may go at any moment, and other processes come and
go as they like.
"""

import threading
from pathlib import Path


def held() -> frozenset[object]:
    """Return the descriptors, threads and shared memory of this process."""
    return frozenset[object]().union(descriptors(), threads(), shared())


def descriptors() -> frozenset[tuple[str, str]]:
    """Return the open descriptors, each with what it leads to."""
    found: set[tuple[str, str]] = set()
    for one in Path("/proc/self/fd").iterdir():
        try:
            found.add((one.name, str(one.readlink())))
        except FileNotFoundError:  # that with which they were listed
            continue
    return frozenset(found)


def threads() -> frozenset[threading.Thread]:
    """Return the threads that we have started and that have not ended."""
    return frozenset(one for one in threading.enumerate() if one.name.startswith("headrace"))


def shared() -> frozenset[str]:
    """Return the shared memory of workers that is mapped, by inode."""
    return frozenset(line[4] for line in _mapped() if line[5].startswith("/memfd:headrace"))


def named() -> frozenset[str]:
    """Return the names of shared memory that is mapped, which others could open."""
    return frozenset(line[5] for line in _mapped() if line[5].startswith("/dev/shm/"))


def _mapped() -> list[list[str]]:
    lines = Path("/proc/self/maps").read_text("utf-8").splitlines()
    return [parts for line in lines if len(parts := line.split(maxsplit=5)) == 6]
