"""What a version has had goes back to the system when it has gone."""

import ctypes
import os
import platform
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.runtime.repository.heap import give_back
from headrace.runtime.repository.repository import Repository
from tests.runtime.repository.plans import adding

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc's heap")

SAID = {"MALLOC_ARENA_MAX": "5"}
BLOCK, BLOCKS = 1 << 16, 1024  # too small to be mapped apart


@pytest.fixture
def holes() -> Iterator[int]:
    """Leave memory free in the heap, of which the C library lets the system have none: what lies
    behind it is in use."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(BLOCK) for _ in range(BLOCKS)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    last = blocks.pop()
    for block in blocks:
        libc.free(block)
    yield BLOCK * len(blocks)
    libc.free(last)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_what_is_free_in_the_heap_goes_back(holes: int) -> None:
    before = resident()
    give_back()
    assert before - resident() > holes / 2


def test_it_goes_back_with_each_version_that_is_replaced_or_unloaded(holes: int) -> None:
    repository = Repository()
    repository.load("app", adding(1.0))
    before = resident()
    repository.unload("app").result(20)
    assert before - resident() > holes / 2
    repository.close()


def test_nobody_holds_a_version_any_more_when_it_is_said_to_be_closed() -> None:
    repository = Repository()
    repository.load("app", adding(1.0))
    engine = weakref.ref(repository.engines[0])
    unloaded = repository.unload("app")
    unloaded.result(20)
    assert engine() is None
    repository.close()


THREADS = """
import ctypes, threading
from headrace.runtime.repository.heap import bound_heaps

bound_heaps()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
all_there = threading.Barrier(64)

def take():
    libc.malloc(1 << 16)
    all_there.wait()

threads = [threading.Thread(target=take) for _ in range(64)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
"""


@pytest.mark.parametrize(
    ("said", "heaps"), [({}, max(1, len(os.sched_getaffinity(0)) // 2)), (SAID, 5)]
)
def test_threads_of_a_server_share_heaps(said: dict[str, str], heaps: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", THREADS],
        env=os.environ | said,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.count("<heap nr=") == heaps
