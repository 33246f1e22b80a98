"""No worker is woken for a caller who runs his requests himself, and nobody who does otherwise is
forgotten."""

import asyncio
import math
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.bell import COMES, Bell
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Fault, Request, Response
from headrace.runtime.threads import Workers
from headrace.stdlib.op import Array
from tests.runtime.behaviour_pipes import compiled
from tests.runtime.drivers import LONG, switching

HUB = "hub_of_bells"
FUNCTIONS = f"import {HUB} as hub\n\ndef add(x):\n    return hub.add(x)\n"
PIPE = """
fn add(x: f32) -> (y: f32) = python "functions.py:add" batched
pipeline p(x: f32) -> (y: f32) { return y = add(x) }
schedule p on "server" { add { batch { max = 4, wait = 1ms } } }
"""
Asked = Future[Response]


class Hub(ModuleType):
    """`rows` is released once for each row that has run."""

    def __init__(self) -> None:
        super().__init__(HUB)
        self.rows = threading.Semaphore(0)

    def add(self, x: Array) -> Array:
        self.rows.release(len(x))
        return np.add(x, 1)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder: Path = tmp_path_factory.mktemp("bells")
    sys.modules[HUB] = Hub()
    try:
        return compiled(folder, PIPE, FUNCTIONS)
    finally:
        del sys.modules[HUB]


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = Hub()
    sys.modules[HUB] = made
    yield made
    del sys.modules[HUB]


@pytest.fixture(params=[1, 2])
def engine(plan: Plan, hub: Hub, request: pytest.FixtureRequest) -> Iterator[Engine]:
    del hub
    made = Engine(plan, EngineConfig(workers=request.param, intra_op_threads=1))
    yield made
    made.close()


@pytest.fixture
def patient(plan: Plan, hub: Hub) -> Iterator[Engine]:
    """An engine that leaves a request to its caller, for ever, where it does not ring: its only
    worker watches then, and no other is about to wake."""
    del hub
    made = Engine(plan, EngineConfig(workers=1, intra_op_threads=1))
    workers(made)._bell = Bell(math.inf, math.inf)  # pyright: ignore[reportPrivateUsage] times are fixed
    yield made
    made.close()


def workers(engine: Engine) -> Workers:
    return engine._crew.started()  # pyright: ignore[reportPrivateUsage] what they are at is told nowhere


def owed(engine: Engine) -> bool:
    return workers(engine)._bell.owed  # pyright: ignore[reportPrivateUsage] likewise


def ask(engine: Engine, x: float, **more: object) -> Asked:
    return engine.submit(Request("p", {"x": np.float32(x)}, **more))  # type: ignore[arg-type]


def number(response: Response) -> float:
    return float(np.asarray(response.outputs["y"]))


def unrung(engine: Engine, hub: Hub, x: float) -> Asked:
    """Ask for things, and come for them, until nobody is woken for one."""
    for _ in range(10_000):  # once a worker watches, which is not at once
        asked = ask(engine, x)
        if owed(engine):
            return asked
        assert number(asked.result()) == x + 1
        assert hub.rows.acquire(timeout=LONG)
    raise AssertionError("a worker is woken for every request")


def left(engine: Engine) -> dict[str, int]:
    assert engine.drain(LONG)
    assert engine.settle(LONG)
    return workers(engine)._scheduler.leftovers()  # pyright: ignore[reportPrivateUsage] likewise


def test_it_rings_until_somebody_watches() -> None:
    bell = Bell(period=1, silence=10)
    assert not bell.watch(0)
    assert not bell.is_needless(0)
    assert bell.watch(0)
    assert not bell.watch(0)
    assert bell.is_needless(0.5)
    assert bell.owed


def test_who_watches_looks_when_a_caller_is_late() -> None:
    bell = Bell(period=1, silence=10)
    assert not bell.is_needless(0)
    assert bell.watch(0)
    assert bell.next_look(0) == 1
    assert bell.is_needless(0.25)
    assert bell.next_look(1) == 1.25
    bell.begin()
    assert bell.next_look(1.25) == 2.25
    assert bell.is_needless(1.5)
    assert bell.next_look(2.25) == 2.5
    assert bell.next_look(2.5) is None
    assert not bell.owed
    assert not bell.is_needless(2.5)


def test_who_watches_stops_in_silence_and_when_it_rings() -> None:
    bell = Bell(period=1, silence=10)
    assert not bell.is_needless(0)
    assert bell.watch(9.5)
    assert bell.next_look(9.5) == 10.5
    assert bell.next_look(10.5) is None
    assert not bell.is_needless(11)
    assert bell.watch(11)
    assert bell.is_needless(11)
    bell.ring()
    assert not bell.owed
    assert bell.next_look(11) is None
    with ThreadPoolExecutor(1) as another:
        assert another.submit(bell.watch, 11).result(LONG)
    assert bell.next_look(11) is None  # it is another that watches now


def test_a_request_whose_caller_never_comes_is_answered(engine: Engine, hub: Hub) -> None:
    for x in range(3):
        unrung(engine, hub, x)
        assert hub.rows.acquire(timeout=LONG)
    assert left(engine) == {}


