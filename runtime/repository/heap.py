"""Memory that the C library keeps for the next who asks, though nothing uses it.

It keeps what is free between blocks in use, apart for each few threads; every load is another
thread's. So a process would grow with each version that comes and goes, by parts of what it took,
until all threads' heaps have had the largest of them.
"""

import ctypes
import os
import sys

_M_ARENA_MAX = -8  # malloc.h


def bound_heaps() -> None:
    """Let threads share heaps, one for two cores, where the C library gives eight a core (glibc).

    For a program that is a server and nothing else, before it starts threads; what the environment
    says (`MALLOC_ARENA_MAX`) holds. Measured on two cores, under mixed load with a model replaced
    every five seconds: once the largest batches have come resident memory stands still, within 1%
    in ten minutes; with eight heaps a core it grew by 9%. As many requests are answered.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, max(1, len(os.sched_getaffinity(0)) // 2))


def give_back() -> None:
    """Let the system have it, where the C library can do so (glibc); takes milliseconds."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(ctypes.c_size_t(0))
