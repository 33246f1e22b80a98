"""Shared memory: sealed, of the size that it is said to be, and known to be in use or not."""

import os

import numpy as np
import pytest

from headrace.runtime.isolation.memory import Arena, MemoryRefused, make


def test_what_one_writes_the_other_reads_and_nobody_makes_it_shorter() -> None:
    arena, descriptor = make(1, 100_000)
    other = Arena(1, descriptor, arena.size, writable=False)
    arena.view[99_999] = 7
    loan = other.lend()
    assert loan.bytes[99_999] == 7
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 10)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 2**30)
    assert not loan.bytes.flags.writeable
    os.close(descriptor)


@pytest.mark.parametrize("wrong", [1, -1, -(2**40)])
def test_memory_of_another_size_is_refused(wrong: int) -> None:
    arena, descriptor = make(1, 1)
    with pytest.raises(MemoryRefused):
        Arena(1, descriptor, arena.size + wrong, writable=False)
    os.close(descriptor)


def test_memory_that_could_shrink_under_its_reader_is_refused() -> None:
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, 4096)
    with pytest.raises(MemoryRefused):
        Arena(1, descriptor, 4096, writable=False)
    os.close(descriptor)


def test_a_loan_ends_when_no_part_of_it_is_kept() -> None:
    arena, descriptor = make(1, 1)
    os.close(descriptor)
    loan = arena.lend()
    kept = loan.bytes[10:20].view(np.int16).reshape(1, 5)[0]
    assert not loan.end()
    del kept
    assert loan.end()
