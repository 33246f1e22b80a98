"""A batch goes through the members of an ensemble together, and each request is answered as if it
had gone alone."""

import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.metrics import StageCounts
from headrace.runtime.observe.recording import Recording
from headrace.runtime.request import Code, Fault, Request, Response
from headrace.runtime.rounds import Rounds
from headrace.triton.own_completion import OwnCompletions
from headrace.triton.serving import Options, find
from tests.runtime.drivers import LONG
from tests.triton.test_run import PLACES
from tests.triton.writing import ensemble, put

pytestmark = pytest.mark.slow

CONFIG = """
backend: "python" max_batch_size: 16 dynamic_batching {{ }}
input {{ name: "X" data_type: TYPE_FP32 dims: [ 2 ] }}
output {{ name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }}
{more}
"""
MODEL = """
import json
import triton_python_backend_utils as pb

class TritonPythonModel:
    def initialize(self, args):
        self.number = "abc".index(args["model_name"])

    def execute(self, requests):
        given = [one.inputs()[0].as_numpy() for one in requests]
        if any(self.number == 0 and (one == 7).any() for one in given):
            with open("GATE") as gate:
                gate.read()  # until whoever opens it has closed it
        if any((one == -1 - self.number).any() for one in given):
            raise ValueError("a bad row")
        return [self.answer(one) for one in given]

    def answer(self, x):
        if (x == -11 - self.number).any():
            return pb.InferenceResponse(error=pb.TritonError("not this"))
        return pb.InferenceResponse([pb.Tensor("Y", x)])
"""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Served:
    """An engine of the ensemble, the way to its gate, and rounds that last as long as one likes."""

    def __init__(self, plan: Plan, gate: Path) -> None:
        self.clock, self.gate, self.rounds = Clock(), gate, Rounds(Clock())
        (self.name,) = (one.name for one in plan.pipelines)
        config = EngineConfig(workers=1, clock=self.clock)
        self.engine = Engine(plan, config, counted=(self.name,))
        self.rounds.attend()
        self.before: dict[str, tuple[int, int]] = {}

    def ask(self, *requests: list[float], **more: object) -> list[Future[Response]]:
        """Ask for requests of so many rows each."""
        return self.submit(*(request(rows, self.name, **more) for rows in requests))

    def submit(self, *requests: Request) -> list[Future[Response]]:
        asked = [self.engine.submit(one, rounds=self.rounds) for one in requests]
        self.rounds.end()
        return asked

    def meet(self, *requests: list[float]) -> list[Future[Response]]:
        """Ask for requests that meet, as the only worker is at another meanwhile."""
        return self.meeting(*(request(rows, self.name) for rows in requests))

    def meeting(self, *requests: Request) -> list[Future[Response]]:
        (held,) = self.ask([7])
        with self.gate.open("w"):  # it is at the first model when there is somebody to read it
            asked = self.submit(*requests)
        assert rows_of(held) == [7]
        self.before = {name: (runs + 1, rows + 1) for name, (runs, rows) in self.before.items()}
        return asked

    def ran(self) -> dict[str, tuple[int, int]]:
        """Return the executions and rows of each model since this was asked last."""
        self.engine.settle(LONG)
        found: dict[str, tuple[int, int]] = {}
        for stage in self.engine.metrics.stages:
            found[stage.name] = summed(found.get(stage.name, (0, 0)), stage)
        before, self.before = self.before, found
        return {
            name: (runs - before.get(name, (0, 0))[0], rows - before.get(name, (0, 0))[1])
            for name, (runs, rows) in found.items()
        }

    def calls(self) -> dict[str, int]:
        """Return how many requests each model has answered."""
        self.engine.settle(LONG)
        found = dict.fromkeys("abc", 0)
        for (name, _), count in self.engine.metrics.pipeline("e").calls.items():
            found[name] += count
        return found


def summed(found: tuple[int, int], stage: StageCounts) -> tuple[int, int]:
    return found[0] + stage.executions, found[1] + stage.rows


def request(rows: list[float], name: str = "e", **more: object) -> Request:
    x = np.repeat(np.array(rows, np.float32)[:, None], 2, 1)
    return Request(name, {"X": x}, **more)  # type: ignore[arg-type]


def rows_of(asked: Future[Response]) -> list[float]:
    return [float(one) for one in np.asarray(asked.result(LONG).outputs["Y"])[:, 0]]


def fault_of(asked: Future[Response]) -> Fault:
    error = asked.exception(LONG)
    assert isinstance(error, Fault)
    return error


@pytest.fixture(scope="module", params=PLACES, ids=["processes", "in process"])
def options(request: pytest.FixtureRequest) -> Options:
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("chain")
    os.mkfifo(made.parent / "chain-gate")
    for name in "abc":
        put(made / name / "config.pbtxt", CONFIG.format(more=""))
        put(made / name / "1/model.py", MODEL.replace("GATE", str(made.parent / "chain-gate")))
    steps = ["a: X=X > Y=t", "b: X=t > Y=u", "c: X=u > Y=Y"]
    ensemble(made, "e", ["X"], ["Y"], steps, rows=16)
    return made


def plan_of(folder: Path, name: str, options: Options) -> Plan:
    (candidate,) = find((folder,), options, lambda _: None, OwnCompletions())[name].values()
    return candidate.read()


