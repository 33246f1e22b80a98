"""What is done wrong on the simulated device is found, each by name, the same way every time."""

import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from headrace.compiler.plan import TransferStep
from headrace.runtime.devices.device import ResidencyError, Stream, View
from headrace.runtime.devices.driver import Kind
from headrace.runtime.devices.host import HostDevice
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.devices.simulation.clocks import RaceError, UninitialisedRead
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Fault, Request
from tests.runtime.plans import PlanMaker, add_model, block, call, fields, place

F32 = np.dtype(np.float32)
ONES = np.ones(4, np.float32)
DELAYS = (None, 0, 1)  # at once, and late in two orders


@pytest.fixture(params=DELAYS)
def device(request: pytest.FixtureRequest) -> Iterator[SimDevice]:
    opened = SimDevice(config=SimConfig(capacity=1 << 16, delay=request.param))
    yield opened
    opened.close()


@pytest.fixture
def one(device: SimDevice) -> Stream:
    return device.stream()


@pytest.fixture
def two(device: SimDevice) -> Stream:
    return device.stream()


def read(device: SimDevice, view: View, stream: Stream, stage: str = "reader") -> None:
    """Let a stage read a view, without waiting for anything."""
    device.enqueue(stage, stream, (view,), (), nothing)


def write(device: SimDevice, view: View, stream: Stream, stage: str = "writer") -> None:
    """Let a stage write a view, without waiting for anything."""
    device.enqueue(stage, stream, (), (view,), nothing)


def nothing() -> None:
    """What a kernel of these tests does."""


def test_a_missing_wait_before_a_read(device: SimDevice, one: Stream, two: Stream) -> None:
    view = device.upload(ONES, "maker", one)
    with pytest.raises(RaceError, match="`reader` reads bytes which `maker` has written on anoth"):
        read(device, view, two)
    two.wait(view.ready)
    read(device, view, two)


def test_a_missing_wait_before_a_write(device: SimDevice, one: Stream, two: Stream) -> None:
    view = device.upload(ONES, "maker", one)
    two.wait(view.ready)
    read(device, view, two)
    with pytest.raises(RaceError, match="`writer` writes bytes which `reader` has read on another"):
        write(device, view, one)
    one.wait(two.record())
    write(device, view, one)


def test_a_wait_for_an_event_that_comes_too_early(
    device: SimDevice, one: Stream, two: Stream
) -> None:
    early = one.record()
    view = device.upload(ONES, "maker", one)
    two.wait(early)
    with pytest.raises(RaceError, match="`reader` reads bytes which `maker` has written"):
        read(device, view, two)


def test_a_wait_for_an_event_of_a_third_stream(device: SimDevice, one: Stream, two: Stream) -> None:
    view = device.upload(ONES, "maker", one)
    two.wait(device.stream().record())
    with pytest.raises(RaceError, match="`reader` reads bytes which `maker` has written"):
        read(device, view, two)


def test_memory_that_is_given_back_while_it_is_of_use(device: SimDevice, one: Stream) -> None:
    view = device.upload(ONES, "maker", one)
    view.buffer.release()
    with pytest.raises(
        ResidencyError, match=r"`reader` uses .* `maker`, whose memory was given ba"
    ):
        device.download(view, "reader", one)


def test_memory_that_is_given_back_twice(device: SimDevice, one: Stream) -> None:
    view = device.upload(ONES, "maker", one)
    view.buffer.release()
    with pytest.raises(ResidencyError, match="`maker` on sim is given back a second time"):
        view.buffer.release()
    del view
    assert device.ledger.balanced


def test_a_read_of_what_nobody_wrote(device: SimDevice, one: Stream) -> None:
    view = device.allocate((4,), F32, "maker", one)
    with pytest.raises(UninitialisedRead, match=r"`reader` reads .* of `maker` .* 16 of 16 bytes"):
        device.download(view, "reader", one)


def test_a_read_of_more_than_was_written(device: SimDevice, one: Stream) -> None:
    view = device.allocate((4,), F32, "maker", one)
    write(device, view[:3], one)
    read(device, view[:3], one)
    with pytest.raises(UninitialisedRead, match="4 of 16 bytes"):
        read(device, view, one)


def test_a_read_of_what_the_value_before_has_left(device: SimDevice, one: Stream) -> None:
    device.upload(ONES, "before", one)
    view = device.allocate((4,), F32, "maker", one)
    assert device.ledger.allocations == 1
    with pytest.raises(UninitialisedRead, match="`reader` reads the result of `maker`"):
        device.download(view, "reader", one)


def test_a_read_on_the_host(device: SimDevice, one: Stream) -> None:
    view = device.upload(ONES, "maker", one)
    with pytest.raises(ResidencyError, match="the result of `maker` is in the memory of sim; read"):
        np.asarray(view)


