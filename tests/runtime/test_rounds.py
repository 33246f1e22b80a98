"""Workers are woken once for all requests that a thread reads in one go, and in time."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Request, Response
from headrace.runtime.rounds import LONGEST, Rounds
from headrace.runtime.server import serve
from headrace.runtime.server_config import ServerConfig
from tests.runtime.behaviour_pipes import compiled
from tests.runtime.drivers import LONG

FUNCTIONS = """
def add(x):
    return x + 1

"""
PIPE = """
fn add(x: f32) -> (y: f32) = python "functions.py:add" batched
pipeline p(x: f32) -> (y: f32) { return y = add(x) }
schedule p on "server" { add { batch { max = 8 } } }
"""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Woken:
    """Counts; two of them are two engines."""

    times = 0

    def wake(self) -> None:
        self.times += 1


def test_who_is_owed_it_is_woken_once_when_the_round_is_over() -> None:
    rounds, first, second = Rounds(), Woken(), Woken()
    rounds.attend()
    for woken in (first, second, first, first):
        rounds.owe(woken.wake)
    assert (first.times, second.times) == (0, 0)
    rounds.end()
    assert (first.times, second.times) == (1, 1)
    rounds.end()
    assert (first.times, second.times) == (1, 1)


class Loop:
    """Calls later what it is given, as an event loop does, one round of reading after the other."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def turn(self) -> None:
        calls, self.calls = self.calls, []
        for call in calls:
            call()


def test_a_round_is_over_when_nothing_more_has_been_read() -> None:
    rounds, woken, loop = Rounds(Clock()), Woken(), Loop()
    rounds.attend(lambda call: loop.calls.append(call))
    for times in (1, 2):
        for _ in range(3):
            rounds.owe(woken.wake)
            rounds.owe(woken.wake)
            assert len(loop.calls) == 1
            loop.turn()
            assert woken.times == times - 1
        loop.turn()
        assert (woken.times, loop.calls) == (times, [])


def test_a_round_that_lasts_too_long_is_over() -> None:
    clock, woken, loop = Clock(), Woken(), Loop()
    rounds = Rounds(clock)
    rounds.attend(lambda call: loop.calls.append(call))
    rounds.owe(woken.wake)
    clock.now += LONGEST
    rounds.owe(woken.wake)
    assert woken.times == 1
    rounds.owe(woken.wake)
    assert woken.times == 1
    while loop.calls:
        loop.turn()
    assert woken.times == 2


def test_what_is_owed_while_some_are_woken_is_owed_until_the_next_end() -> None:
    rounds, second = Rounds(), Woken()
    rounds.attend()
    rounds.owe(lambda: rounds.owe(second.wake))
    rounds.end()
    assert second.times == 0
    rounds.end()
    assert second.times == 1


def test_only_a_thread_that_attends_reads_in_rounds() -> None:
    rounds = Rounds()
    rounds.attend()
    found: list[bool] = []
    other = threading.Thread(target=lambda: found.append(rounds.attended))
    other.start()
    other.join(LONG)
    assert (rounds.attended, found) == (True, [False])


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder: Path = tmp_path_factory.mktemp("rounds")
    return compiled(folder, PIPE, FUNCTIONS)


@pytest.fixture
def engine(plan: Plan) -> Iterator[Engine]:
    """Its workers have something behind them, and wait."""
    made = Engine(plan, EngineConfig(workers=2, intra_op_threads=1))
    assert answers(ask(made, Rounds(), 1)) == [1.0]
    made.settle(LONG)
    yield made
    made.close()


def attended() -> Rounds:
    """Return rounds that this thread attends to, which last as long as it likes."""
    rounds = Rounds(Clock())
    rounds.attend()
    return rounds


def ask(engine: Engine, rounds: Rounds, count: int) -> list[Future[Response]]:
    return [engine.submit(Request("p", {"x": np.float32(i)}), rounds=rounds) for i in range(count)]


def answers(asked: list[Future[Response]]) -> list[float]:
    return [float(np.asarray(one.result(LONG).outputs["y"])) for one in asked]


def executions(engine: Engine) -> tuple[int, int]:
    """Return how often the stage has run since, and over how many rows."""
    engine.settle(LONG)
    (stage,) = engine.metrics.stages
    return stage.executions - 1, stage.rows - 1


def test_what_is_read_in_one_round_shares_a_batch(engine: Engine) -> None:
    rounds = attended()
    asked = ask(engine, rounds, 8)
    assert not any(one.done() for one in asked)
    rounds.end()
    assert answers(asked) == [float(i + 1) for i in range(8)]
    assert executions(engine) == (1, 8)


def test_more_than_a_batch_is_all_answered(engine: Engine) -> None:
    rounds = attended()
    asked = ask(engine, rounds, 35)
    rounds.end()
    assert answers(asked) == [float(i + 1) for i in range(35)]
    assert executions(engine)[1] == 35


def test_a_thread_that_attends_to_none_need_not_end_any(engine: Engine) -> None:
    assert answers(ask(engine, Rounds(), 3)) == [1.0, 2.0, 3.0]


def test_one_that_is_cancelled_before_the_round_is_over_does_not_run(engine: Engine) -> None:
    rounds = attended()
    first, second = ask(engine, rounds, 2)
    assert first.cancel()
    rounds.end()
    assert answers([second]) == [2.0]
    assert executions(engine) == (1, 1)


def test_an_engine_that_closes_within_a_round_answers_all(plan: Plan) -> None:
    engine, rounds = Engine(plan, EngineConfig(workers=1, intra_op_threads=1)), attended()
    asked = ask(engine, rounds, 3)
    engine.close()
    rounds.end()
    assert all(one.done() for one in asked)


def test_the_thread_of_a_server_that_reads_attends(engine: Engine) -> None:
    with serve([engine], ServerConfig(http_port=0, grpc_port=None, metrics_port=None)) as server:
        fronts = server._fronts  # pyright: ignore[reportPrivateUsage] what it does is told nowhere
        found: Future[bool] = Future()
        loop, rounds = fronts._loop, fronts._rounds  # pyright: ignore[reportPrivateUsage] likewise
        loop.call_soon_threadsafe(lambda: found.set_result(rounds.attended))
        assert found.result(LONG)
