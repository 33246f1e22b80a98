"""Plans on a simulated device: copies are those of the plan, and memory is used again."""

import numpy as np
import pytest
from hypothesis import given

from headrace.compiler.graph import Graph
from headrace.compiler.plan_walk import copies_of
from headrace.runtime.devices.sim import SimDevice
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Fault, Request
from headrace.runtime.rows import Value
from headrace.runtime.transfer import TransferStage
from tests.compiler.draw_graphs import FUNCTIONS, Drawn
from tests.compiler.evaluate import Evaluator
from tests.compiler.test_planner_random import TRIES, placed_graphs, planned, same
from tests.runtime.devices.copies import CheckedPipeline
from tests.runtime.plans import PlanMaker
from tests.runtime.test_sim_device import sim_chain


@TRIES
@given(placed_graphs())
@pytest.mark.slow
def test_random_graphs(made: tuple[Drawn, Graph]) -> None:
    drawn, graph = made
    wanted = Evaluator(FUNCTIONS).run(drawn.graph, *drawn.inputs)
    inputs = dict(zip((field.name for field in graph.signature.params), drawn.inputs, strict=True))
    plan = planned(graph)
    if not {"sim", "sim:1"} & {*copies_of(plan.pipelines[0].body)}:
        return
    for delay in (None, 3):
        checked = CheckedPipeline(plan, graph.name, delay=delay)
        answered = checked(inputs)
        assert all(map(same, wanted, answered.outputs.values()))
        checked.settle()
        assert checked.balanced
        checked.close()


def test_a_hundred_requests_allocate_no_more_than_one() -> None:
    maker = PlanMaker()
    sim_chain(maker)
    device = SimDevice()
    engine = Engine(maker.plan(), EngineConfig(workers=1, devices=(device,)))
    request = Request("chain", {"x": np.ones(100, np.float32)})
    engine.call(request)
    before = device.ledger
    for _ in range(100):
        engine.call(request)
    after = device.ledger
    assert after.allocations == before.allocations <= 4
    assert after.taken - before.taken == 400
    assert (after.h2d - before.h2d, after.d2h - before.d2h, after.d2d) == (100, 100, 0)
    assert after.syncs - before.syncs == 100
    assert device.stream().number == 6  # one of each stage came before: three models, two copies
    engine.close()
    assert device.ledger.balanced
    device.close()


def test_a_transfer_that_copies_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = PlanMaker()
    sim_chain(maker)
    checked = CheckedPipeline(maker.plan(), "chain")
    checked({"x": np.ones(2, np.float32)})
    move = TransferStage._move  # pyright: ignore[reportPrivateUsage] to copy once too often

    def twice(stage: TransferStage, value: Value) -> Value:
        move(stage, value)
        return move(stage, value)

    monkeypatch.setattr(TransferStage, "_move", twice)
    with pytest.raises(Fault, match="to sim"):
        checked({"x": np.ones(2, np.float32)})
