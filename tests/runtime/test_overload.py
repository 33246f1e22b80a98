"""Who waits, who runs, who is dropped and who refused: whole requests on a fake clock."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from headrace.compiler.plan import (
    Batching,
    ModelSegment,
    OpSegment,
    Plan,
    Queueing,
    Service,
    TryStep,
)
from headrace.compiler.policies import Priorities
from headrace.runtime.admission import Intake
from headrace.runtime.request import Code, Request
from headrace.runtime.scheduler import End
from headrace.runtime.simulate import Outcome, Simulation
from tests.runtime.plans import PlanMaker, block, call, fields, place

SOURCE = "def {name}(x):\n    return x + 1\n"
F32 = fields(x="f32")


class Stages(PlanMaker):
    """Stages that add one, and pipelines that call some of them one after the other."""

    def stage(
        self,
        name: str,
        *,
        batching: Batching | None = None,
        queueing: Queueing | None = None,
        **service: object,
    ) -> "Stages":
        index = self.python(
            name,
            SOURCE.format(name=name),
            F32,
            fields(y="f32"),
            batching=batching,
            queueing=queueing,
        )
        segment = self.segments[index]
        assert not isinstance(segment, ModelSegment | OpSegment)
        made = Service(**service)  # type: ignore[arg-type]
        self.segments[index] = replace(segment, service=made)
        return self

    def chain(self, name: str, *stages: int, **more: object) -> "Stages":
        steps = [call(stage, [i], [i + 1]) for i, stage in enumerate(stages)]
        body = block([0], steps, [len(stages)])
        self.pipeline(name, F32, fields(y="f32"), body, **more)  # type: ignore[arg-type]
        return self


COSTS = {"quick": 0.0, "slow": 1.0, "late": 0.25, "one": 1.0, "two": 1.0, "other": 1.0}


@pytest.fixture
def start() -> Iterator["Start"]:
    made = Start()
    yield made
    for one in made.opened:
        one.close()


class Timed(Simulation):
    """A simulation whose `costs` may be changed."""

    def __init__(
        self, plan: Plan, workers: int, intake: Intake | None, costs: dict[str, float]
    ) -> None:
        self.costs: Callable[[str, int], float] = lambda name, _rows: costs[name]
        super().__init__(
            plan, workers=workers, intake=intake, cost=lambda name, rows: self.costs(name, rows)
        )


class Start:
    def __init__(self) -> None:
        self.opened: list[Simulation] = []

    def __call__(
        self, maker: PlanMaker, workers: int = 1, intake: Intake | None = None, **costs: float
    ) -> Timed:
        plan = replace(maker.plan(), resources=getattr(maker, "resources", ()))
        made = Timed(plan, workers, intake, {**COSTS, **costs})
        self.opened.append(made)
        return made


def ask(simulation: Simulation, pipeline: str = "p", **more: object) -> Outcome:
    return simulation.submit(Request(pipeline, {"x": np.float32(0)}, **more))  # type: ignore[arg-type]


def at(outcome: Outcome) -> float:
    assert outcome.fault is None
    assert outcome.at is not None
    return outcome.at


# ---- waiting for company


def test_a_request_that_is_alone_does_not_wait_for_company(start: Start) -> None:
    simulation = start(Stages().stage("quick", batching=Batching(8, 5.0)).chain("p", 0))
    alone = ask(simulation)
    simulation.run()
    assert at(alone) == 0.0


def test_it_waits_while_another_may_still_come_and_no_longer(start: Start) -> None:
    maker = Stages().stage("slow").stage("quick", batching=Batching(8, 5.0)).chain("p", 0, 1)
    simulation = start(maker.chain("direct", 1), workers=2)
    coming, waiting = ask(simulation), ask(simulation, "direct")
    simulation.run(until=0.5)
    assert not waiting.done
    simulation.run()
    assert (at(coming), at(waiting)) == (1.0, 1.0)
    assert simulation.metrics.stage("quick").sizes == {2: 1}


def test_it_does_not_wait_for_one_that_has_passed(start: Start) -> None:
    maker = Stages().stage("quick", batching=Batching(8, 5.0)).stage("slow").chain("p", 0, 1)
    simulation = start(maker, workers=2)
    first = ask(simulation)
    simulation.run(until=0.5)
    second = ask(simulation)
    simulation.run()
    assert (at(first), at(second)) == (1.0, 1.5)


def test_it_does_not_wait_for_one_that_goes_elsewhere_or_is_cancelled(start: Start) -> None:
    maker = Stages().stage("slow").stage("quick", batching=Batching(8, 5.0))
    simulation = start(maker.chain("p", 0, 1).chain("direct", 1).chain("away", 0), workers=3)
    away, coming, waiting = ask(simulation, "away"), ask(simulation), ask(simulation, "direct")
    simulation.run(until=0.5)
    assert not waiting.done
    simulation.cancel(coming)
    simulation.run(until=0.5)
    assert at(waiting) == 0.5
    simulation.run()
    assert at(away) == 1.0


def test_a_deadline_that_is_near_is_not_waited_into(start: Start) -> None:
    maker = Stages().stage("slow").stage("late", batching=Batching(8, 5.0)).chain("p", 0, 1)
    simulation = start(maker.chain("direct", 1), workers=2, slow=9.0)
    for _ in range(8):
        ask(simulation, "direct", deadline=simulation.now + 5.0)
        simulation.run()  # it is known in the end that the stage takes a quarter of a second
    now = simulation.now
    ask(simulation)
    waiting = ask(simulation, "direct", deadline=now + 1.0)
    simulation.run()
    assert at(waiting) == pytest.approx(now + 1.0 - 0.125)  # half as much again is left for it


# ---- what cannot finish


def taught(start: Start, maker: Stages, **more: object) -> Simulation:
    """A simulation that has answered eight requests, and so knows what one takes."""
    simulation = start(maker, **more)  # type: ignore[arg-type]
    for _ in range(8):
        ask(simulation, deadline=simulation.now + 99.0)
        simulation.run()
    return simulation


def test_what_cannot_finish_is_dropped_before_it_runs(start: Start) -> None:
    simulation = taught(start, Stages().stage("slow").chain("p", 0))
    now = simulation.now
    busy, hopeless = ask(simulation), ask(simulation, deadline=now + 1.5)
    simulation.run()
    assert at(busy) == now + 1.0
    assert hopeless.fault is not None
    assert hopeless.fault.code is Code.DEADLINE
    assert "takes 1 s at the least" in hopeless.fault.message
    assert hopeless.at == now + 0.5  # the moment from which it could not be in time
    assert simulation.metrics.stage("slow").rows == 9


def test_what_could_just_finish_is_not_dropped(start: Start) -> None:
    simulation = taught(start, Stages().stage("slow").chain("p", 0))
    now = simulation.now
    ask(simulation)
    just = ask(simulation, deadline=now + 2.0 + 1e-6)
    simulation.run()
    assert at(just) == now + 2.0


def test_in_front_of_a_stage_the_time_that_is_left_counts(start: Start) -> None:
    maker = Stages().stage("quick").stage("slow", resources=(("place", 1),)).stage("late")
    maker.chain("p", 0, 1, 2)
    simulation = taught(start, maker, workers=4)
    now = simulation.now
    first = ask(simulation, deadline=now + 9.0)
    hopeless = ask(simulation, deadline=now + 2.2)  # it could begin at 1.0, and needs 1.25
    simulation.run()
    assert at(first) == now + 1.25
    assert hopeless.fault is not None
    assert (hopeless.fault.code, hopeless.fault.stage) == (Code.DEADLINE, "slow")
    assert hopeless.at == pytest.approx(now + 0.95)
    assert simulation.leftovers == {}


def test_where_nothing_is_predicted_it_runs_into_its_deadline(start: Start) -> None:
    intake = Intake(predict=False)
    simulation = taught(start, Stages().stage("slow").chain("p", 0), intake=intake)
    now = simulation.now
    ask(simulation)
    late = ask(simulation, deadline=now + 1.5)
    simulation.run()
    assert late.fault is not None
    assert late.at == now + 1.5
    assert simulation.metrics.stage("slow").rows == 10


def test_a_request_that_can_not_be_in_time_is_told_at_once(start: Start) -> None:
    simulation = taught(start, Stages().stage("slow").chain("p", 0))
    told = ask(simulation, deadline=simulation.now + 0.5)
    assert told.fault is not None
    assert told.fault.code is Code.DEADLINE
    assert told.at == simulation.now


@pytest.mark.parametrize("predict", [True, False])
def test_what_is_too_late_never_runs_although_nobody_has_been_told_yet(
    predict: bool, start: Start
) -> None:
    """Who looks after time limits is late himself: a worker that comes first must not run it."""
    maker = Stages().stage("slow").stage("quick", batching=Batching(8, 0.5)).chain("p", 0, 1)
    simulation = start(maker.chain("direct", 1), 3, Intake(predict=predict))
    ask(simulation)  # for which the others wait
    ask(simulation, "direct", deadline=0.6)
    simulation.run(until=0.1)
    scheduler = simulation._scheduler  # pyright: ignore[reportPrivateUsage] a worker of our own
    job = scheduler.next_job(0.7)
    assert isinstance(job, End)
    assert job.fault.code is Code.DEADLINE
    assert scheduler.next_job(0.7) is None  # and no other worker runs it before it is answered


def test_under_a_try_there_may_be_another_way_out(start: Start) -> None:
    maker = Stages().stage("slow", resources=(("place", 1),)).stage("quick")
    body = block([], [call(0, [0], [1])], [1], captures=[(0, 0)])
    orelse = block([], [call(1, [0], [1])], [1], captures=[(0, 0)])
    attempt = TryStep(body, orelse, 9.0, (1,), place(4))
    maker.pipeline("p", F32, fields(y="f32"), block([0], [attempt], [1]))
    simulation = taught(start, maker, workers=3)
    now = simulation.now
    ask(simulation)
    simulation.run(until=now + 0.1)
    waiting = ask(simulation, deadline=now + 1.5)
    simulation.run()
    assert waiting.fault is not None
    assert waiting.at == now + 1.5  # it was not dropped, but late


# ---- what is not taken in


def test_who_would_be_late_is_refused_and_told_when_to_come_again(start: Start) -> None:
    simulation = taught(start, Stages().stage("slow").chain("p", 0))
    for _ in range(9):
        ask(simulation)
    simulation.run()  # they have left the line a second after each other
    now = simulation.now
    for _ in range(4):
        ask(simulation)
    simulation.run(until=now + 2.5)
    refused = ask(simulation, deadline=now + 2.5 + 1.5)
    assert refused.fault is not None
    assert refused.fault.code is Code.OVERLOADED
    assert refused.at == now + 2.5
    assert refused.fault.retry_after is not None
    assert refused.fault.retry_after > 0
    assert "try again in" in refused.fault.message
    let_in = ask(simulation, deadline=now + 2.5 + 4.5)
    simulation.run()
    assert at(let_in) == now + 5.0
    assert simulation.leftovers == {}


def test_the_bytes_of_inputs_in_flight_are_bounded(start: Start) -> None:
    simulation = start(Stages().stage("slow").chain("p", 0), intake=Intake(bytes_in_flight=8))
    first, second, third = (ask(simulation) for _ in range(3))
    assert third.fault is not None
    assert third.fault.code is Code.OVERLOADED
    simulation.run()
    fourth = ask(simulation)
    simulation.run()
    assert [one.fault for one in (first, second, fourth)] == [None] * 3
    simulation.close()
    start.opened.remove(simulation)
    small = start(Stages().stage("slow").chain("p", 0), intake=Intake(bytes_in_flight=3))
    never = ask(small)
    assert never.fault is not None
    assert never.fault.code is Code.INVALID


@pytest.mark.parametrize("predict", [True, False])
def test_with_half_as_much_again_as_it_can_do_nearly_all_it_does_is_in_time(
    predict: bool, start: Start
) -> None:
    """Two workers, services of 0.5 to 1.5 s, three requests a second that are of use for 20 s."""
    draw = random.Random(4)
    simulation = start(Stages().stage("slow").chain("p", 0), 2, Intake(10_000, predict=predict))
    simulation.costs = lambda _name, _rows: draw.uniform(0.5, 1.5)
    asked: list[Outcome] = []
    while len(asked) < 1500:
        simulation.run(until=simulation.now + draw.expovariate(3.0))
        asked.append(ask(simulation, deadline=simulation.now + 20.0))
    seconds = simulation.now
    simulation.run()
    share = sum(one.fault is None for one in asked) / seconds / 2.0
    assert share >= 0.95 if predict else share < 0.5
    assert simulation.leftovers == {}


# ---- priorities


def test_the_default_and_what_is_no_level_are_served_as_declared(start: Start) -> None:
    maker = Stages().stage("slow").chain("p", 0)
    maker.pipelines[0] = replace(maker.pipelines[0], priority=Priorities(3, 2))
    simulation = start(maker)
    ask(simulation)
    simulation.run(until=0.5)
    low, none, unknown, high = (ask(simulation, priority=one) for one in (3, 0, 9, 1))
    simulation.run()
    assert [at(one) for one in (high, none, unknown, low)] == [2.0, 3.0, 4.0, 5.0]


def test_a_stage_may_have_levels_of_its_own(start: Start) -> None:
    maker = Stages().stage("quick")
    maker.stage("slow", resources=(("place", 1),), priority=Priorities(2, 2))
    simulation = start(maker.chain("p", 0, 1), workers=8)
    ask(simulation)
    simulation.run(until=0.5)
    none, high = ask(simulation), ask(simulation, priority=1)
    simulation.run()
    assert at(high) < at(none)


# ---- units of resources


def shared(*needs: tuple[tuple[str, int], ...]) -> Stages:
    """Pipelines `one`, `two` and `other`, of a stage each that takes these units."""
    maker = Stages()
    for index, (name, units) in enumerate(zip(("one", "two", "other"), needs, strict=False)):
        maker.stage(name, resources=units).chain(name, index)
    return maker


def test_a_stage_runs_only_when_its_units_are_free(start: Start) -> None:
    simulation = start(shared((("dsp", 1),), (("dsp", 1),), (("link", 1),)), workers=4)
    one, two, other = (ask(simulation, name) for name in ("one", "two", "other"))
    simulation.run()
    assert sorted([at(one), at(two)]) == [1.0, 2.0]
    assert at(other) == 1.0
    assert simulation.leftovers == {}


def test_two_units_let_two_run(start: Start) -> None:
    maker = shared((("dsp", 1),), (("dsp", 1),))
    maker.resources = (("dsp", 2),)  # type: ignore[attr-defined]
    simulation = start(maker, workers=4)
    outcomes = [ask(simulation, name) for name in ("one", "one", "two", "two")]
    simulation.run()
    assert sorted(map(at, outcomes)) == [1.0, 1.0, 2.0, 2.0]


def test_who_weighs_twice_as_much_runs_half_as_often(start: Start) -> None:
    maker = Stages()
    for index, (name, weight) in enumerate((("one", 2), ("two", 1))):
        maker.stage(name, resources=(("dsp", 1),), weight=weight).chain(name, index)
    simulation = start(maker, workers=4)
    outcomes = {name: [ask(simulation, name) for _ in range(30)] for name in ("one", "two")}
    simulation.run()
    early = [sum(at(one) <= 30.0 for one in outcomes[name]) for name in ("one", "two")]
    assert early == pytest.approx([10, 20], abs=1)
    assert simulation.leftovers == {}


def test_small_takers_that_keep_coming_do_not_starve_a_large_one(start: Start) -> None:
    simulation = start(shared((("dsp", 1),), (("dsp", 2),)), workers=8)
    small: list[Outcome] = []
    large: Outcome | None = None
    for turn in range(20):
        small.append(ask(simulation, "one"))
        if turn == 4:
            large = ask(simulation, "two")
        simulation.run(until=0.4 * (turn + 1))
    simulation.run()
    assert large is not None
    before = [one for one in small if at(one) <= at(large)]
    assert len(before) <= 6
    assert simulation.leftovers == {}
