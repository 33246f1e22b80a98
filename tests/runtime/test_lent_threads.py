"""Who waits for an answer runs his request himself where a worker is free for it."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Fault, Request
from headrace.stdlib.op import Array
from tests.runtime.behaviour_pipes import compiled
from tests.runtime.drivers import LONG, switching

FUNCTIONS = """
import watch_of_threads as watch

def watched(x):
    return watch.run(x)
"""
PIPE = """
fn watched(x: f32) -> (y: f32) = python "functions.py:watched" batched
pipeline p(x: f32) -> (y: f32) { return y = watched(x) }
schedule p on "server" { watched { batch { max = 4 } } }
"""


class Watch(ModuleType):
    """Runs what the stage is to do: notes in which thread, and how many are at it at most."""

    def __init__(self) -> None:
        super().__init__("watch_of_threads")
        self._lock = threading.Lock()
        self.now = self.most = 0
        self.threads: set[int] = set()
        self.interrupts = False

    def run(self, x: Array) -> Array:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.threads.add(threading.get_ident())
        try:
            if self.interrupts and threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            return np.add(x, 1)
        finally:
            with self._lock:
                self.now -= 1


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder: Path = tmp_path_factory.mktemp("lent")
    watch = sys.modules["watch_of_threads"] = Watch()
    try:
        return compiled(folder, PIPE, FUNCTIONS)
    finally:
        del sys.modules[watch.__name__]


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = sys.modules["watch_of_threads"] = Watch()
    yield made
    del sys.modules["watch_of_threads"]


@pytest.fixture
def engine(plan: Plan, watch: Watch) -> Iterator[Engine]:
    engine = Engine(plan, EngineConfig(workers=2, intra_op_threads=1))
    engine.submit(asking(0)).result(LONG)  # which tells that requests are short
    watch.threads.clear()
    yield engine
    engine.close()


def asking(x: float) -> Request:
    return Request("p", {"x": np.float32(x)})


def asked(engine: Engine, x: float) -> float:
    return float(np.asarray(engine.submit(asking(x)).result().outputs["y"]))


def left(engine: Engine) -> dict[str, int]:
    assert engine.drain(LONG)
    workers = engine._crew.workers  # pyright: ignore[reportPrivateUsage] what is left is told nowhere
    assert workers is not None
    workers.close()
    return workers._scheduler.leftovers()  # pyright: ignore[reportPrivateUsage] likewise


def test_a_lone_request_runs_in_the_thread_that_waits_for_it(engine: Engine, watch: Watch) -> None:
    here = threading.get_ident()
    for x in range(10_000):  # a worker may be quicker, but not always
        assert asked(engine, x) == x + 1
        if here in watch.threads:
            break
    assert here in watch.threads
    assert left(engine) == {}


def test_those_who_wait_take_the_places_of_workers_and_no_more(
    engine: Engine, watch: Watch
) -> None:
    def ask(first: int) -> list[float]:
        return [asked(engine, x) for x in range(first, first + 50)]

    with switching(), ThreadPoolExecutor(6) as pool:
        answers = [pool.submit(ask, 100 * i) for i in range(6)]
        for i, one in enumerate(answers):
            assert one.result(LONG) == [x + 1 for x in range(100 * i, 100 * i + 50)]
    assert watch.most <= 2
    assert engine.metrics.pipeline("p").successes == 301
    assert left(engine) == {}


def test_who_is_interrupted_leaves_the_engine_as_it_was(engine: Engine, watch: Watch) -> None:
    watch.interrupts = True
    for x in range(10_000):
        try:
            assert asked(engine, x) == x + 1
        except KeyboardInterrupt:
            break
    watch.interrupts = False
    assert asked(engine, 1) == 2
    counted = engine.metrics.pipeline("p")
    assert counted.failures == {Code.CANCELLED.value: 1}
    assert left(engine) == {}


def test_an_engine_that_is_closed_waits_for_those_that_run_in_it(plan: Plan, watch: Watch) -> None:
    for _ in range(10):
        engine = Engine(plan, EngineConfig(workers=2, intra_op_threads=1))
        asked(engine, 0)
        barrier = threading.Barrier(4)
        with switching(), ThreadPoolExecutor(3) as pool:
            callers = [pool.submit(partial(_ask_until_closed, engine, barrier)) for _ in range(3)]
            barrier.wait(LONG)
            engine.close()
            assert watch.now == 0
            assert [one.result(LONG).code for one in callers] == [Code.UNAVAILABLE] * 3


def _ask_until_closed(engine: Engine, barrier: threading.Barrier) -> Fault:
    barrier.wait(LONG)
    while True:
        try:
            assert asked(engine, 1) == 2
        except Fault as fault:
            return fault
