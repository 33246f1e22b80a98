"""Engines that share the units of resources."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine
from headrace.runtime.engine_config import EngineConfig
from headrace.runtime.request import Request, Response
from headrace.runtime.units import Units
from tests.runtime.behaviour_pipes import compiled
from tests.runtime.drivers import LONG

HUB = "hub_of_units"
FUNCTIONS = f"""
import {HUB} as hub

def one(x):
    return hub.run("one", x)

def two(x):
    return hub.run("two", x)
"""
PIPE = """
fn NAME(x: f32) -> (y: f32) = python "functions.py:NAME"
pipeline p(x: f32) -> (y: f32) { return y = NAME(x) }
schedule p on "server" { NAME { resources { R = 1 } }, resources { R = TOTAL } }
"""


class Hub(ModuleType):
    """What the stages do: they note who runs, and the first who comes waits until it may go."""

    def __init__(self) -> None:
        super().__init__(HUB)
        self.order: list[str] = []
        self.inside = self.most = 0
        self.begun, self.go = threading.Event(), threading.Event()
        self._lock = threading.Lock()

    def run(self, name: str, x: float) -> float:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.order.append(name)
        self.begun.set()
        assert self.go.wait(LONG)
        with self._lock:
            self.inside -= 1
        return x


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = sys.modules[HUB] = Hub()
    yield made
    made.go.set()
    del sys.modules[HUB]


@pytest.fixture
def units() -> Iterator[Units]:
    made = Units()
    yield made
    made.close()


def plan(folder: Path, name: str, total: int) -> Plan:
    text = PIPE.replace("NAME", name).replace("TOTAL", str(total))
    (folder / name).mkdir()
    return compiled(folder / name, text, FUNCTIONS)


def engines(folder: Path, units: Units | None, total: int = 1) -> list[Engine]:
    config = EngineConfig(workers=2, units=units)
    return [Engine(plan(folder, name, total), config) for name in ("one", "two")]


def asked(engine: Engine, count: int) -> "list[Future[Response]]":
    return [engine.submit(Request("p", {"x": np.float32(one)})) for one in range(count)]


def close(made: list[Engine]) -> None:
    for one in made:
        assert one.drain(LONG)
        assert one.settle(LONG)
        one.close()


def test_stages_of_two_engines_never_run_at_one_time(
    tmp_path: Path, hub: Hub, units: Units
) -> None:
    one, two = made = engines(tmp_path, units)
    answers = asked(one, 1)
    assert hub.begun.wait(LONG)
    answers += [*asked(two, 30), *asked(one, 30)]
    hub.go.set()
    for answer in answers:
        assert isinstance(answer.result(LONG), Response)
    assert hub.most == 1
    assert sorted(hub.order) == ["one"] * 31 + ["two"] * 30
    assert units.fit([("R", 1)])
    close(made)


@pytest.mark.parametrize("shared", [True, False])
def test_as_many_run_as_there_are_units(tmp_path: Path, hub: Hub, shared: bool) -> None:
    """Two of one resource, or one of each of two: both stages are in it at one time."""
    units = Units() if shared else None
    made = engines(tmp_path, units, 2 if shared else 1)
    both = threading.Barrier(2)

    def meet(_name: str, x: float) -> float:
        both.wait(LONG)
        return x

    hub.run = meet  # type: ignore[method-assign]
    futures = [asked(one, 1)[0] for one in made]
    for one in futures:
        assert isinstance(one.result(LONG), Response)
    close(made)
    if units is not None:
        units.close()


def test_an_engine_that_is_closed_leaves_what_it_waited_for_to_others(
    tmp_path: Path, hub: Hub, units: Units
) -> None:
    one, two = engines(tmp_path, units)
    first = asked(one, 1)
    assert hub.begun.wait(LONG)
    waiting, others = asked(two, 3), asked(one, 3)
    two.close()
    for answer in waiting:
        assert answer.exception(LONG) is not None
    hub.go.set()
    for answer in (*first, *others):
        assert isinstance(answer.result(LONG), Response)
    assert hub.order == ["one"] * 4
    close([one])
