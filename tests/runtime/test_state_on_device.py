"""A state that a device's model makes and reads stays there until its sequence is forgotten."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.devices.device import OutOfMemory
from headrace.runtime.devices.ledger import Ledger
from headrace.runtime.devices.sim import SimConfig, SimDevice
from headrace.runtime.devices.simulation.faults import Faults
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, InSequence, Request
from headrace.runtime.simulate import Outcome, Simulation

SOURCE = """
model add = onnx "add.onnx" (x: f32[2], s: f32[2]) -> (n: f32[2], y: f32[2])

pipeline sums(x: f32[2]) -> (y: f32[2]) per sequence {
    state s: f32[2] = zeros
    n, y = add(x, s)
    next s = NEXT
    return y = y
}

schedule sums {
    add { device = sim, batch { max = 8, wait = 50ms } }
}
"""


def write(folder: Path, becomes: str = "n") -> Path:
    names = ("x", "s", "n", "y")
    x, s, n, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 2]) for name in names
    )
    nodes = [helper.make_node("Add", ["x", "s"], ["n"]), helper.make_node("Neg", ["n"], ["y"])]
    graph = helper.make_graph(nodes, "add", [x, s], [n, y])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "add.onnx")
    (folder / "sums.pipe").write_text(SOURCE.replace("NEXT", becomes))
    return folder / "sums.pipe"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return headrace.compile(write(tmp_path)).plan


@pytest.fixture
def engine(plan: Plan) -> Iterator[Engine]:
    engine = Engine(plan, EngineConfig(workers=2, intra_op_threads=1))
    yield engine
    engine.close()


def asked(id: int, *, start: bool = False, end: bool = False) -> Request:
    return Request("sums", {"x": np.ones(2, np.float32)}, sequence=InSequence(id, start, end))


def ledger(engine: Engine) -> Ledger:
    """Return what the device has counted, with nothing in a worker's hands any more."""
    assert engine.settle(20)
    return engine._stages.device("sim").ledger  # pyright: ignore[reportPrivateUsage]


def moved(engine: Engine, before: Ledger) -> tuple[int, int]:
    """Return how many copies went to the device and back since then."""
    now = ledger(engine)
    return now.h2d - before.h2d, now.d2h - before.d2h


def test_a_state_is_kept_where_it_is_made_and_read(plan: Plan, tmp_path: Path) -> None:
    assert [state.device for state in plan.pipelines[0].states] == ["sim"]
    on_host = headrace.compile(write(tmp_path, "x")).plan
    assert [state.device for state in on_host.pipelines[0].states] == ["cpu"]
    unchanged = headrace.compile(write(tmp_path, "s")).plan
    assert [state.device for state in unchanged.pipelines[0].states] == ["sim"]


def test_between_requests_no_state_is_copied(engine: Engine) -> None:
    engine.call(asked(1, start=True))
    before = ledger(engine)
    for i in range(5):
        assert np.asarray(engine.call(asked(1)).outputs["y"]).tolist() == [-i - 2] * 2
    assert moved(engine, before) == (5, 5)  # what comes in, what is answered
    assert ledger(engine).d2d == before.d2d
    assert ledger(engine).live_bytes == before.live_bytes


def test_nor_where_sequences_meet_in_a_batch(engine: Engine) -> None:
    for id in range(8):
        engine.call(asked(id, start=True))
    before = ledger(engine)
    for round in range(3):
        pending = [engine.submit(asked(id)) for id in range(8)]
        for one in pending:
            assert np.asarray(one.result().outputs["y"]).tolist() == [-round - 2] * 2
    assert moved(engine, before) == (24, 24)


def test_memory_goes_back_when_a_sequence_is_forgotten(engine: Engine) -> None:
    for id in range(3):
        engine.call(asked(id, start=True))
    assert not ledger(engine).balanced
    engine.call(asked(0, end=True))
    engine.sequences["sums"].end(1)
    assert not ledger(engine).balanced
    engine.sequences["sums"].end(2)
    assert ledger(engine).balanced


def test_a_state_goes_from_engine_to_engine_by_way_of_the_host(plan: Plan) -> None:
    with headrace.load(plan, workers=3) as app:
        calls = app.sums.sequence()
        for i in range(0, 6, 2):
            assert calls(x=np.ones(2, np.float32)).y.tolist() == [-i - 1] * 2
            assert calls.submit(x=np.ones(2, np.float32)).result().y.tolist() == [-i - 2] * 2
        calls.end()


def test_a_state_that_is_made_in_a_batch_gets_memory_of_its_own(engine: Engine) -> None:
    for id in range(8):
        engine.call(asked(id, start=True))
    alone = ledger(engine).live_bytes
    pending = [engine.submit(asked(id)) for id in range(8)]
    for one in pending:
        one.result()
    assert ledger(engine).live_bytes == alone  # each its own, and nothing of the batch
    stages = engine._stages.device("sim").stages  # pyright: ignore[reportPrivateUsage]
    assert 0 < stages["to sim"].d2d <= 8
    for id in range(7):
        engine.call(asked(id, end=True))
    assert np.asarray(engine.call(asked(7)).outputs["y"]).tolist() == [-3, -3]


def test_blank_rows_beside_a_sequence_are_made_on_the_device(tmp_path: Path) -> None:
    path = write(tmp_path)
    direct = "    sequences { strategy = direct, slots = 3 }\n}\n"
    path.write_text(path.read_text().rstrip().removesuffix("}") + direct)
    device = SimDevice(config=SimConfig(copying=frozenset({"to sim", "to cpu"})))
    config = EngineConfig(workers=1, intra_op_threads=1, devices=(device,))
    engine = Engine(headrace.compile(path).plan, config)
    for turn in range(3):
        answer = engine.call(asked(1, start=turn == 0)).outputs["y"]
        assert np.asarray(answer).tolist() == [-turn - 1] * 2
    assert engine.metrics.stage("add").sizes == {3: 3}
    engine.close()
    device.close()


def test_a_request_whose_new_state_finds_no_memory_fails_and_leaves_the_old_one(plan: Plan) -> None:
    before, failing = "", False

    def strike(_number: int, stage: str) -> None:
        nonlocal before, failing
        own, before = stage == "to sim" and before == "to cpu", stage
        if own and failing:
            failing = False
            raise OutOfMemory("sim", stage, 8, 0)

    device = SimDevice(config=SimConfig(faults=Faults(stall=strike)))
    simulation = Simulation(plan, workers=1, devices=(device,))

    def ask(*, start: bool = False) -> list[Outcome]:
        outcomes = [simulation.submit(asked(id, start=start)) for id in range(2)]
        simulation.run()
        return outcomes

    def results(outcomes: list[Outcome]) -> list[float]:
        return sorted(np.asarray(one.outputs["y"])[0] for one in outcomes if one.outputs)

    assert results(ask(start=True)) == [-1, -1]
    failing = True
    outcomes = ask()
    (fault,) = [one.fault for one in outcomes if one.fault is not None]
    assert (fault.stage, fault.code) == ("to sim", Code.FAILED)
    assert "`to sim` asks for 8 bytes, and 0 are free" in fault.message
    assert results(outcomes) == [-2]
    assert results(ask()) == [-3, -2]
    simulation.close()
    device.close()
