"""What every device holds to, and every one is tried with: simulated ones of all sorts, and a GPU
where there is one."""

import operator
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from headrace.dsl.types import DType
from headrace.runtime.devices.device import (
    Device,
    DeviceError,
    OutOfMemory,
    ResidencyError,
    Stream,
    View,
)
from headrace.runtime.devices.gpu import GpuDevice
from headrace.runtime.devices.host import HostDevice
from headrace.runtime.devices.resident import ResidentDevice
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.stdlib.dtypes import to_numpy
from tests.runtime.devices.test_gpu import gpus

F32 = np.dtype(np.float32)
DTYPES = [to_numpy(one) for one in DType if one not in (DType.STRING, DType.BYTES)]


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort of device: opens the device of a number."""

    name: str
    open: Callable[[int], ResidentDevice]


SORTS = [
    Sort("sim", lambda number: SimDevice(number)),
    Sort("sim, late", lambda number: SimDevice(number, SimConfig(delay=number + 3))),
    Sort("sim, integrated", lambda number: SimDevice(number, SimConfig(integrated=True))),
    Sort("sim, both", lambda number: SimDevice(number, SimConfig(delay=1, integrated=True))),
    Sort("gpu", lambda _number: GpuDevice(0)),
]


@pytest.fixture(
    params=[
        pytest.param(one, id=one.name, marks=[pytest.mark.gpu] if one.name == "gpu" else [])
        for one in SORTS
    ]
)
def sort(request: pytest.FixtureRequest) -> Sort:
    found: Sort = request.param
    if found.name == "gpu" and gpus() == 0:
        pytest.skip("needs CuPy and a CUDA device")
    return found


@pytest.fixture
def device(sort: Sort) -> Iterator[ResidentDevice]:
    opened = sort.open(0)
    yield opened
    opened.close()


@pytest.fixture
def one(device: ResidentDevice) -> Stream:
    return device.stream()


@pytest.fixture
def two(device: ResidentDevice) -> Stream:
    return device.stream()


def down(device: Device, view: View, stream: Stream) -> np.ndarray:
    return device.download(view, "down", stream)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3, 4)], ids=str)
def test_what_goes_up_comes_down(
    device: ResidentDevice, one: Stream, two: Stream, dtype: np.dtype, shape: tuple[int, ...]
) -> None:
    array = (np.random.default_rng(0).random(shape) * 100).astype(dtype)
    view = device.upload(array, "up", one)
    assert (view.shape, view.dtype, view.nbytes) == (shape, dtype, array.nbytes)
    np.testing.assert_array_equal(down(device, view, two), array)


def test_arrays_with_gaps_and_turned_ones_go_up_as_they_look(
    device: ResidentDevice, one: Stream
) -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    for seen in (array[:, ::2], array.T, array[::-1], np.broadcast_to(array[0], (3, 6))):
        view = device.upload(seen, "up", one)
        np.testing.assert_array_equal(down(device, view, one), seen)


def test_what_is_done_to_an_array_after_it_went_up_changes_nothing(
    device: ResidentDevice, one: Stream
) -> None:
    array = np.ones(1000, np.float32)
    view = device.upload(array, "up", one)
    array[:] = 7
    assert set(down(device, view, one).tolist()) == {1.0}


def test_results_stay_as_they_are_when_memory_is_used_again(
    device: ResidentDevice, one: Stream
) -> None:
    held = [down(device, device.upload(np.full(64, n, np.float32), "up", one), one) for n in "123"]
    assert [set(array.tolist()) for array in held] == [{1.0}, {2.0}, {3.0}]


def test_rows_are_stacked_parted_and_copied_in_order(
    device: ResidentDevice, one: Stream, two: Stream
) -> None:
    whole = device.upload(np.arange(12, dtype=np.float32).reshape(4, 3), "up", one)
    rows = device.concat([whole[2], whole[0]], "m", two)
    own = device.copy(whole[1], "m", one)
    blank = device.zeros((2,), F32, "m", two)
    assert down(device, rows, one).tolist() == [[6, 7, 8], [0, 1, 2]]
    assert down(device, own, two).tolist() == [3, 4, 5]
    assert down(device, blank, one).tolist() == [0, 0]
    beside = device.concat([whole[1], whole[2]], "m", one)
    assert beside.buffer is whole.buffer  # they lie side by side already
    with pytest.raises(ValueError, match=r"item 1 has shape \[3\], but item 0 has \[4, 3\]"):
        device.concat([whole, whole[0]], "m", one)


@pytest.mark.parametrize(
    "dtype", [np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_), to_numpy(DType.BF16)]
)
def test_rows_are_filled_up_and_cut_back(
    device: ResidentDevice, one: Stream, two: Stream, dtype: np.dtype
) -> None:
    arrays = [np.ones((2, 3), dtype), np.ones((3, 1), dtype), np.ones((0, 2), dtype)]
    pairs = zip(arrays, (one, two, one), strict=True)
    views = [device.upload(array, "up", stream) for array, stream in pairs]
    whole = device.fill_up(views, (3, 4), 0, "m", two)
    found = down(device, whole, one)
    for row, array in enumerate(arrays):
        wanted = np.zeros((3, 4), dtype)
        wanted[tuple(map(slice, array.shape))] = array
        np.testing.assert_array_equal(found[row], wanted)
        back = device.cut(whole[row], array.shape, "m", one)
        np.testing.assert_array_equal(down(device, back, two), array)
    leading = device.cut(whole, (2, 3, 4), "m", one)
    assert leading.buffer is whole.buffer  # what lies in one piece is not copied


def test_values_come_from_another_device_of_the_kind(sort: Sort, device: ResidentDevice) -> None:
    other = sort.open(1)
    assert device.takes_from(other)
    assert not device.takes_from(HostDevice())
    far, near = other.stream(), device.stream()
    view = other.upload(np.arange(6, dtype=np.float32).reshape(2, 3), "up", far)
    came = device.receive(view[1], "across", near)
    del view  # its memory is used again behind the copy
    other.zeros((2, 3), F32, "next", far)
    assert down(device, came, device.stream()).tolist() == [3, 4, 5]
    ledger = device.stages["across"]
    assert (ledger.d2d, ledger.d2d_bytes, ledger.h2d) == (1, 12, 0)
    del came
    assert other.ledger.balanced
    other.close()


def test_the_host_reads_nothing_by_itself(device: ResidentDevice, one: Stream) -> None:
    view = device.upload(np.ones(3, np.float32), "detect", one)
    reads: list[Callable[[Any], object]] = [  # Any: a view has no operators that pyright knows
        *(np.asarray, np.sum, bool, float, int, complex, operator.index, operator.neg),
        *(lambda it: it + 1, lambda it: 2 - it, lambda it: np.ones(3, np.float32) * it),
        *(lambda it: it < 0, lambda it: it == 0, lambda it: 0 in it),
    ]
    for read in reads:
        with pytest.raises(ResidencyError, match="the result of `detect` is in the memory of"):
            read(view)
    assert view in {view}


def test_text_is_refused_with_the_name_of_the_stage(device: ResidentDevice, one: Stream) -> None:
    with pytest.raises(DeviceError, match="`m`: text cannot be kept in the memory of"):
        device.upload(np.array(["a"], object), "m", one)


def test_what_is_another_devices_is_refused(sort: Sort, device: ResidentDevice) -> None:
    other = sort.open(1)
    stream, far = device.stream(), other.stream()
    view = other.upload(np.ones(3, np.float32), "up", far)
    with pytest.raises(ResidencyError, match=r"`m` is on .*, and the result of `up` is in"):
        device.copy(view, "m", stream)
    with pytest.raises(ResidencyError, match=r"`m` is on .*, and its stream is a stream of"):
        device.zeros((3,), F32, "m", far)
    with pytest.raises(ResidencyError, match="cannot wait for an event of cpu"):
        stream.wait(HostDevice().stream().record())
    del view
    other.close()


def test_memory_that_is_not_there_is_told(device: ResidentDevice, one: Stream) -> None:
    with pytest.raises(OutOfMemory, match="is out of memory: `m` asks for") as caught:
        device.allocate((1 << 45,), np.dtype(np.uint8), "m", one)
    assert caught.value.asked == 1 << 45
    assert 0 < caught.value.free < 1 << 45
    device.zeros((4,), F32, "m", one)


def test_everything_is_counted_and_given_back(device: ResidentDevice, one: Stream) -> None:
    for _ in range(20):
        view = device.upload(np.ones((2, 50), np.float32), "up", one)
        rows = device.concat([view[1], view[0]], "m", one)
        down(device, rows, one)
        del view, rows
    up, inner = device.stages["up"], device.stages["m"]
    mapped = device.capabilities.integrated
    assert (up.h2d, up.mapped) == ((0, 20) if mapped else (20, 0))
    assert (up.h2d_bytes, up.mapped_bytes) == ((0, 8000) if mapped else (8000, 0))
    assert (inner.d2d, inner.d2d_bytes) == (40, 8000)
    assert (device.ledger.d2h, device.ledger.d2h_bytes) == (20, 8000)
    assert device.ledger.allocations <= 3
    assert device.ledger.balanced


def test_memory_of_another_library_is_used_in_place(device: ResidentDevice, one: Stream) -> None:
    theirs = device.upload(np.arange(64, dtype=np.float32), "theirs", one)
    offset, owner = theirs.buffer.offset, object()
    if isinstance(device, SimDevice):
        device.settle()
        theirs.buffer.release()  # two values never share bytes there
    view = device.wrap(offset, (8, 8), F32, "wrapped", (owner, theirs), one)
    if not isinstance(device, SimDevice):
        assert down(device, view, one).tolist()[1] == list(range(8, 16))
    assert device.address(view) == device.address(view[0])
    del view


def test_threads_at_once(device: ResidentDevice) -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            stream = device.stream()
            for turn in range(30):
                array = np.full((2, 40), number * 100 + turn, np.float32)
                view = device.upload(array, "up", stream)
                rows = device.concat([view[1], view[0]], "m", stream)
                np.testing.assert_array_equal(down(device, rows, stream), array)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert device.ledger.balanced


def test_what_it_is_is_told(device: ResidentDevice) -> None:
    found = device.capabilities
    assert found.product
    assert found.memory >= device.free_bytes() > 0
    assert not found.sm or found.sm.isdecimal()


def test_the_host_has_no_memory_but_its_own() -> None:
    host = HostDevice()
    stream, array = host.stream(), np.ones(3)
    assert host.upload(array, "m", stream) is array
    assert host.capabilities.integrated
    assert host.capabilities.memory > 1 << 28
    with pytest.raises(DeviceError, match="`m` asks the host for device memory"):
        host.allocate((3,), F32, "m", stream)
    device = SimDevice()
    view = device.upload(np.ones(3, np.float32), "up", device.stream())
    refused = pytest.raises(DeviceError, match="is not in the host's memory")
    with refused:
        host.download(view, "m", stream)
    with refused:
        host.copy(view, "m", stream)
    with refused:
        host.concat([view], "m", stream)
    with refused:
        host.receive(view, "m", stream)
    with refused:
        host.fill_up([view], (4,), 0, "m", stream)
    with refused:
        host.cut(view, (2,), "m", stream)
    del view
    device.close()
