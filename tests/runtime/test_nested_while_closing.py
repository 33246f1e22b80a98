"""What a stage asks its app for is answered while that closes, whichever way either was asked."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.request import Code, EngineClosed, Fault
from tests.runtime.behaviour_pipes import compiled
from tests.runtime.drivers import LONG

HUB = "hub_of_nested"
FUNCTIONS = f"""
import {HUB} as hub

def outer(x):
    return hub.outer(x)
"""
PIPE = """
fn outer(x: f32) -> (y: f32) = python "functions.py:outer"
pipeline asks(x: f32) -> (y: f32) { return y = outer(x) }
pipeline tells(x: f32) -> stream (y: f32) {
    emit y = outer(x)
}
pipeline adds(x: f32) -> (y: f32) { return y = x + 1.0 }
pipeline sends(x: f32) -> stream (y: f32) {
    emit y = x + 1.0
}
schedule adds on "server" {}
"""
Ask = Callable[[headrace.App, float], float]


class Hub(ModuleType):
    """What the stage does."""

    outer: Callable[[float], float]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder: Path = tmp_path_factory.mktemp("nested")
    sys.modules[HUB] = Hub(HUB)
    try:
        return compiled(folder, PIPE, FUNCTIONS)
    finally:
        del sys.modules[HUB]


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = sys.modules[HUB] = Hub(HUB)
    yield made
    del sys.modules[HUB]


async def all_of(pipeline: headrace.Pipeline, x: float) -> list[float]:
    return [float(one.y) async for one in pipeline.aio_stream(x=x)]


OUTER: dict[str, Ask] = {
    "called": lambda app, x: float(app.asks(x=x).y),
    "submitted": lambda app, x: float(app.asks.submit(x=x).result(LONG).y),
    "awaited": lambda app, x: float(asyncio.run(app.asks.aio(x=x)).y),
    "read": lambda app, x: float(next(app.tells.stream(x=x)).y),
    "read in a loop of events": lambda app, x: asyncio.run(all_of(app.tells, x))[0],
}
INNER: dict[str, Ask] = {
    "calls": lambda app, x: float(app.adds(x=x).y),
    "submits": lambda app, x: float(app.adds.submit(x=x).result().y),
    "reads": lambda app, x: float(next(app.sends.stream(x=x)).y),
    "waits": lambda app, x: float(asyncio.run(app.adds.aio(x=x)).y),
}


def refuse(app: headrace.App) -> None:
    """Let nobody in any more, which is how closing begins."""
    for engine in app._loaded._engines(refuse=True):  # pyright: ignore[reportPrivateUsage] no more
        engine.refuse()


@pytest.mark.parametrize("workers", [1, 2], ids=["one engine", "two engines"])
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_b26_nested_requests_are_let_in(
    plan: Plan, hub: Hub, outer: str, inner: str, workers: int
) -> None:
    begun, closing = threading.Event(), threading.Event()

    def work(x: float) -> float:
        begun.set()
        assert closing.wait(LONG)
        return INNER[inner](app, x)

    hub.outer = work
    app = headrace.App(plan, workers=workers, intra_op_threads=1 if workers == 1 else None)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(OUTER[outer], app, 1.0)
        assert begun.wait(LONG)
        refuse(app)
        for ask in INNER.values():
            with pytest.raises(EngineClosed):
                ask(app, 1.0)
        closing.set()
        assert answer.result(LONG) == 2
    app.close()
    for ask in INNER.values():
        with pytest.raises(EngineClosed):
            ask(app, 1.0)


def test_who_is_called_back_with_an_answer_is_amid_nothing(plan: Plan, hub: Hub) -> None:
    """Or an app that asks anew whenever it is answered would never be drained."""
    app, gate = headrace.App(plan, workers=1, intra_op_threads=1), threading.Event()
    hub.outer = lambda x: x if gate.wait(LONG) else 0.0
    told: list[object] = []

    def again(_: object) -> None:
        refuse(app)
        for ask in INNER.values():
            try:
                told.append(ask(app, 1.0))
            except Fault as fault:
                told.append(fault.code)

    future = app.asks.submit(x=1.0)
    future.add_done_callback(again)
    gate.set()
    assert future.result(LONG).y == 1
    app.close()
    assert told == [Code.UNAVAILABLE] * len(INNER)
