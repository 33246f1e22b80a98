"""Rows of different size in one batch: who meets, how much of it is padding, what comes back."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.compiler import compile_source, plan_file
from headrace.compiler.plan import Batching, ModelSegment, Padding, Plan
from headrace.dsl.read import read_source
from headrace.dsl.types import DimVar
from headrace.runtime.batcher import Batcher, Entry
from headrace.runtime.engine import Engine
from headrace.runtime.gather import gather
from headrace.runtime.load import Stages
from headrace.runtime.request import Request
from headrace.runtime.rows import Rows
from headrace.runtime.simulate import Outcome, Simulation
from headrace.stdlib.op import Array
from tests.runtime.padded_models import TABLE, padded_plan, python_source

PlanMaker: TypeAlias = Callable[[Path, str], Plan]

SCHEDULE = "schedule {} {{ mean {{ batch {{ max = 8, wait = 5ms, pad = L{} }} }} }}"

LENGTHS = (3, 9, 1, 9, 5)


def python_plan(folder: Path, schedule: str) -> Plan:
    return compile_source(read_source(python_source(folder, schedule)))


def ids(length: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.arange(length, dtype=np.int64) % 16


def simulated(
    folder: Path, more: str = "", made: PlanMaker = padded_plan
) -> tuple[list[Outcome], Simulation]:
    """Ask once with each length, all at one moment; `outputs` are checked to be those of one."""
    simulation = Simulation(made(folder, SCHEDULE.format("embed", more)))
    outcomes = [
        simulation.submit(Request("embed", {"ids": ids(n), "mask": ids(n) * 0 + 1}))
        for n in LENGTHS
    ]
    simulation.run()
    for length, outcome in zip(LENGTHS, outcomes, strict=True):
        assert outcome.outputs is not None, outcome.fault
        mean = TABLE[ids(length)].sum(0) / np.float32(length)
        np.testing.assert_array_equal(np.asarray(outcome.outputs["y"]), mean)
        twice = np.asarray(outcome.outputs["z"])
        np.testing.assert_array_equal(twice, ids(length) * 2)
    simulation.close()
    return outcomes, simulation


def batches(simulation: Simulation) -> list[int]:
    return sorted(rows for _, name, rows in simulation.runs if name == "mean")


def test_rows_of_different_length_of_several_requests_meet_and_get_what_is_theirs(
    tmp_path: Path,
) -> None:
    _, simulation = simulated(tmp_path)
    counts = simulation.metrics.stage("mean")
    assert (batches(simulation), counts.padded, counts.mixed) == ([5], 3, 1)


def test_only_rows_of_one_bucket_meet(tmp_path: Path) -> None:
    _, simulation = simulated(tmp_path, ", bucket = L / 4")
    assert batches(simulation) == [1, 2, 2]  # 5; 3 and 1; 9 and 9
    assert simulation.metrics.stage("mean").padded == 1


def test_what_would_be_too_much_padding_waits_for_another_batch(tmp_path: Path) -> None:
    _, simulation = simulated(tmp_path, ", waste = 0.25")
    assert batches(simulation) == [1, 2, 2]  # 1; 3 and 5 (two of ten are padding); 9 and 9


def test_rows_of_a_model_in_python_meet_alike(tmp_path: Path) -> None:
    _, simulation = simulated(tmp_path, ", bucket = L / 4", python_plan)
    assert batches(simulation) == [1, 2, 2]  # 5; 3 and 1; 9 and 9
    counts = simulation.metrics.stage("mean")
    assert (counts.padded, counts.mixed) == (1, 2)


def test_rows_of_one_request_meet_in_a_model_in_python(tmp_path: Path) -> None:
    plan = python_plan(tmp_path, SCHEDULE.format("many", ", waste = 0.5"))
    engine = Engine(plan)
    request = Request("many", {"rows": [ids(n) for n in LENGTHS]})
    found = np.stack(cast("list[Array]", engine.call(request).outputs["y"]))
    means = [TABLE[ids(n)].sum(0) / np.float32(n) for n in LENGTHS]
    np.testing.assert_array_equal(found, np.stack(means))
    (counts,) = [one for one in engine.metrics.stages if one.name == "mean" and one.executions]
    assert (counts.executions, counts.rows, counts.padded) == (1, 5, 3)
    engine.close()


def test_without_a_schedule_nothing_is_filled_up_and_nothing_changes(tmp_path: Path) -> None:
    found: list[object] = []
    counted: list[tuple[int, int, int]] = []
    for schedule in ("", SCHEDULE.format("many", "")):
        engine = Engine(padded_plan(tmp_path, schedule))
        request = Request("many", {"rows": [ids(n) for n in LENGTHS]})
        found += [np.stack(cast("list[Array]", engine.call(request).outputs["y"]))]
        stages = [one for one in engine.metrics.stages if one.name == "mean" and one.executions]
        counted += [(one.executions, one.rows, one.padded) for one in stages]
        engine.close()
    assert counted == [(5, 5, 0), (1, 5, 3)]
    np.testing.assert_array_equal(found[0], found[1])


def test_a_row_whose_inputs_do_not_agree_is_not_filled_up_to_hide_it(tmp_path: Path) -> None:
    plan = padded_plan(tmp_path, SCHEDULE.format("embed", ""), optimise=False)
    stages = Stages(plan)
    stage = next(one for one in stages.all if one.name == "mean" and one.policy is not None)
    lengths = [(4, 4), (4, 6), (6, 6)]
    columns = [Rows.of([ids(pair[side]) for pair in lengths]) for side in (0, 1)]
    one, other, third = stage.split(columns, 3)
    assert (one.key == third.key, one.size, third.size) == (True, 4, 6)
    assert other.key != one.key
    stages.close()


def test_the_plan_says_who_meets_and_keeps_it_in_its_file(tmp_path: Path) -> None:
    plan = padded_plan(tmp_path, SCHEDULE.format("embed", ", bucket = L / 64, waste = 0.2"))
    assert "pad L where L / 64 is equal to a waste of 0.2" in dict(plan.explanation)["plan"]
    (padded,) = [
        one
        for one in plan_file.read(plan_file.to_bytes(plan)).segments
        if isinstance(one, ModelSegment) and one.batching is not None
    ]
    (pads,) = padded.pads
    assert pads.fill == (0, 0)
    assert padded.batching == Batching(8, 0.005, (), Padding(pads.dim, 64, 0.2))


# ---- the decision


WAITING = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 40)), min_size=1, max_size=12)


def share(rows: list[int]) -> float:
    """Return which share of a batch of rows of these sizes is padding."""
    whole = max(rows) * len(rows)
    return (whole - sum(rows)) / whole if whole else 0.0


@given(WAITING, st.integers(1, 12), st.integers(0, 12), st.sampled_from([0.0, 0.2, 0.5, 0.9]))
def test_no_batch_holds_more_padding_than_allowed(
    waiting: list[tuple[int, int]], target: int, whole: int, waste: float
) -> None:
    taken = gather(waiting, target, whole, waste)
    assert taken[0][0] == 0
    rows = [waiting[index][1] for index, count in taken for _ in range(count)]
    assert 1 <= len(rows) <= target
    assert share(rows) <= waste + 1e-9


@given(
    WAITING,
    st.integers(1, 8),
    st.sets(st.integers(1, 8), max_size=2),
    st.sampled_from([0.0, 0.3, 0.8, None]),
)
def test_every_row_is_taken_once_and_no_batch_is_too_large_or_too_empty(
    waiting: list[tuple[int, int]], maximum: int, prefer: set[int], waste: float | None
) -> None:
    sizes = tuple(sorted(size for size in prefer if size <= maximum))
    padding = Padding(DimVar("L"), None, waste)
    batcher: Batcher[int] = Batcher(Batching(maximum, 1.0, sizes, padding))
    for owner, (count, size) in enumerate(waiting):
        assert batcher.add([Entry(owner, count, size=size)], 0.0)
    taken = [0] * len(waiting)
    while batcher.waiting:
        assert (due := batcher.next_due()) is not None
        assert due <= 1.0
        batch = batcher.take(1.0)
        assert batch is not None
        rows = [one.entry.size for one in batch.slices for _ in range(one.stop - one.start)]
        assert 1 <= batch.rows == len(rows) <= maximum
        assert waste is None or share(rows) <= waste + 1e-9
        for one in batch.slices:
            assert one.start == taken[one.entry.owner]
            taken[one.entry.owner] = one.stop
    assert taken == [count for count, _ in waiting]


@pytest.mark.parametrize(("size", "ready"), [(10, True), (1, False)])
def test_rows_that_may_not_meet_do_not_make_a_batch_full(size: int, ready: bool) -> None:
    padding = Padding(DimVar("L"), None, 0.2)
    batcher: Batcher[int] = Batcher(Batching(2, 1.0, (), padding))
    batcher.add([Entry(0, 1, size=10)], 0.0)
    batcher.add([Entry(1, 1, size=size)], 0.0)
    assert (batcher.take(0.5) is not None) == ready


def test_b18_a_request_is_not_cut_to_fill_a_batch_that_is_padded() -> None:
    assert gather([(5, 4), (5, 4)], 8, 8, 0.5) == [(0, 5)]
    assert gather([(5, 4), (5, 4)], 8, 0, 0.5) == [(0, 5), (1, 3)]  # preferred sizes matter more
