"""Memory that the C library keeps for the next who asks, though nothing uses it.

It keeps what is free between blocks in use, apart for each few threads; every load is another
thread's. So a process would grow with each version that comes and goes, by parts of what it took,
until all threads' heaps have had the largest of them.
"""

import ctypes
import sys


def give_back() -> None:
    """Let the system have it, where the C library can do so (glibc); takes milliseconds."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(ctypes.c_size_t(0))