def test_a_leak_when_the_device_is_closed() -> None:
    device = SimDevice(config=SimConfig(leaks=True))
    view = device.upload(ONES, "maker", device.stream())
    with pytest.raises(ResidencyError, match="closed over values that live: 16 bytes of `maker`"):
        device.close()
    del view


def test_a_copy_that_no_plan_says() -> None:
    device = SimDevice(config=SimConfig(copying=frozenset({"to sim"})))
    stream = device.stream()
    view = device.upload(ONES, "to sim", stream)
    with pytest.raises(ResidencyError, match="`blur` copies between the host and sim unplanned"):
        device.download(view, "blur", stream)


def test_two_values_of_an_arena_that_overlap(device: SimDevice, one: Stream) -> None:
    arena = object()
    whole = device.allocate((1 << 14,), np.dtype(np.uint8), "arena", one)
    offset = whole.buffer.offset + (1 << 15)
    first = device.wrap(offset, (64,), F32, "first", arena, one)
    beside = device.wrap(offset + 256, (64,), F32, "beside", arena, one)
    with pytest.raises(ResidencyError, match=r"`second` and `\w+` have bytes of sim in common"):
        device.wrap(offset + 128, (64,), F32, "second", arena, one)
    del first, beside
    device.wrap(offset + 128, (64,), F32, "second", arena, one)


def test_a_pool_that_forgets_who_still_reads(device: SimDevice, one: Stream, two: Stream) -> None:
    view = device.upload(ONES, "maker", one)
    device.launch("reader", two, (view,), (), nothing)
    uses = view.buffer.uses
    assert set(uses) == {one, two}
    del uses[two]
    del view
    with pytest.raises(RaceError, match="`next` writes bytes which `reader` has read on another"):
        device.allocate((4,), F32, "next", one)


def test_a_view_of_another_device(device: SimDevice, one: Stream) -> None:
    other = SimDevice(1, SimConfig(capacity=1 << 16))
    view = other.upload(ONES, "maker", other.stream())
    with pytest.raises(ResidencyError, match="`reader` is on sim, and the result of `maker` is in"):
        device.download(view, "reader", one)


def test_a_stream_of_another_device(device: SimDevice) -> None:
    other = SimDevice(1, SimConfig(capacity=1 << 16))
    with pytest.raises(
        ResidencyError, match="`maker` is on sim, and its stream is a stream of sim:1"
    ):
        device.upload(ONES, "maker", other.stream())


def test_an_event_of_another_kind_of_device(one: Stream) -> None:
    with pytest.raises(ResidencyError, match="a stream of sim cannot wait for an event of cpu"):
        one.wait(HostDevice().stream().record())


def test_a_copy_from_another_device_that_does_not_wait(device: SimDevice, one: Stream) -> None:
    other = SimDevice(1, SimConfig(capacity=1 << 16, delay=device.config.delay))
    far = other.stream()
    view = other.upload(ONES, "maker", far)
    target = device.allocate((4,), F32, "to sim", one)
    with pytest.raises(RaceError, match="`to sim` reads bytes which `maker` has written on anoth"):
        device.enqueue("to sim", one, (view,), (target,), nothing, Kind.PEER)
    copied = device.receive(view, "to sim", one)
    with pytest.raises(RaceError, match="`maker` writes bytes which `to sim` has read on another"):
        write(other, view, far, "maker")
    assert device.download(copied, "to cpu", one).tolist() == [1] * 4
    other.close()


def test_a_plan_that_hands_a_model_the_view_of_another_device() -> None:
    maker = PlanMaker()
    first = maker.onnx("m0", add_model(1.0), fields(x="f32"), fields(y="f32"), device="sim")
    second = maker.onnx("m1", add_model(1.0), fields(x="f32"), fields(y="f32"), device="sim:1")
    steps = [
        TransferStep(0, 1, "sim", place(2)),
        call(first, [1], [2]),
        call(second, [2], [3]),
        TransferStep(3, 4, "cpu", place(4)),
    ]
    maker.pipeline("p", fields(x="f32"), fields(y="f32"), block([0], steps, [4]))
    engine = Engine(maker.plan(), EngineConfig(workers=1))
    told = r"stage `m1`.*`m1` is on sim:1, and the result of `m0` is in the memory of sim"
    with pytest.raises(Fault, match=told):
        engine.call(Request("p", {"x": np.float32(1)}))
    engine.close()


def test_memory_of_another_library_is_used_in_place_and_its_owner_kept(
    device: SimDevice, one: Stream
) -> None:
    class Owner:
        """Keeps the memory of another library."""

    owner = Owner()
    gone = weakref.ref(owner)
    view = device.wrap(1 << 15, (4,), F32, "theirs", owner, one)
    device.memory_at(view).view(F32)[:] = 7
    del owner
    assert gone() is not None
    assert device.download(view, "reader", one).tolist() == [7] * 4
    device.settle()
    del view
    assert gone() is None
    assert device.ledger.balanced
