"""Rows of different size on a device: filled up and cut back there, and nothing crosses for it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from headrace.compiler.plan import Plan
from headrace.runtime.devices.device import DeviceError, View
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.devices.simulation.faults import Faults
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.padding import OnDevice
from headrace.runtime.request import Fault, Request
from headrace.runtime.simulate import Simulation
from headrace.runtime.stage import StageError
from headrace.stdlib.op import Item
from tests.runtime.padded_models import padded_plan

LENGTHS = (3, 5, 1, 5, 8)
F32 = np.dtype(np.float32)


def on(device: str, folder: Path) -> Plan:
    return padded_plan(
        folder, f"schedule many {{ mean {{ batch {{ max = 8, pad = L }}, device = {device} }} }}"
    )


def rows(lengths: Sequence[int]) -> list[Item]:
    return [np.arange(length, dtype=np.int64) % 16 for length in lengths]


@pytest.mark.parametrize("delay", [None, 0, 1])
def test_rows_of_different_length_meet_on_a_device(tmp_path: Path, delay: int | None) -> None:
    device = SimDevice(config=SimConfig(delay=delay, leaks=True))
    simulation = Simulation(on("sim", tmp_path), devices=(device,))
    outcome = simulation.submit(Request("many", {"rows": rows(LENGTHS)}))
    simulation.run()
    assert outcome.outputs is not None, outcome.fault
    assert [count for _, stage, count in simulation.runs if "mean" in stage] == [len(LENGTHS)]
    engine = Engine(on("cpu", tmp_path), EngineConfig(workers=1))
    there = engine.call(Request("many", {"rows": rows(LENGTHS)}))
    engine.close()
    np.testing.assert_array_equal(np.asarray(outcome.outputs["y"]), np.asarray(there.outputs["y"]))
    inside = sum(ledger.d2d for name, ledger in device.stages.items() if "mean" in name)
    assert inside >= len(LENGTHS)  # each row of each input that is filled up
    ups = {name for name, ledger in device.stages.items() if ledger.h2d or ledger.d2h}
    assert ups <= {"to sim", "to cpu"}
    del outcome
    device.settle()
    assert device.ledger.balanced
    simulation.close()
    device.close()


@pytest.mark.parametrize("failing", range(1, 16, 2))
def test_a_device_that_fails_while_rows_are_filled_up_fails_them_and_the_next_run(
    tmp_path: Path, failing: int
) -> None:
    faults = Faults(allocations=frozenset({failing}))
    device = SimDevice(config=SimConfig(faults=faults))
    engine = Engine(on("sim", tmp_path), EngineConfig(workers=1, devices=(device,)))
    request = Request("many", {"rows": rows((3, 5))})
    answers: list[np.ndarray] = []
    told: list[str] = []
    for _ in range(3):  # in one of which it fails, and only in that
        try:
            answers.append(np.asarray(engine.call(request).outputs["y"]))
        except Fault as fault:
            told.append(fault.message)
    assert len(answers) + len(told) == 3
    assert len(told) <= 1
    assert all("sim is out of memory" in one for one in told)
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])
    assert device.ledger.balanced
    engine.close()
    device.close()


@pytest.mark.parametrize("seed", range(30))
def test_what_is_filled_up_and_cut_back_is_as_it_was(seed: int) -> None:
    random = np.random.default_rng(seed)
    device = SimDevice(config=SimConfig(delay=seed if seed % 2 else None))
    streams = [device.stream() for _ in range(3)]
    rank = int(random.integers(1, 4))
    shape = tuple(int(one) for one in random.integers(1, 7, rank))
    dtype = random.choice(np.array(["f4", "i8", "u1", "f2", "?"]))
    arrays = [
        (random.random(tuple(int(random.integers(0, size + 1)) for size in shape)) * 9).astype(
            dtype
        )
        for _ in range(int(random.integers(1, 5)))
    ]
    views = [device.upload(one, "up", streams[i % 3]) for i, one in enumerate(arrays)]
    whole = device.fill_up(views, shape, 1, "m", streams[0])
    held = device.download(whole, "down", streams[1])
    for row, array in enumerate(arrays):
        wanted = np.ones(shape, array.dtype)
        wanted[tuple(map(slice, array.shape))] = array
        np.testing.assert_array_equal(held[row], wanted)
        back = device.cut(whole[row], array.shape, "m", streams[2])
        np.testing.assert_array_equal(device.download(back, "down", streams[0]), array)
        del back
    del views, whole
    assert device.ledger.balanced
    device.close()


def test_a_row_of_the_host_is_not_filled_up_on_a_device() -> None:
    device = SimDevice()
    space = OnDevice(device, "m", device.stream())
    with pytest.raises(StageError, match="a row is in the host's memory, and the model runs on s"):
        space.fill_up([np.ones(2, F32)], (3,), 0, F32)
    view: View = device.zeros((3,), F32, "m", device.stream())
    with pytest.raises(DeviceError):
        device.fill_up([view], (1 << 40,), 0, "m", device.stream())
    del view
    device.close()