@pytest.fixture(scope="module")
def plan(folder: Path, options: Options) -> Plan:
    return plan_of(folder, "e", options)


@pytest.fixture(scope="module")
def loaded(plan: Plan, folder: Path) -> Iterator[Served]:
    served = Served(plan, folder.parent / "chain-gate")
    yield served
    served.engine.close()


@pytest.fixture
def served(loaded: Served) -> Served:
    assert rows_of(loaded.ask([1])[0]) == [1.0]
    loaded.ran()
    return loaded


def test_what_meets_at_the_first_stays_together(served: Served) -> None:
    before = served.calls()
    asked = served.meet([1], [2, 3], [4], [5, 6, 8])
    assert [*map(rows_of, asked)] == [[1], [2, 3], [4], [5, 6, 8]]
    assert served.ran() == dict.fromkeys("abc", (1, 7))
    assert served.calls() == {name: count + 1 + 4 for name, count in before.items()}


@pytest.mark.parametrize("at", [0, 1, 2])
def test_who_is_refused_by_one_of_them_leaves_the_others(served: Served, at: int) -> None:
    before = served.calls()
    first, refused, last = served.meet([1, 2], [3, -11.0 - at, 4], [5, 6])
    assert (rows_of(first), rows_of(last)) == ([1, 2], [5, 6])
    fault, name = fault_of(refused), "abc"[at]
    assert (fault.stage, fault.message, fault.pipeline) == (name, "not this", "e")
    assert fault.place is not None
    assert f" {name}(" in fault.place.text
    assert served.ran() == {one: (1, 7 if number <= at else 4) for number, one in enumerate("abc")}
    answered = {one: 3 if number < at else 2 for number, one in enumerate("abc")}
    assert served.calls() == {one: before[one] + 1 + count for one, count in answered.items()}


def test_who_is_refused_by_a_model_alone_leaves_the_others(folder: Path, options: Options) -> None:
    served = Served(plan_of(folder, "a", options), folder.parent / "chain-gate")
    try:
        assert rows_of(served.ask([1])[0]) == [1]
        served.ran()
        first, refused, last = served.meet([1, 2], [3, -11.0, 4], [5, 6])
        assert (rows_of(first), rows_of(last)) == ([1, 2], [5, 6])
        assert fault_of(refused).message == "not this"
        assert served.ran() == {"run_a": (1, 7)}
    finally:
        served.engine.close()


@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_that_breaks_a_batch_fails_alone(served: Served, at: int) -> None:
    first, broken, last = served.meet([1, 2], [-1.0 - at], [5])
    assert (rows_of(first), rows_of(last)) == ([1, 2], [5])
    fault, name = fault_of(broken), "abc"[at]
    assert fault.stage == name
    assert "a bad row" in fault.message
    ran = served.ran()
    for number, one in enumerate("abc"):
        together = (1, 4 if number < at else 3)
        assert ran[one] == (together if number != at else (4, 8))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_alone_fails_at_the_model_that_failed(served: Served, at: int) -> None:
    (asked,) = served.ask([3, -11.0 - at])
    assert (fault_of(asked).stage, fault_of(asked).code) == ("abc"[at], Code.FAILED)
    failures = served.engine.metrics.pipeline("e").call_failures
    assert failures["abc"[at], Code.FAILED.value] > 0


def test_whose_time_is_up_at_the_first_is_not_run_by_the_others(served: Served) -> None:
    (late,) = served.ask([7], deadline=served.clock.now + 1e6)
    with served.gate.open("w"):  # the first has begun when there is somebody to read it
        served.clock.now += 1e6
    assert fault_of(late).code is Code.DEADLINE
    assert served.ran() == {"a": (1, 1), "b": (0, 0), "c": (0, 0)}


def test_who_is_cancelled_at_the_first_is_not_run_by_the_others(served: Served) -> None:
    asked, other = served.meet([7], [2])
    with served.gate.open("w"):  # as above
        assert asked.cancel()
    assert rows_of(other) == [2]
    assert served.ran() == {"a": (1, 2), "b": (1, 1), "c": (1, 1)}


def test_who_names_all_results_meets_those_who_name_none(served: Served) -> None:
    asked = served.meeting(*(request([1], outputs=outputs) for outputs in (None, ("Y",), None)))
    assert [*map(rows_of, asked)] == [[1]] * 3
    assert served.ran()["c"] == (1, 3)


def test_a_request_that_is_recorded_is_shown_at_each(served: Served) -> None:
    engine = served.engine
    recording = Recording(engine.pipeline("e").plan, served.clock, values=True)
    prepared = engine.watched("e", recording)
    asked = engine.dispatch(prepared, request([4]).inputs, lambda outputs: Response("", outputs))
    assert rows_of(asked) == [4]
    engine.settle(LONG)
    assert [span.stage for span in recording.spans] == ["a", "b", "c"]
    assert {one.name for one in recording.kept} >= {"t", "u", "Y"}
    assert served.ran() == dict.fromkeys("abc", (1, 1))


def test_members_that_go_in_while_others_are_at_the_next_are_all_answered(served: Served) -> None:
    asked = [one for i in range(40) for one in served.ask([float(i + 20)], [float(i + 100)])]
    assert [*map(rows_of, asked)] == [[float(i + k)] for i in range(40) for k in (20, 100)]
    assert {name: rows for name, (_, rows) in served.ran().items()} == dict.fromkeys("abc", 80)
