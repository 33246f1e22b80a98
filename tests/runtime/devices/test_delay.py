"""A device that does things late: in the order of streams and events, and in no other."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from headrace.runtime.devices.device import DeviceError
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.devices.simulation.memory import POISON

F32 = np.dtype(np.float32)
ONES = np.ones(4, np.float32)


def late(seed: int = 0) -> SimDevice:
    return SimDevice(config=SimConfig(capacity=1 << 16, delay=seed))


def test_nothing_is_done_before_somebody_waits_for_it() -> None:
    device = late()
    stream = device.stream()
    array = ONES.copy()
    view = device.upload(array, "maker", stream)
    array[:] = 2  # after the call it is the caller's own
    device.settle()
    assert set(device.memory_at(view).view(F32).tolist()) == {1.0}
    other = device.upload(ONES, "maker", stream)
    assert set(device.memory_at(other).tolist()) != {POISON}  # not even that
    assert device.download(other, "reader", stream).tolist() == [1] * 4


def test_work_of_different_streams_is_done_in_any_order_that_events_allow() -> None:
    found: set[str] = set()
    for seed in range(40):
        device = late(seed)
        one, two = device.stream(), device.stream()
        done: list[str] = []
        a = device.zeros((4,), F32, "a", one)
        b = device.zeros((4,), F32, "b", two)
        for name in ("a1", "a2"):
            device.launch(name, one, (), (a,), partial(done.append, name))
        for name in ("b1", "b2"):
            device.launch(name, two, (), (b,), partial(done.append, name))
        device.launch("both", one, (a, b), (), partial(done.append, "both"))
        two.wait(one.record())
        device.launch("b3", two, (), (b,), partial(done.append, "b3"))
        device.settle()
        place = {name: index for index, name in enumerate(done)}
        assert place["a1"] < place["a2"] < place["both"]
        assert place["b1"] < place["b2"] < place["both"] < place["b3"]
        found.add(" ".join(done))
        device.close()
    assert len(found) > 3


def test_what_fails_takes_with_it_what_needs_it_and_nothing_else() -> None:
    device = late()
    one, two = device.stream(), device.stream()
    bad = device.upload(ONES, "maker", one)
    good = device.upload(ONES, "maker", one)
    spoilt = device.allocate((4,), F32, "next", two)

    def fail() -> None:
        raise ValueError("no such number")

    device.launch("model", one, (), (bad,), fail)
    device.launch("next", two, (bad,), (spoilt,), fail)
    with pytest.raises(DeviceError, match="`model` has failed on its device: no such number"):
        device.download(spoilt, "to cpu", two)
    assert device.download(good, "to cpu", one).tolist() == [1] * 4
    again = device.upload(ONES, "maker", one)
    assert device.download(again, "to cpu", one).tolist() == [1] * 4


def test_memory_is_written_again_only_behind_those_that_read_it() -> None:
    for seed in range(20):
        device = late(seed)
        one, two = device.stream(), device.stream()
        seen: list[float] = []
        view = device.upload(ONES, "maker", one)
        look: Callable[[], None] = partial(_look, seen, device.memory_at(view).view(F32))
        device.launch("reader", two, (view,), (), look)
        del view
        again = device.upload(ONES * 2, "next", one)
        assert device.ledger.allocations == 1
        device.settle()
        assert seen == [1.0]
        assert device.download(again, "to cpu", one).tolist() == [2.0] * 4


def _look(seen: list[float], memory: np.ndarray) -> None:
    seen.append(float(memory[0]))
