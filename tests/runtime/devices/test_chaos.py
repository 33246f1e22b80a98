"""Devices that fail: each request has one outcome, nothing stays behind, and the next one runs.

Copies that fail, memory that runs out and devices that are lost for a while strike at every number
of an operation there is; under worker threads, and on the simulated driver in orders by seed.
"""

import gc
import threading
from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from functools import cache

import numpy as np
import pytest

from headrace.compiler.plan import Batching, Plan, TransferStep
from headrace.runtime.devices.device import DeviceError
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.devices.simulation.faults import NO_FAULTS, Faults
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Fault, Request, Response
from headrace.runtime.simulate import Outcome, Simulation
from tests.runtime.plans import PlanMaker, add_model, block, call, fields, place

REQUESTS = 12
TOLD = ("copy", "out of memory", "lost")


@cache
def chain() -> Plan:
    """cpu -> a model alone -> a model in batches of up to four -> cpu"""
    maker = PlanMaker()
    x, y = fields(x="f32[N]"), fields(y="f32[N]")
    first = maker.onnx("m1", add_model(1, "N"), x, y, device="sim")
    batching = Batching(4, 0.001, ())
    second = maker.onnx("m2", add_model(2, "N"), x, y, device="sim", batching=batching, group=4)
    steps = [
        TransferStep(0, 1, "sim", place(2)),
        call(first, [1], [2]),
        call(second, [2], [3]),
        TransferStep(3, 4, "cpu", place(5)),
    ]
    maker.pipeline("p", x, y, block([0], steps, [4]))
    return maker.plan()


def value(index: int) -> np.ndarray:
    return np.full(3, index, np.float32)


def check(outcomes: list[object], device: SimDevice) -> int:
    """Assert that each outcome is right or a fault that says what happened; return how many are."""
    failed = 0
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, Fault):
            failed += 1
            assert outcome.code is Code.FAILED
            assert outcome.stage in ("to sim", "m1", "m2", "to cpu")
            assert any(one in outcome.message for one in TOLD), outcome.message
            assert "sim" in outcome.message
        else:
            np.testing.assert_array_equal(outcome, value(index) + 3)
    device.settle()
    return failed


def get_over(device: SimDevice) -> None:
    """Let the device do things until nothing is left that is to go wrong, copies apart."""
    stream = device.stream()
    for _ in range(80):
        with suppress(DeviceError):
            device.zeros((1,), np.dtype(np.uint8), "time", stream)
    device.settle()


def outcome_of(future: Future[Response]) -> object:
    error = future.exception(timeout=20)
    return future.result().outputs["y"] if error is None else error


def result(outcome: Outcome) -> object:
    assert outcome.outputs is not None, outcome.fault
    return outcome.outputs["y"]


def kinds() -> list[Faults]:
    at = [1, 2, 3, 7, 12, 20]
    return [
        NO_FAULTS,
        *(Faults(copies=frozenset({n, n + 1})) for n in at),
        *(Faults(allocations=frozenset({n, n + 2})) for n in at),
        *(Faults(lost=range(n, n + 9)) for n in (1, 5, 20, 60)),
    ]


@pytest.mark.parametrize("delay", [None, 5])
@pytest.mark.parametrize("faults", kinds(), ids=str)
@pytest.mark.slow
def test_under_threads(faults: Faults, delay: int | None) -> None:
    device = SimDevice(config=SimConfig(faults=faults, delay=delay))
    engine = Engine(chain(), EngineConfig(workers=2, intra_op_threads=1, devices=(device,)))
    futures = [engine.submit(Request("p", {"x": value(i)})) for i in range(REQUESTS)]
    struck = check([outcome_of(future) for future in futures], device)
    assert struck == 0 or faults is not NO_FAULTS
    get_over(device)
    following = engine.call(Request("p", {"x": value(7)})).outputs["y"]
    np.testing.assert_array_equal(following, value(7) + 3)
    assert engine.settle(20)
    del futures
    gc.collect()
    assert device.ledger.balanced
    engine.close()
    device.close()


@pytest.mark.parametrize("faults", kinds(), ids=str)
@pytest.mark.slow
def test_on_the_simulated_driver(faults: Faults) -> None:
    struck = 0
    for seed in range(4):
        delay = seed if seed % 2 else None
        device = SimDevice(config=SimConfig(faults=faults, delay=delay))
        simulation = Simulation(chain(), workers=3, seed=seed, devices=(device,))
        outcomes = [simulation.submit(Request("p", {"x": value(i)})) for i in range(REQUESTS)]
        simulation.run()
        assert all(one.done for one in outcomes)
        struck += check([one.fault or result(one) for one in outcomes], device)
        get_over(device)
        following = simulation.submit(Request("p", {"x": value(7)}))
        simulation.run()
        np.testing.assert_array_equal(result(following), value(7) + 3)
        assert simulation.in_flight == 0
        del outcomes, following
        gc.collect()
        device.settle()
        assert device.ledger.balanced
        simulation.close()
        device.close()
    assert struck or faults is NO_FAULTS


