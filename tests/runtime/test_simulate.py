"""Queues, batches and time limits on a clock that only the test moves, in any interleaving."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.compiler.plan import Batching, EachStep, Queueing
from headrace.runtime.jobs import advance, run_batch
from headrace.runtime.request import Code, Request
from headrace.runtime.scheduler import GoOn, Run, Start
from headrace.runtime.simulate import Outcome, Simulation
from headrace.runtime.strands import Delivery
from headrace.runtime.task import Ticket
from tests.runtime.plans import PlanMaker, add_model, block, call, fields, kind, place

TOYS = """
import numpy as np

def double(xs):
    if (xs == 13).any():
        raise ValueError("thirteen")
    return xs * 2

def miscount(xs):
    return np.zeros(3, np.float32)

def slow(x):
    return x

def spread(x):
    return np.arange(int(x), dtype=np.float32)
"""
F32 = fields(x="f32")


def batched(
    *,
    function: str = "double",
    maximum: int = 8,
    wait: float = 0.0,
    prefer: tuple[int, ...] = (),
    queueing: Queueing | None = None,
    pipeline_queueing: Queueing | None = None,
    batch: int | None = None,
    deadline: float | None = None,
) -> PlanMaker:
    """slow(x), then the queued stage."""
    maker = PlanMaker()
    slow = maker.python("slow", TOYS, F32, fields(y="f32"))
    stage = maker.python(
        function,
        TOYS,
        F32,
        fields(y="f32"),
        batched=True,
        batching=Batching(maximum, wait, prefer),
        queueing=queueing,
    )
    maker.pipeline(
        "p",
        F32,
        fields(y="f32"),
        block([0], [call(slow, [0], [1]), call(stage, [1], [2])], [2]),
        batch=batch,
        deadline=deadline,
        queueing=pipeline_queueing,
    )
    return maker


@pytest.fixture
def simulations() -> Iterator[list[Simulation]]:
    opened: list[Simulation] = []
    yield opened
    for one in opened:
        one.close()


def ask(simulation: Simulation, *values: float, **more: object) -> list[Outcome]:
    return [
        simulation.submit(Request("p", {"x": value}, **more))  # type: ignore[arg-type, dict-item]
        for value in values
    ]


def numbers(outcomes: list[Outcome]) -> list[float | None]:
    return [
        None if one.outputs is None else float(np.asarray(one.outputs["y"])) for one in outcomes
    ]


def batches(simulation: Simulation, stage: str = "double") -> list[int]:
    return [rows for _, name, rows in simulation.runs if name == stage]


def test_b14_a_poisoned_row_fails_only_its_own_request(simulations: list[Simulation]) -> None:
    simulation = Simulation(batched(maximum=8, wait=1.0).plan(), workers=2)
    simulations.append(simulation)
    outcomes = ask(simulation, *range(10, 18))
    simulation.run()
    assert numbers(outcomes) == [20, 22, 24, None, 28, 30, 32, 34]
    assert batches(simulation) == [8]
    fault = outcomes[3].fault
    assert fault is not None
    assert (fault.code, fault.stage) == (Code.FAILED, "double")
    assert "ValueError: thirteen" in str(fault)
    assert simulation.metrics.stage("double").mixed == 1


def test_b15_a_function_that_miscounts_gives_no_one_anothers_rows(
    simulations: list[Simulation],
) -> None:
    plan = batched(function="miscount", maximum=4, wait=1.0, batch=4).plan()
    simulation = Simulation(plan, workers=1)
    simulations.append(simulation)
    outcomes = [
        simulation.submit(Request("p", {"x": np.zeros(rows, np.float32)})) for rows in (1, 2, 1)
    ]
    simulation.run()
    for outcome in outcomes:
        assert outcome.fault is not None
        assert "stage `miscount`" in str(outcome.fault)
        assert "`y` has 3 rows for a batch of" in str(outcome.fault)


def test_b18_two_requests_of_five_rows_are_two_runs_of_eight(
    simulations: list[Simulation],
) -> None:
    simulation = Simulation(batched(maximum=8, wait=0.5, batch=8).plan(), workers=1)
    simulations.append(simulation)
    for start in (0, 100):
        simulation.submit(Request("p", {"x": np.arange(start, start + 5, dtype=np.float32)}))
    simulation.run()
    assert batches(simulation) == [5, 5]


def test_b19_nine_single_rows_run_as_eight_and_one(simulations: list[Simulation]) -> None:
    simulation = Simulation(batched(maximum=8, wait=0.5, prefer=(4, 8)).plan(), workers=1)
    simulations.append(simulation)
    # while one worker is on its way with the first, all nine have arrived
    outcomes = ask(simulation, *range(100, 109))
    simulation.run()
    assert sum(batches(simulation)) == 9
    assert set(batches(simulation)) <= {4, 8, 1}
    assert numbers(outcomes) == [2 * value for value in range(100, 109)]


def test_b20_what_waits_too_long_is_told_on_time_and_never_runs(
    simulations: list[Simulation],
) -> None:
    plan = batched(pipeline_queueing=Queueing(16, 0.2, "reject")).plan()
    simulation = Simulation(
        plan, workers=1, cost=lambda stage, _rows: 5.0 if stage == "slow" else 0.0
    )
    simulations.append(simulation)
    first, second = ask(simulation, 1.0, 2.0)
    simulation.run()
    assert numbers([first]) == [2]
    assert second.fault is not None
    assert second.fault.code is Code.OVERLOADED
    assert second.at == pytest.approx(0.2)
    assert batches(simulation, "slow") == [1]


def test_b20_under_delay_it_is_served_after_those_that_have_not_waited_too_long(
    simulations: list[Simulation],
) -> None:
    plan = batched(maximum=1, pipeline_queueing=Queueing(16, 0.2, "delay")).plan()
    simulation = Simulation(plan, workers=1, cost=lambda _stage, _rows: 1.0)
    simulations.append(simulation)
    first, old = ask(simulation, 1.0, 2.0)
    simulation.run(until=0.9)
    (new,) = ask(simulation, 3.0)
    simulation.run()
    assert None not in numbers([first, old, new])
    assert first.at is not None
    assert new.at is not None
    assert old.at is not None
    assert first.at < new.at < old.at


def test_b21_the_bound_of_a_pipeline_is_exact(simulations: list[Simulation]) -> None:
    plan = batched(pipeline_queueing=Queueing(4, None, "reject")).plan()
    simulation = Simulation(plan, workers=1, cost=lambda _stage, _rows: 1.0)
    simulations.append(simulation)
    (busy,) = ask(simulation, 0.0)
    simulation.run(until=0.5)
    outcomes = ask(simulation, *range(1, 21))
    refused = [one for one in outcomes if one.done]
    assert len(refused) == 16
    assert all(one.fault is not None and one.fault.code is Code.OVERLOADED for one in refused)
    assert all(one.at == 0.5 for one in refused)
    simulation.run()
    assert numbers([busy, *outcomes[:4]]) == [0, 2, 4, 6, 8]


def test_b21_a_refusal_inside_ends_the_whole_request(simulations: list[Simulation]) -> None:
    maker = PlanMaker()
    stage = maker.onnx(
        "narrow",
        add_model(1.0),
        F32,
        fields(y="f32"),
        instances=1,
        queueing=Queueing(2, None, "reject"),
    )
    maker.pipeline("p", F32, fields(y="f32"), block([0], [call(stage, [0], [1])], [1]))
    simulation = Simulation(maker.plan(), workers=6, cost=lambda _stage, _rows: 1.0)
    simulations.append(simulation)
    (busy,) = ask(simulation, 0.0)
    simulation.run(until=0.5)
    outcomes = ask(simulation, *range(1, 6))
    simulation.run(until=0.6)
    refused = [one for one in outcomes if one.fault is not None]
    assert len(refused) == 3
    for one in refused:
        assert one.fault is not None
        assert (one.fault.code, one.fault.stage) == (Code.OVERLOADED, "narrow")
        assert one.at == 0.5
    simulation.run()
    assert busy.outputs is not None
    assert sum(one.outputs is not None for one in outcomes) == 2
    assert batches(simulation, "narrow") == [1, 1, 1]


def test_the_shorter_deadline_wins_and_late_work_is_not_run(
    simulations: list[Simulation],
) -> None:
    simulation = Simulation(
        batched(deadline=0.5).plan(),
        workers=1,
        cost=lambda stage, _rows: 0.4 if stage == "slow" else 0.2,
    )
    simulations.append(simulation)
    own = simulation.submit(Request("p", {"x": 1.0}, deadline=9.0))  # type: ignore[dict-item]
    short = simulation.submit(Request("p", {"x": 2.0}, deadline=0.1))  # type: ignore[dict-item]
    simulation.run()
    for outcome, at in ((own, 0.5), (short, 0.1)):
        assert outcome.fault is not None
        assert outcome.fault.code is Code.DEADLINE
        assert outcome.at == pytest.approx(at)
    assert batches(simulation, "slow") == [1]


def test_a_cancelled_request_gives_its_place_back(simulations: list[Simulation]) -> None:
    plan = batched(pipeline_queueing=Queueing(1, None, "reject")).plan()
    simulation = Simulation(plan, workers=1, cost=lambda _stage, _rows: 1.0)
    simulations.append(simulation)
    (first,) = ask(simulation, 1.0)
    simulation.run(until=0.5)
    (waiting,) = ask(simulation, 2.0)
    simulation.cancel(waiting)
    assert waiting.fault is not None
    assert waiting.fault.code is Code.CANCELLED
    (third,) = ask(simulation, 3.0)
    simulation.run()
    assert numbers([first, third]) == [2, 6]
    assert batches(simulation, "slow") == [1, 1]


def test_priority_one_is_served_first(simulations: list[Simulation]) -> None:
    plan = batched(maximum=1).plan()
    simulation = Simulation(plan, workers=1, cost=lambda _stage, _rows: 1.0)
    simulations.append(simulation)
    ask(simulation, 0.0)
    simulation.run(until=0.5)
    low, high = ask(simulation, 1.0, priority=5)[0], ask(simulation, 2.0)[0]
    simulation.run()
    assert high.at is not None
    assert low.at is not None
    assert high.at < low.at


def test_new_requests_are_started_first_when_that_fills_batches(
    simulations: list[Simulation],
) -> None:
    simulation = Simulation(batched(maximum=4).plan(), workers=1)
    simulations.append(simulation)
    ask(simulation, 1.0)
    simulation.run()  # now the engine knows that getting to the queue takes next to nothing
    ask(simulation, *range(8))
    simulation.run()
    assert batches(simulation)[1:] == [4, 4]


def test_the_item_to_blame_is_named_though_it_ran_in_a_later_batch(
    simulations: list[Simulation],
) -> None:
    maker = PlanMaker()
    source = "def check(x):\n    assert x != 6, 'six'\n    return x\n"
    check = maker.python("check", source, F32, fields(y="f32"), batching=Batching(4, 0.0, ()))
    maker.pipeline("p", F32, fields(y="f32"), block([0], [call(check, [0], [1])], [1]), batch=16)
    simulation = Simulation(maker.plan(), workers=2)
    simulations.append(simulation)
    outcome = simulation.submit(Request("p", {"x": np.arange(10, dtype=np.float32)}))
    simulation.run()
    assert outcome.fault is not None
    assert outcome.fault.item == (6,)


def test_a_request_of_which_two_batches_fail_goes_on_once(
    simulations: list[Simulation],
) -> None:
    simulation = Simulation(batched(maximum=2, batch=8).plan(), workers=2)
    simulations.append(simulation)
    outcome = simulation.submit(Request("p", {"x": np.full(4, 13, np.float32)}))
    scheduler = simulation._scheduler  # pyright: ignore[reportPrivateUsage] two jobs end in an order of ours
    tally = simulation._metrics.tally()  # pyright: ignore[reportPrivateUsage] likewise
    start = scheduler.next_job(0.0)
    assert isinstance(start, Start)
    ticket = advance(start.task, None, tally, lambda: 0.0, simulation)
    assert isinstance(ticket, Ticket)
    assert scheduler.strands.enqueue(ticket, 0.0, 2)
    runs = [scheduler.next_job(0.0) for _ in range(2)]
    for run in runs:
        assert isinstance(run, Run)
        for delivery in run_batch(run.queue.stage, run.batch, tally, 0.0):
            assert isinstance(delivery, Delivery)
            scheduler.strands.deliver(delivery, 0.0)
    assert isinstance(resumed := scheduler.next_job(0.0), GoOn)
    assert len(resumed.resumes) == 1
    assert scheduler.next_job(0.0) is None
    assert not outcome.done


def test_no_more_requests_are_started_than_a_few_batches_hold(
    simulations: list[Simulation],
) -> None:
    plan = batched(maximum=2, wait=9.0, prefer=(2,)).plan()
    simulation = Simulation(
        plan, workers=1, cost=lambda stage, _rows: 1.0 if stage == "double" else 0.0
    )
    simulations.append(simulation)
    ask(simulation, 1.0, 1.0)
    simulation.run()
    outcomes = ask(simulation, *range(30))
    most = 0
    while not all(one.done for one in outcomes):
        simulation.run(until=simulation.now + 0.5)
        started = simulation._scheduler.started  # pyright: ignore[reportPrivateUsage] not a metric
        most = max(most, started)
    assert most == 8


def fans(maximum: int) -> PlanMaker:
    """spread(x) -> for v in .. { double(v) }"""
    maker = batched(maximum=maximum, wait=0.01)
    spread = maker.python("spread", TOYS, F32, fields(y="f32[N]"))
    body = block([0], [call(1, [0], [1])], [1])
    each = EachStep((1,), body, False, (2,), (kind("f32[N]"),), place(4))
    maker.pipeline("fan", F32, fields(y="f32[N]"), block([0], [call(spread, [0], [1]), each], [2]))
    return maker


@given(
    seed=st.integers(0, 1 << 30),
    workers=st.integers(1, 4),
    maximum=st.integers(1, 9),
    sizes=st.lists(st.integers(0, 15), min_size=1, max_size=10),
    limits=st.lists(st.sampled_from([None, 0.0, 0.004, 0.02]), min_size=10, max_size=10),
    cancelled=st.sets(st.integers(0, 9), max_size=3),
)
def test_b16_every_request_gets_its_own_rows_in_any_interleaving(
    seed: int,
    workers: int,
    maximum: int,
    sizes: list[int],
    limits: list[float | None],
    cancelled: set[int],
) -> None:
    simulation = Simulation(fans(maximum).plan(), workers=workers, seed=seed)
    outcomes: list[Outcome] = []
    for index, size in enumerate(sizes):
        limit = limits[index]
        deadline = None if limit is None else simulation.now + limit
        outcomes.append(simulation.submit(Request("fan", {"x": size}, deadline=deadline)))  # type: ignore[dict-item]
        if index % 3 == 2:
            simulation.run(until=simulation.now + 0.001)
        if index in cancelled:
            simulation.cancel(outcomes[index])
    simulation.run()
    assert simulation.in_flight == 0
    for size, outcome, limit in zip(sizes, outcomes, limits, strict=False):
        assert outcome.answers == 1
        if outcome.fault is not None:
            poisoned = size > 13 and outcome.fault.code is Code.FAILED
            timely = (Code.DEADLINE, Code.OVERLOADED)  # known to be too late, or known before
            assert poisoned or outcome.fault.code in (*timely, Code.CANCELLED)
            assert outcome.fault.code not in timely or limit is not None
        else:
            assert outcome.outputs is not None
            expected = np.arange(size, dtype=np.float32) * 2
            np.testing.assert_array_equal(np.asarray(outcome.outputs["y"]), expected)
    assert all(rows <= maximum for rows in batches(simulation))
    simulation.close()
