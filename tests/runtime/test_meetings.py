"""Nested requests that come while another is run by the thread that has asked for it."""

import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from headrace.compiler.plan import Batching, PythonSegment
from headrace.runtime.engine import Engine
from headrace.runtime.meetings import Lend
from headrace.runtime.request import Code, Fault, Request, Response
from tests.runtime.drivers import LONG
from tests.runtime.plans import PlanMaker, block, call, fields

HUB = "hub_of_meetings"
SOURCE = f"""
import {HUB} as hub

def works():
    return hub.works  # one for each instance
"""
X, Y = fields(x="f32[N]"), fields(y="f32[N]")


class Hub(ModuleType):
    """What the stage does: it doubles rows, of which none may be 13. The first run takes until
    `go`."""

    def __init__(self) -> None:
        super().__init__(HUB)
        self.begun, self.go = threading.Event(), threading.Event()
        self.sizes: list[int] = []

    def works(self, xs: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> object:
        self.sizes.append(len(xs))
        self.begun.set()
        assert self.go.wait(LONG)
        if (xs == 13).any():
            raise ValueError("thirteen")
        return xs * 2


class Told:
    """What becomes of a request, and which thread says so."""

    def __init__(self) -> None:
        self.known, self.thread = threading.Event(), 0
        self.found: list[Response | BaseException] = []

    def __call__(self, found: Response | BaseException) -> None:
        self.thread = threading.get_ident()
        self.found.append(found)
        self.known.set()

    def answer(self) -> list[list[float]]:
        assert self.known.wait(LONG)
        (found,) = self.found
        if isinstance(found, BaseException):
            raise found
        return np.asarray(found.outputs["y"]).tolist()


@pytest.fixture
def hub() -> Iterator[Hub]:
    made = sys.modules[HUB] = Hub()
    yield made
    made.go.set()
    del sys.modules[HUB]


@pytest.fixture
def engine(hub: Hub) -> Iterator[Engine]:
    assert sys.modules[HUB] is hub  # which the function imports
    maker = PlanMaker()
    maker.python("works", SOURCE, X, Y, batched=True, batching=Batching(4))
    segment = maker.segments[0]
    assert isinstance(segment, PythonSegment)
    maker.segments[0] = replace(segment, instances=1)
    maker.pipeline("p", X, Y, block([0], [call(0, [0], [1])], [1]), batch=8)
    engine = Engine(maker.plan())
    yield engine
    engine.close()


class Asking:
    """Asks for a first request in a thread of its own, which is run there; then for others."""

    def __init__(self, engine: Engine, hub: Hub, lend: Lend | None = None) -> None:
        self._engine, self._hub, self.first = engine, hub, Told()
        self._thread = threading.Thread(target=self.ask, args=([[0.0]], self.first, lend))
        self._thread.start()
        assert hub.begun.wait(LONG)

    def ask(
        self, rows: list[list[float]], told: Told | None = None, lend: Lend | None = None
    ) -> Told:
        told, request = told or Told(), Request("p", {"x": np.array(rows, np.float32)})
        self._engine.nested.run(request, "", told, lend)
        return told

    def end(self) -> None:
        self._hub.go.set()
        self._thread.join(LONG)
        assert not self._thread.is_alive()


def test_they_wait_and_run_together_where_that_was_run(engine: Engine, hub: Hub) -> None:
    asking = Asking(engine, hub)
    others = [asking.ask([[1.0]]), asking.ask([[2.0], [3.0]])]
    assert hub.sizes == [1]
    assert not any(one.known.is_set() for one in others)
    asking.end()
    assert asking.first.answer() == [[0.0]]
    assert [one.answer() for one in others] == [[[2.0]], [[4.0], [6.0]]]
    assert hub.sizes == [1, 3]
    assert {one.thread for one in others} == {asking.first.thread} != {threading.get_ident()}
    (counts,), (stage,) = engine.metrics.pipelines, engine.metrics.stages
    assert {rows: count for rows, (count, _) in counts.by_rows.items()} == {1: 2, 2: 1}
    assert (stage.executions, stage.rows, stage.mixed) == (2, 4, 1)
    assert stage.queue_seconds > 0


def test_no_more_run_at_a_time_than_the_stage_allows_nor_of_another_shape(
    engine: Engine, hub: Hub
) -> None:
    asking = Asking(engine, hub)
    others = [asking.ask([[one]]) for one in (1.0, 2.0, 3.0, 4.0, 5.0)]
    others.append(asking.ask([[6.0, 7.0]]))
    others.append(asking.ask([[8.0]] * 6))  # more than one run may have
    asking.end()
    assert [one.answer() for one in others[:5]] == [[[2.0]], [[4.0]], [[6.0]], [[8.0]], [[10.0]]]
    assert others[5].answer() == [[12.0, 14.0]]
    assert others[6].answer() == [[16.0]] * 6
    assert sorted(hub.sizes[1:]) == [1, 1, 2, 4, 4]


def test_who_fails_or_does_not_fit_fails_alone(engine: Engine, hub: Hub) -> None:
    asking = Asking(engine, hub)
    good, bad, wrong = asking.ask([[1.0]]), asking.ask([[13.0]]), Told()
    engine.nested.run(Request("p", {"z": np.zeros((1, 1), np.float32)}), "", wrong)
    none = asking.ask([])
    asking.end()
    assert good.answer() == [[2.0]]
    with pytest.raises(Fault, match="thirteen"):
        bad.answer()
    with pytest.raises(Fault) as refused:
        wrong.answer()
    assert refused.value.code is Code.INVALID
    with pytest.raises(Fault):
        none.answer()
    (counts,) = engine.metrics.pipelines
    assert counts.successes == 2
    assert sum(counts.failures.values()) == 3


def test_who_has_to_go_on_lets_one_that_waits_run_all_that_do(engine: Engine, hub: Hub) -> None:
    lent: list[Callable[[], object]] = []

    def lend(work: Callable[[], object]) -> bool:
        lent.append(work)
        return True

    asking = Asking(engine, hub, lambda _: False)
    others = [asking.ask([[1.0]]), asking.ask([[2.0]], lend=lend)]
    asking.end()
    assert asking.first.answer() == [[0.0]]
    assert not any(one.known.is_set() for one in others)
    (work,) = lent
    work()
    assert [one.answer() for one in others] == [[[2.0]], [[4.0]]]
    assert {one.thread for one in others} == {threading.get_ident()}
    assert hub.sizes == [1, 2]
    assert asking.ask([[3.0]]).answer() == [[6.0]]


def test_where_nobody_can_be_lent_the_engine_runs_what_waits(engine: Engine, hub: Hub) -> None:
    asking = Asking(engine, hub, lambda _: False)
    others = [asking.ask([[1.0]]), asking.ask([[2.0]], lend=lambda _: False)]
    asking.end()
    assert [one.answer() for one in others] == [[[2.0]], [[4.0]]]
    assert asking.first.thread not in {one.thread for one in others}


def test_who_waits_for_an_engine_that_is_closed_is_told(engine: Engine, hub: Hub) -> None:
    asking = Asking(engine, hub)
    other = asking.ask([[1.0]])
    engine.refuse()
    asking.end()
    assert asking.first.answer() == [[0.0]]
    with pytest.raises(Fault) as closed:
        other.answer()
    assert closed.value.code is Code.UNAVAILABLE


def test_the_room_of_what_has_waited_is_given_back(engine: Engine, hub: Hub) -> None:
    asking = Asking(engine, hub)
    asking.ask([[1.0]])
    asking.ask([[13.0]])
    asking.end()
    assert engine._room.held == 0  # pyright: ignore[reportPrivateUsage] no more
