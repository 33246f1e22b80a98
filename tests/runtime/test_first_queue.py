"""Requests whose pipeline begins at a stage with a queue: they wait there, not in line."""

from collections.abc import Iterator

import numpy as np
import pytest

from headrace.compiler.plan import Batching, Queueing
from headrace.runtime.admission import Intake
from headrace.runtime.request import Code, Request
from headrace.runtime.simulate import Outcome, Simulation
from tests.runtime.plans import PlanMaker, block, call, fields

SOURCE = """
def first(xs):
    return xs + 1

def second(xs):
    return xs * 2
"""
F32 = fields(x="f32")


def pipeline(*stages: str, maximum: int = 4, **more: object) -> PlanMaker:
    """Stages with a queue each, one after the other."""
    maker = PlanMaker()
    for name in stages:
        batching = Batching(maximum, 0.0, ())
        maker.python(name, SOURCE, F32, fields(y="f32"), batched=True, batching=batching)
    steps = [call(i, [i], [i + 1]) for i in range(len(stages))]
    body = block([0], steps, [len(stages)])
    maker.pipeline("p", F32, fields(y="f32"), body, **more)  # type: ignore[arg-type]
    return maker


class Starts:
    def __init__(self) -> None:
        self.made: list[Simulation] = []

    def __call__(self, maker: PlanMaker, seed: int = 0, **more: object) -> Simulation:
        self.made.append(Simulation(maker.plan(), seed=seed, **more))  # type: ignore[arg-type]
        return self.made[-1]


@pytest.fixture
def starts() -> Iterator[Starts]:
    made = Starts()
    yield made
    for one in made.made:
        one.close()


def ask(simulation: Simulation, count: int, **more: object) -> list[Outcome]:
    return [
        simulation.submit(Request("p", {"x": np.float32(i)}, **more))  # type: ignore[arg-type]
        for i in range(count)
    ]


def busy(simulation: Simulation) -> Outcome:
    """Keep the one worker at a request, until the clock is moved."""
    (one,) = ask(simulation, 1)
    simulation.run(until=simulation.now)
    return one


def test_one_that_comes_before_the_worker_has_begun_meets_the_one_before_it(
    starts: Starts,
) -> None:
    simulation = starts(pipeline("first"))
    ask(simulation, 3)
    simulation.run()
    assert simulation.runs == [(0.0, "first", 3)]


def test_they_are_served_in_the_order_in_which_they_came(starts: Starts) -> None:
    simulation = starts(pipeline("first", maximum=1))
    outcomes = ask(simulation, 5)
    simulation.run()
    times = [one.at for one in outcomes]
    assert times == sorted(times, key=lambda at: at or 0.0)
    assert len(set(times)) == 5


def test_more_urgent_ones_go_first(starts: Starts) -> None:
    simulation = starts(pipeline("first", maximum=1))
    busy(simulation)
    (later,) = ask(simulation, 1, priority=2)
    (sooner,) = ask(simulation, 1, priority=1)
    simulation.run()
    assert sooner.at is not None
    assert later.at is not None
    assert sooner.at < later.at


@pytest.mark.parametrize("stages", [("first",), ("first", "second")])
def test_no_more_wait_than_may(starts: Starts, stages: tuple[str, ...]) -> None:
    maker = pipeline(*stages, maximum=1)
    simulation = starts(maker, intake=Intake(queue_size=6))
    busy(simulation)
    codes = [one.fault and one.fault.code for one in ask(simulation, 8)]
    assert codes == [None] * 6 + [Code.OVERLOADED] * 2
    simulation.run(until=simulation.now + 0.001)
    assert ask(simulation, 1)[0].fault is None
    simulation.run()
    assert simulation.leftovers == {}


def test_the_queue_that_a_pipeline_declares_is_its_line(starts: Starts) -> None:
    simulation = starts(pipeline("first", maximum=1, queueing=Queueing(1, None)))
    busy(simulation)
    assert [one.fault is None for one in ask(simulation, 2)] == [True, False]


def test_what_is_cancelled_before_it_begins_leaves_nothing(starts: Starts) -> None:
    simulation = starts(pipeline("first"))
    handed, *others = ask(simulation, 3)
    simulation.cancel(handed)
    simulation.cancel(others[0])
    (after,) = ask(simulation, 1)
    simulation.run()
    assert simulation.runs == [(0.0, "first", 2)]
    assert after.done
    assert simulation.leftovers == {}


def test_the_first_of_all_is_cancelled_when_the_next_comes(starts: Starts) -> None:
    simulation = starts(pipeline("first"))
    (handed,) = ask(simulation, 1)
    simulation.cancel(handed)
    busy(simulation)
    simulation.run()
    assert simulation.leftovers == {}


@pytest.mark.parametrize("seed", [0, 1])
def test_what_comes_of_one_batch_meets_again(starts: Starts, seed: int) -> None:
    simulation = starts(pipeline("first", "second"), seed=seed)
    outcomes = ask(simulation, 4)
    simulation.run()
    assert [(name, rows) for _, name, rows in simulation.runs] == [("first", 4), ("second", 4)]
    assert [float(np.asarray((one.outputs or {})["y"])) for one in outcomes] == [2, 4, 6, 8]
