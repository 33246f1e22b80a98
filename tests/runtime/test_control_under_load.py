"""Control flow of many requests at once, in orders that seeds choose: every request has one answer,
the right one, and leaves nothing behind."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Fault, Request
from headrace.runtime.simulate import Outcome, Simulation
from headrace.stdlib.op import Item
from tests.runtime.thousands import THOUSANDS

FUNCTIONS = """
def big(xs):
    if (xs == 13).any():
        raise ValueError("thirteen")
    return -xs

def small(x):
    return x + 1000

def twice(xs):
    return xs * 2

def both(a, b):
    return a * 10000 + b
"""
PIPE = """
fn big(x: f32) -> (y: f32) = python "functions.py:big" batched pure
fn small(x: f32) -> (y: f32) = python "functions.py:small" pure
fn twice(x: f32) -> (y: f32) = python "functions.py:twice" batched pure
fn both(a: f32, b: f32) -> (y: f32) = python "functions.py:both" pure

pipeline tried(x: f32) -> (y: f32) { return y = try big(x) within 20ms else small(x) }

pipeline early(x: f32) -> (y: f32) {
    a = twice(x)
    return y = a when a > 20
    return y = twice(a)
}

pipeline looped(x: f32) -> (y: f32) {
    last = loop (v: f32 = x + 1) max 6 {
        next v = twice(v)
        stop when v > 20
    }
    return y = last
}

pipeline nested(rows: f32[N, M]) -> (y: f32[N, M]) {
    y = for row in rows {
        inner = for v in row { yield z = twice(v) }
        yield w = inner
    }
    return y
}

pipeline beside(x: f32) -> (y: f32) {
    a = try big(x) within 20ms else small(x)
    b = twice(twice(x))
    return y = both(a, b)
}

pipeline around(x: f32) -> (y: f32) {
    return y = try both(big(x), twice(x)) within 30ms else small(x)
}

pipeline chosen(x: f32) -> (y: f32) {
    return y = if x > 20 { both(twice(x), twice(twice(x))) } else { twice(x) }
}

pipeline sent(x: f32) -> stream (y: f32) {
    _ = loop (v: f32 = x) max 3 {
        emit y = both(twice(v), twice(v + 1))
        next v = v + 1
    }
}

