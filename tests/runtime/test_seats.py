"""The strategy `direct`: a sequence has a row of the batch of its own for as long as it lives."""

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import headrace
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.metrics import StageCell
from headrace.runtime.request import Code, Fault, InSequence, Request
from headrace.runtime.rows import Rows, Value
from headrace.runtime.seats import Seat, SeatedStage
from headrace.runtime.simulate import Outcome, Simulation
from headrace.runtime.stage import Part, StageError
from tests.runtime.behaviour_pipes import MEETING
from tests.runtime.drivers import Meeting

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


def sum_of(outcome: Outcome) -> int | None:
    return None if outcome.outputs is None else int(cast("float", outcome.outputs["sum"]))


@pytest.mark.parametrize("late_effects", [False, True])
def test_what_was_cancelled_does_not_run_behind_a_call(
    plan: headrace.CompiledPlan, *, late_effects: bool
) -> None:
    for seed in range(25):
        draw = random.Random(seed)
        simulation = Simulation(plan.plan, workers=2, seed=seed, late_effects=late_effects)
        before = int(cast("float", simulation.call(asked(1, "a", start=True))["sum"]))
        for x in range(1, 20, 2):
            outcome = simulation.submit(asked(1 << x, "a"))
            simulation.run(until=simulation.now + draw.choice((0, 0.0004, 0.002)))
            simulation.cancel(outcome)
            now = int(cast("float", simulation.call(asked(1 << x + 1, "a"))["sum"]))
            # each power of two says of a request whether its row has run by then
            assert now % (1 << x) == before, f"seed {seed}: the state has changed since"
            before = now
        simulation.run()
        assert simulation.leftovers == {}
        simulation.close()


def test_a_call_waits_for_what_runs_of_one_that_was_cancelled(tmp_path: Path) -> None:
    meets = COUNTER.replace(
        "import numpy as np", f"import numpy as np\nimport {MEETING} as meeting"
    )
    meets = meets.replace(
        "assert x.shape",
        "if (x == 2).any(): meeting.meet(); meeting.meet()\n        assert x.shape",
    )
    (tmp_path / "counter.py").write_text(meets)
    (tmp_path / "p.pipe").write_text(SOURCE)
    meeting = sys.modules[MEETING] = Meeting(MEETING, together=True)
    engine = Engine(headrace.compile(tmp_path / "p.pipe").plan, EngineConfig(workers=2))
    try:
        assert total(engine, asked(1, "a", start=True)) == 1
        meeting.expect(2)
        cancelled = engine.submit(asked(2, "a"))
        meeting.meet()  # it runs
        assert cancelled.cancel()
        with pytest.raises(Fault, match="its turn"):
            engine.call(asked(8, "a")._replace(deadline=engine.config.clock()))
        meeting.meet()
        assert total(engine, asked(4, "a")) == 7
    finally:
        engine.close()
        del sys.modules[MEETING]


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


MET = """
model count = python "counter.py:Counter" (x: f32, start: bool, ready: bool) -> (sum: f32)
model times = onnx "times.onnx" (x: f32, k: f32) -> (y: f32) batch axis { x = 0, y = 0 }
model double = onnx "double.onnx" (x: f32) -> (y: f32)

pipeline sums(x: f32, k: f32, xs: f32[N]) -> (sum: f32, y: f32, ys: f32[N]) per sequence {
    ys = for one in xs { yield double(one) }
    return sum = count(x, sequence.start, sequence.ready), y = double(times(x, k)), ys = ys
}
pipeline others(x: f32) -> (sum: f32) per sequence {
    return sum = count(x, sequence.start, sequence.ready)
}
pipeline doubled(x: f32) -> (y: f32) { return y = double(x) }

schedule sums {
    count  { batch { max = 3, wait = 20ms }, instances = 1 }
    times  { batch { max = 3, wait = 20ms } }
    double { batch { max = 3, wait = 20ms } }
    sequences { strategy = direct, slots = 3 }
}
schedule others {
    count  { batch { max = 3, wait = 20ms }, instances = 1 }
    sequences { strategy = direct, slots = 3 }
}
schedule doubled { double { batch { max = 3, wait = 20ms } } }
"""


@pytest.fixture
def met(tmp_path: Path) -> headrace.CompiledPlan:
    (tmp_path / "counter.py").write_text(COUNTER)
    for name, op, second, dims in (("times", "Mul", "k", []), ("double", "Add", "x", ["N"])):
        fields = {"x": ["N"], second: dims}
        graph = helper.make_graph(
            [helper.make_node(op, ["x", second], ["y"])],
            name,
            [
                helper.make_tensor_value_info(one, TensorProto.FLOAT, of)
                for one, of in fields.items()
            ],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N"])],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        onnx.save(model, tmp_path / f"{name}.onnx")
    (tmp_path / "p.pipe").write_text(MET)
    return headrace.compile(tmp_path / "p.pipe")


def test_what_all_rows_have_in_common_is_no_blank(met: headrace.CompiledPlan) -> None:
    simulation = Simulation(met.plan, workers=2)
    inputs = {"k": np.float32(5), "xs": np.zeros(0, np.float32)}
    outcomes = [
        simulation.submit(
            Request("sums", {"x": np.float32(id + 1), **inputs}, sequence=InSequence(id, True))
        )
        for id in range(2)
    ]
    simulation.run()
    # the row of sequence 0 is blank now
    after = simulation.submit(
        Request("sums", {"x": np.float32(3), **inputs}, sequence=InSequence(1))
    )
    simulation.run()
    assert [(one.outputs or {})["y"] for one in (*outcomes, after)] == [10, 20, 30]
    simulation.close()


@pytest.mark.parametrize("seed", range(5))
def test_rows_with_a_place_and_rows_without_do_not_meet(
    met: headrace.CompiledPlan, seed: int
) -> None:
    simulation = Simulation(met.plan, seed=seed, workers=2)
    asked: list[tuple[Outcome, Mapping[str, object]]] = []
    for turn in range(3):
        for id in range(3):
            x = np.float32(10 * turn + id)
            sequence = InSequence(id, start=turn == 0)
            inputs = {"x": x, "k": np.float32(1), "xs": np.arange(turn, dtype=np.float32)}
            total = sum(10 * before + id for before in range(turn + 1))
            right = {"sum": total, "y": 2 * x, "ys": [2.0 * one for one in range(turn)]}
            other = Request("others", {"x": -x}, sequence=sequence)
            for request, answer in (
                (Request("sums", inputs, sequence=sequence), right),
                (other, {"sum": -total}),
                (Request("doubled", {"x": x}), {"y": 2 * x}),
            ):
                asked.append((simulation.submit(request), answer))
        simulation.run()
    for outcome, right in asked:
        assert outcome.fault is None
        found = {name: np.asarray(one).tolist() for name, one in (outcome.outputs or {}).items()}
        assert found == right
    simulation.close()
