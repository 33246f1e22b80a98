"""Queues of all policies with many requests at once, in orders that seeds choose: every request has
one answer, the right one, within its bounds, and leaves nothing behind."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from headrace.compiler.plan import (
    Batching,
    ModelSegment,
    OpSegment,
    PipelinePlan,
    Queueing,
    Service,
    TogetherStep,
    TryStep,
)
from headrace.compiler.policies import Priorities
from headrace.runtime.admission import Intake
from headrace.runtime.request import Code, Request
from headrace.runtime.simulate import Outcome, Simulation
from tests.runtime.plans import PlanMaker, block, call, fields, place
from tests.runtime.thousands import THOUSANDS

SOURCE = """
def plus(xs):
    if (xs == 13).any():
        raise ValueError("thirteen")
    return xs + 1

def twice(xs):
    return xs * 2

def less(x):
    return x - 1
"""
F32 = fields(x="f32")
PLUS, TWICE, LESS = 0, 1, 2
RIGHT: dict[str, Callable[[float], set[float]]] = {
    "short": lambda x: {x + 1},
    "long": lambda x: {((x + 1) * 2 - 1) * 2},
    "tried": lambda x: {x + 1, x - 1},
    "forked": lambda x: {(x + 1) * 2},
}


def queueing(draw: random.Random, levels: int) -> Queueing | None:
    def one() -> Queueing:
        timeout = draw.choice([None, 0.005, 0.02])
        return Queueing(
            draw.randint(1, 12), timeout, draw.choice(["reject", "delay"]), draw.random() < 0.5
        )

    if draw.random() < 0.3:
        return None
    own = tuple((level, one()) for level in range(1, levels + 1) if draw.random() < 0.4)
    return replace(one(), levels=own)


def batching(draw: random.Random) -> Batching | None:
    if draw.random() < 0.2:
        return None
    maximum = draw.randint(1, 6)
    prefer = sorted({draw.randint(1, maximum) for _ in range(draw.randrange(3))})
    return Batching(maximum, draw.choice([0.0, 0.002, 0.01]), tuple(prefer))


def made(draw: random.Random) -> PlanMaker:
    """Three stages with policies, and pipelines that share them."""
    levels = draw.randint(1, 3)
    maker = PlanMaker()
    for name in ("plus", "twice", "less"):
        index = maker.python(
            name,
            SOURCE,
            F32,
            fields(y="f32"),
            batched=name != "less",
            batching=batching(draw),
            queueing=queueing(draw, levels),
        )
        segment = maker.segments[index]
        assert not isinstance(segment, ModelSegment | OpSegment)
        units = tuple((one, draw.randint(1, 2)) for one in "ab" if draw.random() < 0.3)
        own = Priorities(levels, draw.randint(1, levels)) if draw.random() < 0.5 else None
        service = Service(priority=own, resources=units)
        maker.segments[index] = replace(segment, service=service)
    pipelines(maker)
    maker.pipelines = [policed(draw, one, levels) for one in maker.pipelines]
    return maker


def policed(draw: random.Random, pipeline: PipelinePlan, levels: int) -> PipelinePlan:
    return replace(
        pipeline,
        queueing=queueing(draw, levels),
        priority=Priorities(levels, draw.randint(1, levels)) if draw.random() < 0.5 else None,
        deadline=draw.choice([None, None, 0.03]),
    )


def pipelines(maker: PlanMaker) -> None:
    results = fields(y="f32")
    maker.pipeline("short", F32, results, block([0], [call(PLUS, [0], [1])], [1]), batch=8)
    chain = [PLUS, TWICE, LESS, TWICE]
    steps = [call(stage, [i], [i + 1]) for i, stage in enumerate(chain)]
    maker.pipeline("long", F32, results, block([0], steps, [4]), batch=8)
    body = block([], [call(PLUS, [0], [1])], [1], captures=[(0, 0)])
    orelse = block([], [call(LESS, [0], [1])], [1], captures=[(0, 0)])
    attempt = TryStep(body, orelse, 0.004, (1,), place(4))
    maker.pipeline("tried", F32, results, block([0], [attempt], [1]), batch=8)
    left = block([], [call(PLUS, [0], [1]), call(TWICE, [1], [2])], [2], captures=[(0, 0)])
    right = block([], [call(LESS, [0], [1])], [1], captures=[(0, 0)])
    fork = TogetherStep((left, right), (1, 2), place(5))
    maker.pipeline("forked", F32, results, block([0], [fork], [1]), batch=8)


def asking(draw: random.Random, now: float) -> Request:
    values = np.array([draw.randrange(30) for _ in range(draw.randint(1, 7))], np.float32)
    deadline = now + draw.uniform(0.0, 0.06) if draw.random() < 0.3 else None
    return Request(
        draw.choice([*RIGHT]), {"x": values}, deadline=deadline, priority=draw.randrange(5)
    )


def check(maker: PlanMaker, request: Request, outcome: Outcome, cancelled: bool) -> None:
    assert outcome.answers == 1
    values = np.asarray(request.inputs["x"])
    if outcome.fault is None:
        assert outcome.outputs is not None
        given = np.asarray(outcome.outputs["y"])
        for value, one in zip(values.tolist(), given.tolist(), strict=True):
            assert one in RIGHT[request.pipeline](value)
        return
    allowed = {Code.OVERLOADED} | ({Code.CANCELLED} if cancelled else set())
    pipeline = next(one for one in maker.pipelines if one.name == request.pipeline)
    if request.deadline is not None or pipeline.deadline is not None:
        allowed.add(Code.DEADLINE)
    if 13 in values and request.pipeline != "tried":
        allowed.add(Code.FAILED)
    assert outcome.fault.code in allowed, outcome.fault
    if outcome.fault.code is Code.DEADLINE and outcome.at is not None and request.deadline:
        assert outcome.at <= request.deadline + 1e-9


def run(seed: int) -> None:
    draw = random.Random(seed)
    maker = made(draw)
    simulation = Simulation(
        maker.plan(),
        workers=draw.randint(1, 4),
        seed=seed,
        intake=Intake(draw.randint(2, 30), draw.choice([64, 1 << 20]), draw.random() < 0.7),
        cost=lambda _stage, _rows: draw.choice([0.0, 0.001, 0.004, 0.012]),
    )
    asked: list[tuple[Request, Outcome]] = []
    cancelled: set[int] = set()
    for index in range(draw.randint(5, 40)):
        request = asking(draw, simulation.now)
        asked.append((request, simulation.submit(request)))
        if draw.random() < 0.4:
            simulation.run(until=simulation.now + draw.uniform(0.0, 0.01))
        if draw.random() < 0.15:
            chosen = draw.randrange(index + 1)
            cancelled.add(chosen)
            simulation.cancel(asked[chosen][1])
    simulation.run()
    for index, (request, outcome) in enumerate(asked):
        check(maker, request, outcome, index in cancelled)
    assert simulation.leftovers == {}
    limits = {
        one.name: one.batching.maximum
        for one in maker.segments
        if not isinstance(one, OpSegment) and one.batching is not None
    }
    assert all(rows <= limits[name] for _, name, rows in simulation.runs if name in limits)
    simulation.close()


@pytest.mark.parametrize("block", range(2))
def test_all_policies_hold_in_random_order(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        run(seed)


@pytest.mark.parametrize("block", THOUSANDS)
def test_all_policies_hold_in_ten_thousand_orders(block: int) -> None:
    for seed in range(1000 + block * 1000, 2000 + block * 1000):
        run(seed)
