"""Kernels on the simulated device: one launch, no copy, and what the references give."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from headrace.compiler.graph import Graph, Settings, Value
from headrace.compiler.kernel_file import read, to_bytes
from headrace.compiler.optimize import optimize
from headrace.compiler.plan import ModelSegment, Plan
from headrace.dsl.types import DType, TensorType
from headrace.runtime.devices.device import ResidencyError
from headrace.runtime.devices.sim import SimDevice
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.kernels.session import ResidentSession
from headrace.runtime.load_error import LoadError
from headrace.runtime.request import Request
from headrace.runtime.stage import StageError
from headrace.stdlib.op import Array
from tests.compiler.graphs import Maker, layer, tensor
from tests.compiler.kernels.made import kernel_of
from tests.compiler.test_planner_random import planned
from tests.runtime.devices.copies import CheckedPipeline

F32 = np.dtype(np.float32)
ON_SIM = Settings(name="s", device="sim")


def between(middle: Callable[[Maker, Value], Value], *, batch: bool = True) -> Graph:
    """Return two models on a device, with steps between them."""
    maker = Maker()
    maker.define("first", layer(1, batch=batch))
    maker.define("second", layer(2, batch=batch))
    x = maker.param("x", tensor(DType.F32, 4))
    return maker.graph(maker.call("second", middle(maker, maker.call("first", x))))


def bits(maker: Maker, x: Value) -> Value:
    whole = maker.op("math.bit_xor", maker.op("core.cast", x, DType.I32), 5)
    return maker.op("core.cast", maker.op("math.shift_left", whole, 1), DType.F32)


def on_sim(graph: Graph) -> Plan:
    return planned(optimize(replace(graph, settings=ON_SIM)).graph)


def on_cpu(graph: Graph, x: Array) -> Array:
    engine = Engine(planned(optimize(graph).graph), EngineConfig(workers=1))
    result = engine.call(Request("p", {"x": x})).outputs["r0"]
    engine.close()
    assert isinstance(result, np.ndarray)
    return result


def kernels(plan: Plan) -> list[ModelSegment]:
    return [
        one for one in plan.segments if isinstance(one, ModelSegment) and one.backend == "kernel"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("delay", [None, 3])
def test_a_chain_between_two_models_is_one_launch_and_no_copy(delay: int | None) -> None:
    graph, x = between(bits), np.array([1, -2, 300, 4.5], np.float32)
    plan = on_sim(graph)
    (kernel,) = kernels(plan)
    assert kernel.members == ("core.cast", "math.bit_xor", "math.shift_left")
    checked = CheckedPipeline(plan, "p", delay=delay)
    answered = checked({"x": x})
    np.testing.assert_array_equal(answered.outputs["r0"], on_cpu(graph, x))
    ledger = checked.device.ledger
    assert (ledger.launches, ledger.h2d, ledger.d2h, ledger.d2d) == (1, 1, 1, 0)
    assert checked.device.stages[kernel.name].launches == 1
    checked.close()


@pytest.mark.slow
def test_rows_that_run_together_are_one_launch() -> None:
    graph = replace(between(bits), batch=8)
    device = SimDevice()
    engine = Engine(on_sim(graph), EngineConfig(workers=1, devices=(device,)))
    rows = np.random.default_rng(0).integers(-99, 99, (5, 4)).astype(np.float32)
    found = engine.call(Request("p", {"x": rows})).outputs["r0"]
    assert device.ledger.launches == 1
    engine.close()
    device.close()
    np.testing.assert_array_equal(found, [on_cpu(between(bits), row) for row in rows])


@pytest.fixture
def session() -> Iterator[tuple[SimDevice, ResidentSession]]:
    maker = Maker()
    kind = TensorType(DType.F32, (maker.size("n"),))
    x, y = maker.param("x", kind), maker.param("y", kind)
    device = SimDevice()
    yield device, ResidentSession(kernel_of(maker, maker.op("math.add", x, y)), ["x", "y"], device)
    device.close()


def test_a_result_of_no_elements_is_no_launch(session: tuple[SimDevice, ResidentSession]) -> None:
    device, opened = session
    stream = device.stream()
    empty = device.upload(np.empty((1, 0), np.float32), "up", stream)
    (made,) = opened.run_on_device({"x": empty, "y": empty}, [(None, F32)], "k", stream)
    assert made.shape == (1, 0)
    assert device.ledger.launches == 0


def test_sizes_that_do_not_go_together_are_an_error(
    session: tuple[SimDevice, ResidentSession],
) -> None:
    device, opened = session
    stream = device.stream()
    x, y = (device.upload(np.ones((1, n), np.float32), "up", stream) for n in (3, 4))
    with pytest.raises(StageError, match=r"shapes \[3\], \[4\] do not go together"):
        opened.run_on_device({"x": x, "y": y}, [(None, F32)], "k", stream)
    with pytest.raises(StageError, match="results are"):
        opened.run_on_device({"x": x, "y": x}, [((1, 4), F32)], "k", stream)
    (made,) = opened.run_on_device({"x": x, "y": x}, [((1, 3), F32)], "k", stream)
    np.testing.assert_array_equal(device.download(made, "down", stream), [[2, 2, 2]])


def test_what_a_kernel_reads_must_have_been_written(
    session: tuple[SimDevice, ResidentSession],
) -> None:
    device, opened = session
    stream = device.stream()
    x = device.allocate((1, 3), F32, "nobody", stream)
    with pytest.raises(ResidencyError, match="nobody"):
        opened.run_on_device({"x": x, "y": x}, [(None, F32)], "k", stream)


def test_what_is_no_kernel_is_refused() -> None:
    plan = on_sim(between(bits))
    (kernel,) = kernels(plan)
    good = read(dict(plan.blobs)[kernel.model])
    assert read(to_bytes(good)) == good
    walk = replace(good.walks[0], loops=(9,))
    for wrong in (
        b"{",
        b"{}",
        to_bytes(replace(good, outer=0)),
        to_bytes(replace(good, walks=(walk,))),
        to_bytes(replace(good, inputs=(DType.F32, DType.F32))),
    ):
        with pytest.raises(ValueError, match=r"kernel|JSON|Expecting"):
            read(wrong)


def test_a_machine_without_a_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LoadError, match="there is none") as caught:
        Engine(on_sim(between(bits)), EngineConfig(workers=1))
    assert caught.value.help == "install g++ or clang++"
