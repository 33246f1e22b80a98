"""The strategy `direct`: a sequence has a row of the batch of its own for as long as it lives."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import headrace
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.metrics import StageCell
from headrace.runtime.request import Code, Fault, InSequence, Request
from headrace.runtime.rows import Rows, Value
from headrace.runtime.seats import Seat, SeatedStage
from headrace.runtime.simulate import Simulation
from headrace.runtime.stage import Part, StageError

COUNTER = """
import numpy as np

class Counter:
    '''Keeps a sum for each row of the batch, as a model with a state inside does.'''

    def __init__(self):
        self.sums = np.zeros(3, np.float32)

    def __call__(self, x, start, ready):
        assert x.shape == (3,), x.shape
        self.sums[start] = 0
        self.sums[ready] += x[ready]
        if (x[ready] == 13).any():
            raise ValueError("thirteen")
        return np.where(ready, self.sums, -1)
"""
SOURCE = """
model count = python "counter.py:Counter" (x: f32, start: bool, ready: bool) -> (sum: f32)

pipeline sums(x: f32) -> (sum: f32) per sequence {
    return sum = count(x, sequence.start, sequence.ready)
}

schedule sums {
    count { batch { max = 3, wait = 20ms }, instances = 1 }
    sequences { strategy = direct, slots = 3, backlog = 1 }
}
"""


@pytest.fixture
def plan(tmp_path: Path) -> headrace.CompiledPlan:
    (tmp_path / "counter.py").write_text(COUNTER)
    (tmp_path / "p.pipe").write_text(SOURCE)
    return headrace.compile(tmp_path / "p.pipe")


@pytest.fixture
def engine(plan: headrace.CompiledPlan) -> Iterator[Engine]:
    engine = Engine(plan.plan, EngineConfig(workers=2, intra_op_threads=1))
    yield engine
    engine.close()


def asked(x: float, id: int | str, *, start: bool = False, end: bool = False) -> Request:
    return Request("sums", {"x": np.float32(x)}, sequence=InSequence(id, start, end))


def total(engine: Engine, request: Request) -> float:
    return float(np.asarray(engine.call(request).outputs["sum"]))


def test_a_model_finds_a_sequence_in_the_same_row_whoever_else_asks(engine: Engine) -> None:
    for i in range(4):
        for id in ("a", "b", "c")[: 1 + i % 3]:
            engine.call(asked(0, id, start=i < 3 and id == "abc"[i % 3]))
    sums = {"a": 0.0, "b": 0.0, "c": 0.0}
    for i, id in enumerate("abcacbbac"):
        sums[id] += i
        assert total(engine, asked(i, id)) == sums[id]
    pending = {id: engine.submit(asked(1, id)) for id in "cba"}
    for id, one in pending.items():
        assert float(np.asarray(one.result().outputs["sum"])) == sums[id] + 1


def test_rows_meet_in_one_batch_of_all_places(plan: headrace.CompiledPlan) -> None:
    simulation = Simulation(plan.plan, workers=2)
    for start in (True, False):
        outcomes = [simulation.submit(asked(id + 1, id, start=start)) for id in range(2)]
        simulation.run()
        sums = [float(np.asarray((one.outputs or {})["sum"])) for one in outcomes]
        assert sums == ([1, 2] if start else [2, 4])
    assert [rows for _, name, rows in simulation.runs if name == "count"] == [2, 2]
    (stage,) = (one for one in simulation.metrics.stages if one.name == "count")
    assert (stage.executions, stage.rows) == (2, 4)
    simulation.close()


def test_a_place_is_given_to_those_that_wait_and_the_model_is_told_that_it_starts(
    engine: Engine,
) -> None:
    for id in range(3):
        assert total(engine, asked(5, id, start=True)) == 5
    waiting = engine.submit(asked(7, "next", start=True))
    with pytest.raises(Fault, match=r"3 sequences are open .* and 1 wait") as error:
        engine.call(asked(1, "one more", start=True))
    assert error.value.code is Code.OVERLOADED
    assert total(engine, asked(1, 1, end=True)) == 6
    assert float(np.asarray(waiting.result().outputs["sum"])) == 7
    assert [total(engine, asked(1, id)) for id in (0, "next", 2)] == [6, 8, 6]


def test_a_row_that_fails_does_so_alone(plan: headrace.CompiledPlan) -> None:
    simulation = Simulation(plan.plan, workers=1)
    good, bad = (simulation.submit(asked(x, id, start=True)) for id, x in enumerate((1, 13)))
    simulation.run()
    assert good.fault is None
    assert bad.fault is not None
    assert "thirteen" in str(bad.fault)
    simulation.close()


class Failing:
    """A stage of which the row at place 2 is to blame."""

    name, index, policy = "failing", 0, None

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        del columns, count, cell
        raise StageError("two", 2)

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        return self.run(columns, count, cell)

    def split(self, columns: Sequence[Rows], count: int) -> list[Part]:
        return [Part(None, None, tuple(columns), count)]


@pytest.mark.parametrize(("places", "row"), [([0, 2], 1), ([2], 0), ([1, 0], None)])
def test_the_row_to_blame_is_that_of_the_batch_not_of_the_place(
    places: list[int], row: int | None
) -> None:
    columns = [
        Rows.of([np.float32(place) for place in places]),
        Rows.of([cast("Value", Seat(place)) for place in places]),
    ]
    with pytest.raises(StageError, match="two") as error:
        SeatedStage(Failing(), 3).run(columns, len(places), StageCell())
    assert error.value.row == row


def test_what_asks_twice_for_one_place_runs_twice(engine: Engine) -> None:
    stage = engine._stages.all[0]  # pyright: ignore[reportPrivateUsage]
    start, ready = [np.bool_(True), np.bool_(False)], [np.bool_(True)] * 2
    columns = [
        Rows.of([np.float32(1), np.float32(2)]),
        Rows.of([*start]),
        Rows.of([*ready]),
        Rows.of([cast("Value", Seat(1))] * 2),
    ]
    (sums,) = stage.run(columns, 2, StageCell())
    assert [float(np.asarray(one)) for one in sums.items()] == [1, 3]
