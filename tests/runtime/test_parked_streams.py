"""A stream that waits for its reader is nobody's company: it does not come by itself."""

from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.runtime.request import Request
from headrace.runtime.simulate import Outcome, Simulation

SOURCE = """
fn add(x: f32) -> (y: f32) = python "s.py:add" batched

pipeline grow(n: i64) -> stream (y: f32) {
    loop (i: i64 = 0, v: f32 = 0) max n {
        w = add(v)
        emit y = w
        next i = i + 1, v = w
    }
}
pipeline once(x: f32) -> (y: f32) { return y = add(x) }

schedule grow { add { batch { max = 8, wait = 100s } } }
schedule once { add { batch { max = 8, wait = 100s } } }
"""


@pytest.fixture
def plan(tmp_path: Path) -> headrace.CompiledPlan:
    (tmp_path / "s.py").write_text("def add(x):\n    return x + 1\n")
    (tmp_path / "p.pipe").write_text(SOURCE)
    return headrace.compile(tmp_path / "p.pipe")


def once(simulation: Simulation) -> Outcome:
    return simulation.submit(Request("once", {"x": np.float32(1)}))


@pytest.mark.parametrize("seed", range(4))
def test_nobody_waits_for_a_stream_until_its_reader_has_made_room(
    plan: headrace.CompiledPlan, seed: int
) -> None:
    simulation = Simulation(plan.plan, seed=seed, workers=2)
    stream = simulation.submit(Request("grow", {"n": np.int64(9)}))
    stream.room = 3
    simulation.run()
    assert stream.parked
    alone = once(simulation)
    simulation.run()
    assert alone.at is not None
    assert alone.at < 1
    while not stream.done:
        simulation.resume(stream)
        beside = once(simulation)
        simulation.run()
        assert beside.at is not None
        assert beside.at < 1  # they meet
    assert [float(np.asarray(one["y"])) for one in stream.emitted] == list(range(1, 10))
    assert simulation.leftovers == {}
    simulation.close()


@pytest.mark.parametrize("parked", [True, False])
def test_one_that_is_given_up_is_expected_nowhere(
    plan: headrace.CompiledPlan, parked: bool
) -> None:
    simulation = Simulation(plan.plan, workers=1)
    stream = simulation.submit(Request("grow", {"n": np.int64(9)}))
    stream.room = 3
    simulation.run()
    if not parked:
        simulation.resume(stream)
    simulation.cancel(stream)
    simulation.run()
    assert simulation.leftovers == {}
    simulation.close()
