"""As many requests run at once as there are places, also where a stage waits for other requests."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Request, Response
from tests.runtime.behaviour_pipes import compiled
from tests.runtime.drivers import LONG, switching

HUB = "hub_of_places"
FUNCTIONS = f"""
import {HUB} as hub

def outer(x):
    return hub.outer(x)

def inner(x):
    return hub.inner(x)
"""
PIPE = """
fn outer(x: f32) -> (y: f32) = python "functions.py:outer"
fn inner(x: f32) -> (y: f32) = python "functions.py:inner" batched
pipeline asks(x: f32) -> (y: f32) { return y = outer(x) }
pipeline adds(x: f32) -> (y: f32) { return y = inner(x) }
schedule adds on "server" { inner { batch { max = 4, wait = 1ms } } }
"""


class Hub(ModuleType):
    """What stages do."""

    outer: Callable[[float], float]

    def __init__(self) -> None:
        super().__init__(HUB)
        self.inner: Callable[[object], object] = lambda x: np.add(x, 1)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder: Path = tmp_path_factory.mktemp("places")
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


def asking(pipeline: str, x: float, **more: object) -> Request:
    return Request(pipeline, {"x": np.float32(x)}, **more)  # type: ignore[arg-type]


def number(response: Response) -> float:
    return float(np.asarray(response.outputs["y"]))


def left(engine: Engine) -> dict[str, int]:
    assert engine.drain(LONG)
    assert engine.settle(LONG)
    workers = engine._crew.workers  # pyright: ignore[reportPrivateUsage] what is left is told nowhere
    assert workers is not None
    places = workers._places  # pyright: ignore[reportPrivateUsage] likewise
    assert (places.free, places.lent, places.away) == (places.count, 0, 0)
    assert places.parked <= 2 * places.count
    workers.close()
    return workers._scheduler.leftovers()  # pyright: ignore[reportPrivateUsage] likewise


def by_result(futures: "list[Future[Response]]") -> float:
    return sum(number(one.result()) for one in futures)


def by_time(futures: "list[Future[Response]]") -> float:
    return sum(number(one.result(LONG)) for one in futures)


def by_exception(futures: "list[Future[Response]]") -> float:
    assert [one.exception() for one in futures] == [None] * len(futures)
    return by_result(futures)


def as_they_come(futures: "list[Future[Response]]") -> float:
    return sum(number(one.result()) for one in as_completed(futures, LONG))


def awaited(futures: "list[Future[Response]]") -> float:
    async def gather() -> list[Response]:
        return await asyncio.gather(*map(asyncio.wrap_future, futures))

    return sum(map(number, asyncio.run(gather())))


@pytest.mark.parametrize("wait", [by_result, by_time, by_exception, as_they_come, awaited])
def test_a_stage_may_wait_for_other_requests_however_few_workers_there_are(
    engine: Engine, hub: Hub, wait: "Callable[[list[Future[Response]]], float]"
) -> None:
    hub.outer = lambda x: wait([engine.submit(asking("adds", x + i)) for i in range(3)])
    for _ in range(2):  # of short requests, which is known the second time, callers run some
        futures = [engine.submit(asking("asks", x)) for x in range(8)]
        assert [number(one.result(LONG)) for one in futures] == [3 * x + 6 for x in range(8)]
    assert left(engine) == {}


def test_stages_that_wait_may_nest(engine: Engine, hub: Hub) -> None:
    def outer(x: float) -> float:
        pipeline = "asks" if x > 0 else "adds"
        return number(engine.submit(asking(pipeline, x - 1)).result()) + 1

    hub.outer = outer
    with switching():
        futures = [engine.submit(asking("asks", 9)) for _ in range(4)]
        assert [number(one.result(LONG)) for one in futures] == [10.0] * 4
    assert left(engine) == {}


def test_b26_a_stage_that_asks_while_the_engine_drains_is_answered(
    engine: Engine, hub: Hub
) -> None:
    begun, closed = threading.Event(), threading.Event()

    def outer(x: float) -> float:
        begun.set()
        assert closed.wait(LONG)
        return number(engine.submit(asking("adds", x)).result())

    hub.outer = outer
    answer = engine.submit(asking("asks", 1))
    assert begun.wait(LONG)
    engine.refuse()
    closed.set()
    assert engine.drain(LONG)
    assert number(answer.result(LONG)) == 2


def test_an_engine_that_is_closed_fails_what_a_stage_waits_for(plan: Plan, hub: Hub) -> None:
    engine = Engine(plan, EngineConfig(workers=1, intra_op_threads=1))
    begun = threading.Event()

    def outer(x: float) -> float:
        begun.set()
        while True:
            number(engine.submit(asking("adds", x)).result())

    hub.outer = outer
    answer = engine.submit(asking("asks", 1))
    assert begun.wait(LONG)
    engine.close()
    fault = answer.exception(LONG)
    assert getattr(fault, "code", None) in (Code.UNAVAILABLE, Code.FAILED)


def test_a_worker_whose_place_is_lent_takes_no_job(plan: Plan, hub: Hub) -> None:
    main, armed, looked = threading.get_ident(), threading.Event(), threading.Event()
    own_clock = EngineConfig().clock

    def clock() -> float:
        if armed.is_set() and threading.current_thread().name == "headrace-0":
            looked.set()  # it holds the lock, and asks what there is to do next
        return own_clock()

    def inner(x: object) -> object:
        if threading.get_ident() == main and not waiting:
            waiting.append(others.submit(meanwhile).result(LONG))
        return np.add(x, 1)  # type: ignore[arg-type]

    def meanwhile() -> int:
        """Wake the only worker; return how many wait to begin when it has looked."""
        now = own_clock()
        asked.append(engine.submit(asking("adds", 1, deadline=now + 2 * LONG)))
        armed.set()
        asked.append(engine.submit(asking("adds", 2, deadline=now + LONG)))  # wakes who keeps time
        assert looked.wait(LONG)
        return engine.metrics.pipeline("adds").pending

    hub.inner = inner
    asked: list[Future[Response]] = []
    engine = Engine(plan, EngineConfig(workers=1, intra_op_threads=1, clock=clock))
    waiting: list[int] = [0]
    engine.submit(asking("adds", 0)).result(LONG)  # which tells that requests are short
    with ThreadPoolExecutor(1) as others:
        waiting.clear()
        for x in range(10_000):  # the worker may be quicker, but not always
            assert number(engine.submit(asking("adds", x)).result()) == x + 1
            if waiting:
                break
    assert waiting == [2]
    assert [number(one.result(LONG)) for one in asked] == [2, 3]
    assert left(engine) == {}
    engine.close()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_who_is_interrupted_when_he_has_his_answer_leaves_the_engine_as_it_was(
    engine: Engine, interrupt: type[BaseException]
) -> None:
    main = threading.get_ident()
    engine.submit(asking("adds", 0)).result(LONG)

    def press(_: object) -> None:
        if threading.get_ident() == main:
            raise interrupt

    def interrupted(x: float) -> bool:
        future = engine.submit(asking("adds", x))
        future.add_done_callback(press)
        try:
            return number(future.result()) != x + 1
        except interrupt:
            return number(future.result(LONG)) == x + 1

    assert any(interrupted(x) for x in range(10_000))
    assert number(engine.submit(asking("adds", 1)).result(LONG)) == 2
    assert left(engine) == {}


def test_a_worker_outlives_a_callback_that_wants_to_end_it(
    engine: Engine, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, told = threading.Event(), list[type[BaseException]]()

    def said(of: threading.ExceptHookArgs) -> None:
        told.append(of.exc_type)

    monkeypatch.setattr(threading, "excepthook", said)

    def held(x: object) -> object:
        assert gate.wait(LONG)
        return x

    hub.inner = held
    for _ in range(4):
        gate.clear()
        future = engine.submit(asking("adds", 1))
        future.add_done_callback(lambda _: sys.exit())
        gate.set()
        assert number(future.result(LONG)) == 1
    assert left(engine) == {}
    assert told == [SystemExit] * 4