def test_who_did_not_come_is_rung_for(engine: Engine, hub: Hub) -> None:
    asked = unrung(engine, hub, 0)
    assert hub.rows.acquire(timeout=LONG)
    assert number(asked.result()) == 1
    for x in range(COMES):
        asked = ask(engine, x)
        assert not owed(engine)
        assert number(asked.result()) == x + 1


def by_callback(asked: Asked) -> Response:
    told: Future[Asked] = Future()
    asked.add_done_callback(told.set_result)
    return told.result(LONG).result()


def by_loop(asked: Asked) -> Response:
    async def await_it() -> Response:
        return await asyncio.wait_for(asyncio.wrap_future(asked), LONG)

    return asyncio.run(await_it())


def by_another_thread(asked: Asked) -> Response:
    with ThreadPoolExecutor(1) as another:
        return another.submit(asked.result).result(LONG)


def by_fault(asked: Asked) -> Response:
    assert asked.exception(LONG) is None
    return asked.result()


WAYS: dict[str, Callable[[Asked], Response]] = {
    "result": lambda asked: asked.result(),
    "result in time": lambda asked: asked.result(LONG),
    "exception": by_fault,
    "callback": by_callback,
    "wait": lambda asked: wait([asked], LONG).done.pop().result(),
    "as_completed": lambda asked: next(as_completed([asked], LONG)).result(),
    "asyncio": by_loop,
    "another thread": by_another_thread,
}


@pytest.mark.parametrize("way", WAYS)
def test_who_waits_in_any_way_is_answered_at_once(patient: Engine, hub: Hub, way: str) -> None:
    asked = unrung(patient, hub, 5)
    assert number(WAYS[way](asked)) == 6
    assert left(patient) == {}


def test_who_looks_whether_it_is_done_sees_it_done(patient: Engine, hub: Hub) -> None:
    asked = unrung(patient, hub, 5)
    asked.done()
    assert not owed(patient)
    assert hub.rows.acquire(timeout=LONG)
    assert left(patient) == {}
    assert asked.done()


def test_a_second_request_before_the_first_is_begun_rings_for_both(
    patient: Engine, hub: Hub
) -> None:
    with ThreadPoolExecutor(1) as another:
        assert number(another.submit(lambda: unrung(patient, hub, 0).result()).result(LONG)) == 1
        assert hub.rows.acquire(timeout=LONG)
        for here in (True, False):
            unrung(patient, hub, 0)
            _ = ask(patient, 1) if here else another.submit(ask, patient, 1).result(LONG)
            assert not owed(patient)
            for _ in range(2):
                assert hub.rows.acquire(timeout=LONG)
            assert patient.settle(LONG)
    assert left(patient) == {}


def test_a_request_with_a_deadline_is_rung_for(patient: Engine, hub: Hub) -> None:
    assert number(unrung(patient, hub, 0).result()) == 1
    assert hub.rows.acquire(timeout=LONG)
    ask(patient, 1, deadline=patient.config.clock() + LONG)
    assert not owed(patient)
    assert hub.rows.acquire(timeout=LONG)
    assert left(patient) == {}


def test_a_cancelled_request_leaves_nothing(patient: Engine, hub: Hub) -> None:
    for x in range(3):
        assert unrung(patient, hub, x).cancel()
        assert not hub.rows.acquire(blocking=False)
        assert number(ask(patient, x).result()) == x + 1
        assert hub.rows.acquire(timeout=LONG)
    assert left(patient) == {}


def test_closing_ends_it_and_draining_answers_it(plan: Plan, hub: Hub) -> None:
    for drains in (False, True):
        engine = Engine(plan, EngineConfig(workers=2, intra_op_threads=1))
        if not drains:
            workers(engine)._bell = Bell(math.inf, math.inf)  # pyright: ignore[reportPrivateUsage] as above
        asked = unrung(engine, hub, 0)
        if drains:
            assert engine.drain(LONG)
        engine.close()
        failed = asked.exception(LONG)
        if failed is not None:  # a worker may be quicker than who closes
            assert not drains
            assert isinstance(failed, Fault)
            assert failed.code is Code.UNAVAILABLE


def test_an_app_whose_plan_is_replaced_answers_it(plan: Plan, hub: Hub) -> None:
    with headrace.load(plan, workers=2, intra_op_threads=1) as app:
        engine = app.workers_engine()
        unrung(engine, hub, 0)
        app.update(plan)
        assert hub.rows.acquire(timeout=LONG)
        assert app.p.submit(x=1).result().y == 2


def test_threads_that_come_and_that_do_not_are_all_answered(engine: Engine, hub: Hub) -> None:
    def come(first: int) -> bool:
        return all(number(ask(engine, x).result()) == x + 1 for x in range(first, first + 200))

    def go(first: int) -> bool:
        for x in range(first, first + 40):
            assert all(number(ask(engine, x).result()) == x + 1 for _ in range(COMES))
            told: Future[Asked] = Future()
            asked = ask(engine, x)
            if x % 2:
                asked.add_done_callback(told.set_result)
                assert number(told.result(LONG).result()) == x + 1
        return True

    with switching(), ThreadPoolExecutor(2) as pool:
        both = [pool.submit(come, 0), pool.submit(go, 1000)]
        assert [one.result(2 * LONG) for one in both] == [True, True]
    for _ in range(200 + 40 * (COMES + 1)):
        assert hub.rows.acquire(timeout=LONG)
    assert left(engine) == {}
