"""A state that a device's model makes and reads stays there until its sequence is forgotten."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.devices.ledger import Ledger
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import InSequence, Request

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