def test_memory_that_runs_out_fails_who_asks_too_much_and_nobody_else() -> None:
    device = SimDevice(config=SimConfig(capacity=1 << 14))
    engine = Engine(chain(), EngineConfig(workers=2, intra_op_threads=1, devices=(device,)))
    sizes = [3, 1 << 13, 3, 1 << 13, 3, 3]
    futures = [engine.submit(Request("p", {"x": np.ones(size, np.float32)})) for size in sizes]
    for size, future in zip(sizes, futures, strict=True):
        error = future.exception(timeout=20)
        if size == 3:
            assert error is None
            continue
        assert isinstance(error, Fault)
        assert error.stage == "to sim"
        assert "sim is out of memory: `to sim` asks for 32768 bytes, and " in error.message
        assert error.message.endswith("are free")
    engine.close()
    device.close()


def test_memory_that_runs_out_in_a_stage_is_told_with_its_name() -> None:
    faults = Faults(allocations=frozenset({2}))
    device = SimDevice(config=SimConfig(capacity=1 << 14, faults=faults))
    engine = Engine(chain(), EngineConfig(workers=1, intra_op_threads=1, devices=(device,)))
    with pytest.raises(Fault) as caught:
        engine.call(Request("p", {"x": value(1)}))
    assert (caught.value.stage, caught.value.code) == ("m1", Code.FAILED)
    assert caught.value.message == (
        "sim is out of memory: `m1` asks for 12 bytes, and 16128 are free"
    )
    np.testing.assert_array_equal(
        engine.call(Request("p", {"x": value(7)})).outputs["y"], value(7) + 3
    )
    engine.close()
    device.close()


def test_a_batch_for_which_there_is_no_memory_runs_row_by_row() -> None:
    faults = Faults(allocations=frozenset({9}))  # after four inputs and four results of `m1`
    device = SimDevice(config=SimConfig(faults=faults))
    simulation = Simulation(chain(), workers=1, devices=(device,))
    outcomes = [simulation.submit(Request("p", {"x": value(i)})) for i in range(4)]
    simulation.run()
    assert check([one.fault or result(one) for one in outcomes], device) == 0
    assert [rows for _, stage, rows in simulation.runs if stage == "m2"] == [4]
    assert simulation.metrics.stage("m2").sizes == {4: 1, 1: 4}  # it was tried with all of them
    simulation.close()
    device.close()


@pytest.mark.slow
def test_a_device_that_stalls_holds_up_no_answer_longer_than_its_deadline() -> None:
    stalled, release = threading.Event(), threading.Event()

    def stall(_number: int, stage: str) -> None:
        if stage == "m1" and not release.is_set():
            stalled.set()
            release.wait(20)

    device = SimDevice(config=SimConfig(faults=Faults(stall=stall)))
    engine = Engine(chain(), EngineConfig(workers=2, intra_op_threads=1, devices=(device,)))
    clock = engine.config.clock
    late = engine.submit(Request("p", {"x": value(1)}, deadline=clock() + 0.5))
    assert stalled.wait(20)
    error = late.exception(timeout=20)
    assert isinstance(error, Fault)
    assert error.code is Code.DEADLINE
    assert not release.is_set()
    release.set()
    following = engine.submit(Request("p", {"x": value(7)})).result(timeout=20).outputs["y"]
    np.testing.assert_array_equal(following, value(7) + 3)
    assert engine.settle(20)
    del late, error
    gc.collect()
    assert device.ledger.balanced
    engine.close()
    device.close()


def test_a_stall_on_the_simulated_driver_is_over_at_the_deadline() -> None:
    stalls: Counter[str] = Counter()
    faults = Faults(stall=lambda _number, stage: stalls.update([stage]))
    device = SimDevice(config=SimConfig(faults=faults))
    simulation = Simulation(
        chain(),
        workers=2,
        devices=(device,),
        cost=lambda stage, _rows: 10.0 if stage == "m1" and stalls["m1"] < 4 else 0.001,
    )
    late = simulation.submit(Request("p", {"x": value(1)}, deadline=1.0))
    simulation.run()
    assert late.fault is not None
    assert late.fault.code is Code.DEADLINE
    assert late.at == 1.0
    del late  # which has its walk, and that its values
    for _ in range(2):
        following = simulation.submit(Request("p", {"x": value(7)}))
        simulation.run()
        np.testing.assert_array_equal(result(following), value(7) + 3)
    assert device.ledger.balanced
    simulation.close()
    device.close()
