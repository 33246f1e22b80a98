"""The simulated device: a second address space, a ledger that agrees with the plan."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper

from headrace.compiler.plan import BranchStep, EachStep, TransferStep
from headrace.runtime.devices import device_kinds, open_device
from headrace.runtime.devices.device import OutOfMemory, ResidencyError, Stream
from headrace.runtime.devices.ledger import Ledger
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.devices.simulation.memory import POISON
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.load_error import LoadError
from headrace.runtime.request import Fault, Request
from tests.runtime.plans import PlanMaker, add_model, block, call, fields, kind, model, place


@pytest.fixture
def device() -> Iterator[SimDevice]:
    opened = SimDevice(config=SimConfig(capacity=1 << 16))
    yield opened
    opened.close()


@pytest.fixture
def stream(device: SimDevice) -> Stream:
    return device.stream()


def test_devices_are_found_by_listing_their_folder() -> None:
    assert {"cpu", "sim", "gpu"} <= set(device_kinds())
    with pytest.raises(LoadError, match="asks for the device `npu:1`; this headrace has `cpu`"):
        open_device("npu:1")


@pytest.mark.parametrize(
    ("owner", "index", "name"),
    [("cpu", 0, "cpu"), ("sim", 0, "sim"), ("sim", 2, "sim:2"), ("gpu", 0, "gpu:0")],
)
def test_plans_call_a_device_by_its_kind_and_its_number(owner: str, index: int, name: str) -> None:
    kinds = device_kinds()
    assert kinds[owner].called(index) == name
    assert {one.name: one.index(name) for one in kinds.values() if one.index(name) is not None} == {
        owner: index
    }


@pytest.mark.parametrize("name", ["cpu:1", "gpu", "gpu:x", "sim:0", "cpu:"])
def test_a_name_that_no_kind_gives_a_device_is_none(name: str) -> None:
    assert all(kind.index(name) is None for kind in device_kinds().values())


def test_what_goes_up_comes_down_and_is_counted_for_who_asks(
    device: SimDevice, stream: Stream
) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    view = device.upload(array, "up", stream)
    np.testing.assert_array_equal(device.download(view, "down", stream), array)
    np.testing.assert_array_equal(device.download(view[1], "down", stream), array[1])
    ledger = device.ledger
    assert (ledger.h2d, ledger.h2d_bytes) == (1, 24)
    assert (ledger.d2h, ledger.d2h_bytes, ledger.syncs) == (2, 36, 2)
    up, down = device.stages["up"], device.stages["down"]
    assert (up.h2d, up.taken, up.allocations, up.live_bytes, up.d2h) == (1, 1, 1, 256, 0)
    assert (down.d2h, down.d2h_bytes, down.syncs, down.taken) == (2, 36, 2, 0)
    assert not ledger.balanced
    del view
    assert device.ledger.balanced
    assert device.stages["up"].returned == 1


def test_the_host_cannot_look_inside(device: SimDevice, stream: Stream) -> None:
    view = device.allocate((2,), np.dtype(np.float32), "detect", stream)
    for read in (np.asarray, bool, float, int, np.from_dlpack):
        with pytest.raises((ResidencyError, TypeError), match=r"detect|dlpack_device"):
            read(view)  # type: ignore[operator]


def test_a_stray_read_kills_the_process() -> None:
    code = (
        "import ctypes, numpy as np\n"
        "from headrace.runtime.devices.sim import SimDevice\n"
        "device = SimDevice()\n"
        "view = device.upload(np.zeros(4, np.float32), 'm', device.stream())\n"
        "ctypes.string_at(device.pointer(view), 4)\n"
    )
    process = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert process.returncode == -11


def test_memory_is_poisoned_used_again_and_bounded(device: SimDevice, stream: Stream) -> None:
    first = device.upload(np.zeros(1000, np.uint8), "first", stream)
    offset, memory = first.buffer.offset, device.memory_at(first)
    assert set(memory.tolist()) == {0}
    del first
    assert device.ledger.balanced
    assert set(memory.tolist()) == {POISON}
    second = device.allocate((1000,), np.dtype(np.uint8), "next", stream)
    assert second.buffer.offset == offset
    assert device.ledger.allocations == 1
    with pytest.raises(OutOfMemory) as caught:
        device.allocate((1 << 20,), np.dtype(np.uint8), "huge", stream)
    assert str(caught.value) == (
        "sim is out of memory: `huge` asks for 1048576 bytes, and 64512 are free"
    )
    assert (caught.value.asked, caught.value.free) == (1 << 20, (1 << 16) - 1024)


def test_idle_memory_is_given_back_before_there_is_too_little(
    device: SimDevice, stream: Stream
) -> None:
    for _ in range(2):
        views = [device.allocate((1 << 14,), np.dtype(np.uint8), "part", stream) for _ in range(4)]
        assert device.ledger.held_bytes == 1 << 16
        del views
        whole = device.allocate((1 << 16,), np.dtype(np.uint8), "whole", stream)
        assert device.ledger.held_bytes == whole.nbytes
        del whole
    device.pool.trim()
    ledger = device.ledger
    assert (ledger.allocations, ledger.releases, ledger.held_bytes) == (10, 10, 0)


def test_neighbours_in_one_buffer_are_stacked_without_a_copy(
    device: SimDevice, stream: Stream
) -> None:
    whole = device.upload(np.arange(8, dtype=np.float32).reshape(4, 2), "up", stream)
    rows = device.concat([whole[1], whole[2]], "m", stream)
    assert device.ledger.d2d == 0
    np.testing.assert_array_equal(device.download(rows, "down", stream), [[2, 3], [4, 5]])
    rows = device.concat([whole[2], whole[0]], "m", stream)
    assert (device.stages["m"].d2d, device.stages["m"].d2d_bytes) == (2, 16)
    np.testing.assert_array_equal(device.download(rows, "down", stream), [[4, 5], [0, 1]])
    with pytest.raises(ValueError, match=r"item 1 has shape \[4, 2\], but item 0 has \[2\]"):
        device.concat([whole[0], whole], "m", stream)


def test_neighbours_that_were_made_on_different_streams_are_both_waited_for(
    device: SimDevice, stream: Stream
) -> None:
    whole, other = device.zeros((2, 2), np.dtype(np.float32), "m", stream), device.stream()
    rows = [whole[0], whole[1]]
    device.launch("odd", other, (), (rows[1],), lambda: None)
    stacked = device.concat(rows, "m", stream)
    assert device.download(stacked, "down", device.stream()).tolist() == [[0, 0], [0, 0]]
    assert device.ledger.d2d == 2


def test_zeros_are_not_copied(device: SimDevice, stream: Stream) -> None:
    view = device.zeros((2, 3), np.dtype(np.float32), "blank", stream)
    np.testing.assert_array_equal(device.download(view, "down", stream), np.zeros((2, 3)))
    assert (device.ledger.h2d, device.ledger.d2d) == (0, 0)


def sim_chain(maker: PlanMaker, *, transfer_back: bool = True) -> None:
    """cpu -> three models on sim -> cpu"""
    stages = [
        maker.onnx(f"m{i}", add_model(i, "N"), fields(x="f32[N]"), fields(y="f32[N]"), device="sim")
        for i in (1, 2, 3)
    ]
    steps = [
        TransferStep(0, 1, "sim", place(2)),
        *(call(stage, [i + 1], [i + 2]) for i, stage in enumerate(stages)),
        *([TransferStep(4, 5, "cpu", place(6))] if transfer_back else []),
    ]
    maker.pipeline(
        "chain",
        fields(x="f32[N]"),
        fields(y="f32[N]"),
        block([0], steps, [5 if transfer_back else 4]),
    )


def sim_of(engine: Engine) -> SimDevice:
    device = engine._stages.device("sim")  # pyright: ignore[reportPrivateUsage] to see its ledger
    assert isinstance(device, SimDevice)
    return device


def copies(after: Ledger, before: Ledger) -> tuple[int, int, int]:
    return after.h2d - before.h2d, after.d2h - before.d2h, after.d2d - before.d2d


def test_a_chain_on_the_device_copies_once_in_and_once_out() -> None:
    maker = PlanMaker()
    sim_chain(maker)
    engine = Engine(maker.plan(), EngineConfig(workers=1))
    device = sim_of(engine)
    for size in (1, 7):
        before = device.ledger
        x = np.arange(size, dtype=np.float32)
        y = engine.call(Request("chain", {"x": x})).outputs["y"]
        np.testing.assert_array_equal(y, x + 6)
        assert copies(device.ledger, before) == (1, 1, 0)
        assert device.ledger.taken - before.taken == 4
        assert device.ledger.balanced
    engine.close()


def test_values_are_dropped_after_their_last_use() -> None:
    maker = PlanMaker()
    sim_chain(maker)
    body = maker.pipelines[0].body
    engine = Engine(maker.plan(), EngineConfig(workers=1))
    freeing = replace(body, last_uses=((0,), (1,), (2,), (3,), (4,)))
    maker.pipelines[0] = replace(maker.pipelines[0], body=freeing)
    sparing = Engine(maker.plan(), EngineConfig(workers=1))
    for one, most in ((engine, 4), (sparing, 2)):
        one.call(Request("chain", {"x": np.zeros(64, np.float32)}))
        assert sim_of(one).ledger.peak_bytes == most * 256
        one.close()


def test_a_result_that_is_not_brought_back_is_a_fault() -> None:
    maker = PlanMaker()
    sim_chain(maker, transfer_back=False)
    engine = Engine(maker.plan(), EngineConfig(workers=1))
    with pytest.raises(Fault, match="the result `y` is still in the memory of sim"):
        engine.call(Request("chain", {"x": np.zeros(2, np.float32)}))
    gc.collect()
    assert sim_of(engine).ledger.balanced
    engine.close()


def test_a_function_that_gets_device_memory_is_told_whose_it_is() -> None:
    maker = PlanMaker()
    first = maker.onnx("m", add_model(1.0), fields(x="f32"), fields(y="f32"), device="sim")
    second = maker.python("f", "def f(x):\n    return x + 1\n", fields(x="f32"), fields(y="f32"))
    steps = [TransferStep(0, 1, "sim", place(2)), call(first, [1], [2]), call(second, [2], [3])]
    maker.pipeline("p", fields(x="f32"), fields(y="f32"), block([0], steps, [3]))
    engine = Engine(maker.plan(), EngineConfig(workers=1))
    with pytest.raises(Fault, match=r"stage `f`.*the result of `m` is in the memory of sim"):
        engine.call(Request("p", {"x": 1.0}))  # type: ignore[dict-item]
    engine.close()


def test_the_items_of_a_loop_cross_in_one_copy_and_share_an_execution() -> None:
    maker = PlanMaker()
    stage = maker.onnx(
        "m", add_model(1.0, 2), fields(x="f32[2]"), fields(y="f32[2]"), device="sim", group=64
    )
    steps = [
        TransferStep(0, 1, "sim", place(2)),
        call(stage, [1], [2]),
        TransferStep(2, 3, "cpu", place(4)),
    ]
    each = EachStep((0,), block([0], steps, [3]), False, (1,), (kind("f32[N, 2]"),), place(2))
    maker.pipeline("p", fields(x="f32[N, 2]"), fields(y="f32[N, 2]"), block([0], [each], [1]))
    engine = Engine(maker.plan(), EngineConfig(workers=1))
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    np.testing.assert_array_equal(engine.call(Request("p", {"x": x})).outputs["y"], x + 1)
    ledger = sim_of(engine).ledger
    assert (ledger.h2d, ledger.d2h, ledger.d2d) == (1, 1, 0)
    assert engine.metrics.stage("m").sizes == {5: 1}
    engine.close()


@pytest.mark.parametrize("delay", [None, 0])
def test_a_result_of_unknown_size_stays_on_the_device(delay: int | None) -> None:
    nonzero = model(
        [helper.make_node("NonZero", ["x"], ["raw"]), helper.make_node("Shape", ["raw"], ["y"])],
        [("x", TensorProto.FLOAT, ["N"])],
        [("raw", TensorProto.INT64, [1, "M"]), ("y", TensorProto.INT64, [2])],
        {},
    )
    maker = PlanMaker()
    stage = maker.onnx(
        "m",
        nonzero,
        fields(x="f32[N]"),
        fields(raw="i64[1, M]", y="i64[2]"),
        input_axes=[None],
        output_axes=[None, None],
        device="sim",
    )
    steps = [
        TransferStep(0, 1, "sim", place(2)),
        call(stage, [1], [2, 3]),
        TransferStep(2, 4, "cpu", place(4)),
        TransferStep(3, 5, "cpu", place(4)),
    ]
    maker.pipeline(
        "p", fields(x="f32[N]"), fields(raw="i64[1, M]", y="i64[2]"), block([0], steps, [4, 5])
    )
    device = SimDevice(config=SimConfig(delay=delay))
    engine = Engine(maker.plan(), EngineConfig(workers=1, devices=(device,)))
    outputs = engine.call(Request("p", {"x": [1, 0, 2]})).outputs  # type: ignore[dict-item]
    np.testing.assert_array_equal(outputs["raw"], [[0, 2]])
    np.testing.assert_array_equal(outputs["y"], [1, 2])
    ledger = device.ledger
    assert (ledger.h2d, ledger.d2h, ledger.syncs) == (1, 2, 3)
    engine.close()


def test_failures_on_the_device_leave_no_memory_behind() -> None:
    maker = PlanMaker()
    sim_chain(maker)
    big = maker.onnx("m4", add_model(1.0, 3), fields(x="f32[3]"), fields(y="f32[3]"), device="sim")
    steps = [TransferStep(0, 1, "sim", place(2)), call(big, [1], [2])]
    maker.pipeline("wrong", fields(x="f32[N]"), fields(y="f32[N]"), block([0], steps, [2]))
    engine = Engine(maker.plan(), EngineConfig(workers=2))
    random = np.random.default_rng(0)
    futures = [
        engine.submit(Request("chain" if good else "wrong", {"x": np.ones(size, np.float32)}))
        for good, size in zip(random.random(60) < 0.5, random.integers(4, 40, 60), strict=True)
    ]
    errors = [future.exception(timeout=10) for future in futures]
    told = [str(error) for error in errors if error is not None]
    assert all("stage `m4`" in one for one in told)
    assert 0 < len(told) < 60
    del futures, errors
    assert engine.settle(20)
    gc.collect()
    assert sim_of(engine).ledger.balanced
    engine.close()


def test_a_branch_on_the_device_moves_nothing() -> None:
    maker = PlanMaker()
    stage = maker.onnx("m", add_model(1.0), fields(x="f32"), fields(y="f32"), device="sim", group=8)
    then = block([], [call(stage, [0], [1])], [1], captures=[(2, 0)])
    orelse = block([], [], [0], captures=[(2, 0)])
    steps = [
        TransferStep(0, 2, "sim", place(2)),
        BranchStep(1, then, orelse, (3,), place(3)),
        TransferStep(3, 4, "cpu", place(4)),
    ]
    maker.pipeline(
        "p", fields(x="f32", c="bool"), fields(y="f32"), block([0, 1], steps, [4]), batch=8
    )
    engine = Engine(maker.plan(), EngineConfig(workers=1))
    x = np.arange(4, dtype=np.float32)
    outputs = engine.call(Request("p", {"x": x, "c": np.array([1, 0, 1, 0], bool)})).outputs
    np.testing.assert_array_equal(outputs["y"], np.array([1, 1, 3, 3], np.float32))
    assert sim_of(engine).ledger.h2d == 1
    engine.close()
