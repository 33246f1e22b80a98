"""Memory that is used again: which block a value gets, and when the device has it back."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from headrace.runtime.devices.device import Stream, View
from headrace.runtime.devices.pool import ALIGNMENT, rounded
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.devices.streams import Streams

U8 = np.dtype(np.uint8)


@pytest.fixture
def device() -> Iterator[SimDevice]:
    opened = SimDevice(config=SimConfig(capacity=1 << 20))
    yield opened
    opened.close()


def take(device: SimDevice, nbytes: int, stream: Stream) -> View:
    return device.allocate((nbytes,), U8, "m", stream)


def test_blocks_are_at_most_an_eighth_larger_than_what_is_asked_for() -> None:
    for nbytes in [*range(0, 5000, 7), *(10**power + 1 for power in range(4, 10))]:
        size = rounded(nbytes)
        assert size % ALIGNMENT == 0
        assert nbytes <= size <= max(nbytes + ALIGNMENT, nbytes * 9 / 8)
        assert rounded(size) == size


def test_values_of_slightly_different_size_share_blocks(device: SimDevice) -> None:
    stream = device.stream()
    for nbytes in (4000, 3000, 2100, 3999):
        take(device, nbytes, stream)
    assert device.ledger.allocations == 1
    small = take(device, 100, stream)  # for which that block would be a waste
    assert device.ledger.allocations == 2
    del small


def test_blocks_that_are_in_use_are_nobody_elses(device: SimDevice) -> None:
    stream = device.stream()
    views = [take(device, 1000, stream) for _ in range(5)]
    assert len({view.buffer.offset for view in views}) == 5
    del views
    again = [take(device, 1000, stream) for _ in range(5)]
    assert device.ledger.allocations == 5
    assert len({view.buffer.offset for view in again}) == 5


def test_a_value_that_nobody_used_hands_on_whom_its_memory_waits_for(device: SimDevice) -> None:
    one, two = device.stream(), device.stream()
    view = device.zeros((100,), U8, "m", one)
    device.launch("reader", two, (view,), (), lambda: None)
    del view
    take(device, 100, one)
    device.zeros((100,), U8, "m", device.stream())  # raises where it may come too early
    assert device.ledger.allocations == 1


def test_what_outlives_its_device_is_given_back_when_it_is_dropped() -> None:
    device = SimDevice(config=SimConfig(capacity=1 << 16))
    view = device.zeros((10,), U8, "m", device.stream())
    idle = device.zeros((10,), U8, "m", device.stream())
    del idle
    device.close()
    assert (device.ledger.allocations, device.ledger.releases) == (2, 1)
    del view
    ledger = device.ledger
    assert (ledger.allocations, ledger.releases, ledger.held_bytes) == (2, 2, 0)
    assert ledger.balanced


def test_threads_that_take_and_drop_get_no_block_twice(device: SimDevice) -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        stream = device.stream()
        try:
            for turn in range(100):
                array = np.full(300 + turn % 3, number * 100 + turn, np.int32)
                view = device.upload(array, f"up {number}", stream)
                whole = device.copy(view, f"copy {number}", stream)
                del view
                np.testing.assert_array_equal(device.download(whole, "down", stream), array)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert device.ledger.allocations <= 4 * 3  # of a thread: one, its copy, the copy before
    assert device.ledger.balanced


def test_each_execution_at_one_time_has_a_stream_of_its_own(device: SimDevice) -> None:
    streams = Streams(device)
    one, two = streams.lend(), streams.lend()
    assert one is not two
    streams.give_back(one)
    assert streams.lend() is one
    shared = Streams(device, only=two)
    assert shared.lend() is shared.lend() is two
