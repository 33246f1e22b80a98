"""Where a nested request is run whose asker does nothing else until it is answered."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine
from headrace.runtime.request import Code, Fault, InSequence, Request, Response
from tests.runtime.behaviour_pipes import compiled
from tests.runtime.drivers import LONG

HUB = "hub_of_runs"
FUNCTIONS = f"""
import {HUB} as hub

def outer(x):
    return hub.outer(x)
"""
PIPE = """
fn outer(x: f32) -> (y: f32) = python "functions.py:outer"
pipeline asks(x: f32) -> (y: f32) { return y = outer(x) }
schedule asks on "server" {}
pipeline takes(x: f32) -> (y: f32) { return y = outer(x) }
schedule takes on "server" { outer { resources { gate = 1 } } }
pipeline counts(x: f32) -> (y: f32) per sequence idle 1s {
    state sum: f32 = 0
    now = sum + outer(x)
    next sum = now
    return y = now
}
"""


class Hub(ModuleType):
    """What the stage does."""

    outer: Callable[[float], float]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    sys.modules[HUB] = Hub(HUB)
    try:
        folder: Path = tmp_path_factory.mktemp("runs")
        return compiled(folder, PIPE, FUNCTIONS)
    finally:
        del sys.modules[HUB]


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = sys.modules[HUB] = Hub(HUB)
    yield made
    del sys.modules[HUB]


@pytest.fixture
def engine(plan: Plan, hub: Hub) -> Iterator[Engine]:
    assert sys.modules[HUB] is hub  # which the functions import
    engine = Engine(plan)
    yield engine
    engine.close()


def of(x: float, **more: object) -> Request:
    return Request("asks", {"x": np.float32(x)})._replace(**more)


class Told:
    """What becomes of a request that is asked for here; `here` says that it was run here."""

    def __init__(self, engine: Engine, request: Request) -> None:
        self._known, self._found = threading.Event(), list[Response | BaseException]()
        self._asks, self.here = threading.get_ident(), False
        engine.nested.run(request, "", self._tell)

    def _tell(self, found: Response | BaseException) -> None:
        self.here = threading.get_ident() == self._asks
        self._found.append(found)
        self._known.set()

    @property
    def is_known(self) -> bool:
        return self._known.is_set()

    def answer(self) -> float:
        assert self._known.wait(LONG)
        (found,) = self._found
        if isinstance(found, BaseException):
            raise found
        return answer(found)


def answer(found: "Response | Future[Response]") -> float:
    response = found.result(LONG) if isinstance(found, Future) else found
    return float(np.asarray(response.outputs["y"]))


def test_a_request_that_is_alone_runs_in_the_thread_that_asks_and_counts(
    engine: Engine, hub: Hub
) -> None:
    threads: list[int] = []

    def outer(x: float) -> float:
        threads.append(threading.get_ident())
        return x + 1

    hub.outer = outer
    found = Told(engine, of(1.0))
    assert found.is_known
    assert found.answer() == 2.0
    assert threads == [threading.get_ident()]
    assert [one.successes for one in engine.metrics.pipelines] == [1, 0, 0]


def test_one_that_is_not_alone_meets_the_others(engine: Engine, hub: Hub) -> None:
    begun, go = threading.Event(), threading.Event()

    def outer(x: float) -> float:
        begun.set()
        assert x == 5.0 or go.wait(LONG)
        return x

    hub.outer = outer
    other = engine.submit(of(4.0))
    assert begun.wait(LONG)
    assert not engine.quiet
    found = Told(engine, of(5.0))
    assert found.answer() == 5.0
    go.set()
    assert answer(other) == 4.0


def test_one_that_is_asked_for_amid_another_is_handed_to_the_engine(
    engine: Engine, hub: Hub
) -> None:
    found: list[Told] = []

    def outer(x: float) -> float:
        if x > 0.0:
            found.append(Told(engine, of(x - 1.0)))
            return found[-1].answer() + 1.0
        return 10.0

    hub.outer = outer
    assert Told(engine, of(1.0)).answer() == 11.0
    assert Told(engine, of(0.0)).here  # it is over, and is forgotten


def test_one_that_may_have_to_be_told_something_is_handed_to_the_engine(
    engine: Engine, hub: Hub
) -> None:
    go = threading.Event()
    hub.outer = lambda x: x if go.wait(LONG) else 0.0
    found = Told(engine, of(2.0, deadline=engine.nested.now() + LONG))
    assert not found.is_known  # another thread is at it, and this one is free
    go.set()
    assert found.answer() == 2.0
    turn = InSequence(7, start=True, end=True)
    assert Told(engine, of(3.0, pipeline="counts", sequence=turn)).answer() == 3.0
    assert Told(engine, of(4.0, pipeline="takes")).answer() == 4.0


def test_what_fails_is_raised_at_once_and_leaves_nothing_behind(engine: Engine, hub: Hub) -> None:
    def outer(x: float) -> float:
        raise ValueError(f"not {x:g}")

    hub.outer = outer
    with pytest.raises(Fault, match="not 3") as failed:
        Told(engine, of(3.0)).answer()
    assert failed.value.code is Code.FAILED
    hub.outer = lambda x: x
    assert Told(engine, of(4.0)).here