schedule tried on "server"  { big { batch { max = 4, wait = 5ms } } }
schedule early on "server"  { twice { batch { max = 4, wait = 2ms } } }
schedule looped on "server" { twice { batch { max = 4, wait = 1ms } } }
schedule nested on "server" { twice { batch { max = 3, wait = 1ms, prefer = [2] } } }
schedule beside on "server" { big { batch { max = 4, wait = 5ms } }, twice { batch { max = 3 } } }
schedule around on "server" {
    big   { batch { max = 4, wait = 5ms }, queue { size = 2 } },
    twice { batch { max = 3, wait = 5ms } }
}
schedule sent on "server"   { twice { batch { max = 4, wait = 2ms } } }
"""


def beside(x: float) -> set[float]:
    return {a * 10000 + 4 * x for a in tried(x)}


def tried(x: float) -> set[float]:
    return {x + 1000} if x == 13 else {-x, x + 1000}


def around(x: float) -> set[float]:
    return {x + 1000} if x == 13 else {-x * 10000 + 2 * x, x + 1000}


def looped(x: float) -> set[float]:
    v, turns = x + 1, 0
    while turns < 6:
        v, stop, turns = 2 * v, v > 20, turns + 1
        if stop:
            break
    return {v}


RIGHT: dict[str, Callable[[float], set[float]]] = {
    "tried": tried,
    "early": lambda x: {2 * x if 2 * x > 20 else 4 * x},
    "looped": looped,
    "beside": beside,
    "around": around,
    "chosen": lambda x: {2 * x * 10000 + 4 * x if x > 20 else 2 * x},
}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder: Path = tmp_path_factory.mktemp("control")
    (folder / "functions.py").write_text(FUNCTIONS)
    (folder / "pipes.pipe").write_text(PIPE)
    return headrace.compile(folder / "pipes.pipe", schedule="server").plan


def asking(draw: random.Random, now: float) -> Request:
    name = draw.choice([*RIGHT, "nested", "sent"])
    value: object = float(draw.randrange(30))
    if name == "nested":
        value = np.full((draw.randrange(4), draw.randrange(4)), value, np.float32)
    key = "rows" if name == "nested" else "x"
    deadline = now + draw.uniform(0.0, 0.1) if draw.random() < 0.2 else None
    inputs = cast("dict[str, Item]", {key: value})
    return Request(name, inputs, deadline=deadline)


def check(request: Request, outcome: Outcome, cancelled: bool) -> None:
    """Assert that an outcome is the right one for a request."""
    assert outcome.answers == 1
    (value,) = request.inputs.values()
    if outcome.fault is not None:
        allowed = {Code.CANCELLED} if cancelled else set[Code]()
        if request.deadline is not None:  # or is not taken in, as it would not be in time
            allowed |= {Code.DEADLINE, Code.OVERLOADED}
        assert outcome.fault.code in allowed, outcome.fault
    elif request.pipeline == "sent":
        start = float(np.asarray(value))
        sent = [float(np.asarray(one["y"])) for one in outcome.emitted]
        assert sent == [2 * v * 10000 + 2 * (v + 1) for v in (start, start + 1, start + 2)]
    else:
        assert outcome.outputs is not None
        check_outputs(request, outcome.outputs["y"])


def check_outputs(request: Request, given: Item) -> None:
    (value,) = request.inputs.values()
    if request.pipeline == "nested":
        np.testing.assert_array_equal(given, np.asarray(value) * 2)
    else:
        assert float(np.asarray(given)) in RIGHT[request.pipeline](float(np.asarray(value)))


def run(plan: Plan, seed: int, requests: int = 12) -> None:
    """Send requests at random times to random workers, and take some of them back."""
    draw = random.Random(seed)
    simulation = Simulation(
        plan,
        workers=draw.randint(1, 5),
        seed=seed,
        cost=lambda _stage, _rows: draw.choice([0.0, 0.001, 0.010, 0.025]),
    )
    asked: list[tuple[Request, Outcome]] = []
    cancelled: set[int] = set()
    for index in range(requests):
        request = asking(draw, simulation.now)
        outcome = simulation.submit(request)
        outcome.room = 2 if request.pipeline == "sent" and draw.random() < 0.5 else None
        asked.append((request, outcome))
        if draw.random() < 0.5:
            simulation.run(until=simulation.now + draw.uniform(0.0, 0.02))
        if draw.random() < 0.2:
            chosen = draw.randrange(index + 1)
            cancelled.add(chosen)
            simulation.cancel(asked[chosen][1])
    simulation.run()
    for _, outcome in asked:
        if outcome.parked and not outcome.done:
            simulation.resume(outcome)
            simulation.run()
    for index, (request, outcome) in enumerate(asked):
        check(request, outcome, index in cancelled)
    scheduler = simulation._scheduler  # pyright: ignore[reportPrivateUsage] nothing may be left
    assert (simulation.in_flight, scheduler.started, scheduler.tasks()) == (0, 0, [])
    simulation.close()


@pytest.mark.parametrize("block", range(2))
def test_requests_of_all_kinds_end_well_in_random_order(plan: Plan, block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        run(plan, seed)


@pytest.mark.parametrize("block", THOUSANDS)
def test_requests_of_all_kinds_end_well_in_ten_thousand_orders(plan: Plan, block: int) -> None:
    for seed in range(1000 + block * 1000, 2000 + block * 1000):
        run(plan, seed)


@pytest.mark.slow
def test_thousands_of_requests_of_all_kinds_end_well_on_threads(plan: Plan) -> None:
    draw = random.Random(5)
    config = EngineConfig(workers=4, intra_op_threads=1, queue_size=3000)
    engine = Engine(plan, config)
    requests = [asking(draw, 1e12) for _ in range(3000)]
    futures = [engine.submit(request) for request in requests]
    cancelled = {index for index in range(0, 3000, 7) if futures[index].cancel()}
    for index, (request, future) in enumerate(zip(requests, futures, strict=True)):
        if index in cancelled:
            assert future.cancelled()
            continue
        try:
            outputs = future.result(60).outputs
        except Fault as fault:
            raise AssertionError(f"{request}: {fault}") from fault
        if request.pipeline == "sent":
            assert np.asarray(outputs["y"]).shape == (3,)
        else:
            check_outputs(request, outputs["y"])
    assert engine.drain(30)
    engine.close()
