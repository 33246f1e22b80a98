"""Pipelines that keep state: called here, by workers, and in any interleaving."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace.dsl.source import Source
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import Code, Fault, InSequence, Request, RequestError
from headrace.runtime.rows import Rows
from headrace.runtime.sequences import Turn
from headrace.runtime.simulate import Outcome, Simulation
from headrace.runtime.turns import Sequences
from headrace.sequence import Sequence
from headrace.testing import run_tests

TOYS = """
def checked(x):
    if x == 13:
        raise ValueError("thirteen")
    return x
"""
SOURCE = """
fn checked(x: f32) -> (y: f32) = python "toys.py:checked"

pipeline gather(x: f32) -> (n: i64, all: f32[_]) per sequence idle 30s {
    state n: i64 = 0
    state seen: f32[_] = []
    grown = concat(seen, [x])
    next seen = grown
    next n = n + 1
    return n = n + 1 + cast(checked(x) * 0, i64), all = grown
}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> headrace.CompiledPlan:
    folder = tmp_path_factory.mktemp("state")
    (folder / "toys.py").write_text(TOYS)
    (folder / "p.pipe").write_text(SOURCE)
    return headrace.compile(folder / "p.pipe")


@pytest.fixture
def app(plan: headrace.CompiledPlan) -> Iterator[headrace.App]:
    with headrace.load(plan, workers=2) as app:
        yield app


def asked(x: float, id: int | str, *, start: bool = False, end: bool = False) -> Request:
    return Request("gather", {"x": np.float32(x)}, sequence=InSequence(id, start, end))


def run_through(sequences: Sequences, turn: Turn) -> None:
    """Let a request leave what it has found."""
    sequences.finish(turn, [Rows.one(value) for value in sequences.begin(turn)])


def test_calls_of_one_sequence_go_on_and_those_of_another_begin_anew(app: headrace.App) -> None:
    with app.gather.sequence() as one, app.gather.sequence(id="two") as two:
        assert one(x=1).all.tolist() == [1]
        assert two(x=9).all.tolist() == [9]
        assert one(x=2).all.tolist() == [1, 2]
        assert one.submit(x=3).result().all.tolist() == [1, 2, 3]
        assert asyncio.run(one.aio(x=4)).n == 4
        assert one(x=5, outputs=["n"]).n == 5
        assert one(x=6).all.tolist() == [1, 2, 3, 4, 5, 6]
        one.restart()
        assert one(x=7).all.tolist() == [7]


def test_a_call_that_fails_leaves_the_state_as_it_was(app: headrace.App) -> None:
    with app.gather.sequence() as calls:
        calls(x=1)
        with pytest.raises(Fault, match="thirteen"):
            calls(x=13)
        with pytest.raises(Fault, match="thirteen"):
            calls.submit(x=13).result()
        with pytest.raises(RequestError, match="expected f32"):
            calls(x="one")
        assert calls(x=2).all.tolist() == [1, 2]


def test_a_first_call_that_fails_is_first_again(app: headrace.App) -> None:
    with app.gather.sequence() as calls:
        with pytest.raises(Fault, match="thirteen"):
            calls(x=13)
        assert calls(x=1).n == 1


def test_a_state_is_nobody_else_s_array() -> None:
    source = """
pipeline last(x: f32[2]) -> (y: f32[2]) per sequence {
    state kept: f32[2] = zeros
    next kept = x
    return y = kept
}
"""
    with headrace.load(source) as app, app.last.sequence() as calls:
        x = np.ones(2, np.float32)
        calls(x=x)
        x[:] = 5
        given = calls(x=x).y
        assert given.tolist() == [1, 1]


def test_what_is_not_called_as_it_must_be_is_told_so(app: headrace.App) -> None:
    with pytest.raises(RequestError, match=r"`gather` keeps state .* `gather.sequence\(\)`"):
        app.gather(x=1)
    with pytest.raises(RequestError, match="keeps state"):
        app.gather.submit(x=1)
    with headrace.load("pipeline p(x: f32) -> (y: f32) {\n return y = x\n}") as plain:
        with pytest.raises(RequestError, match="not `per sequence`"):
            plain.p.sequence()
        engine = plain.workers_engine()
        with pytest.raises(RequestError, match="keeps nothing for a sequence"):
            engine.call(Request("p", {"x": np.float32(1)}, sequence=InSequence(1, start=True)))


TOLD = """
pipeline told(x: f32) -> (first: bool, last: bool, ready: bool, id: string) per sequence {
    return first = sequence.start, last = sequence.end, ready = sequence.ready, id = sequence.id
}

pipeline numbered(x: f32) -> (id: u64, n: i64) per sequence {
    state n: i64 = 0
    next n = if sequence.start { 1 } else { n + 1 }
    return id = sequence.number, n = n
}
"""


def test_a_pipeline_reads_whether_a_request_is_the_first_or_the_last_and_whose_it_is() -> None:
    with headrace.load(TOLD, workers=2) as app:
        calls = app.told.sequence("mic")
        assert tuple(calls(x=1)) == (True, False, True, "mic")
        assert tuple(calls.submit(x=1).result()) == (False, False, True, "mic")
        assert tuple(calls.last(x=1)) == (False, True, True, "mic")
        assert tuple(calls(x=1)) == (True, False, True, "mic")
        largest = app.numbered.sequence(2**64 - 1)
        assert [tuple(map(int, largest(x=1))) for _ in range(2)] == [(2**64 - 1, 0), (2**64 - 1, 1)]
        assert app.numbered.sequence()(x=1).n == 0


def test_a_test_is_a_sequence_of_its_own_with_an_id_as_the_pipeline_reads_it() -> None:
    each = """
test "counts" for numbered {
    given x = 1
    expect n == 0
    given x = 1
    expect n == 1
}
test "is told" for told {
    given x = 1
    expect first
    given x = 1
    expect not first
}
"""
    results = list(run_tests(Source("<text>", TOLD + each)))
    assert [result.failures for result in results] == [(), ()]


def test_a_number_is_no_text_where_ids_are_read() -> None:
    with headrace.load(TOLD) as app:
        with pytest.raises(RequestError, match=r"`told`: .* are texts, for it reads them; 1 is"):
            app.told.sequence(1)(x=1)
        with pytest.raises(RequestError, match="are numbers of 64 bits, for it reads them"):
            app.numbered.sequence("1")(x=1)
        for strange in (True, 1.0, b"1", -1, 1 << 64):
            with pytest.raises(TypeError, match=r"a number from 1 to 2\*\*64 - 1 or a text"):
                app.told.sequence(strange)  # type: ignore[arg-type]


COUNT = """
fn checked(x: f32) -> (y: f32) = python "toys.py:checked"

pipeline count(x: f32) -> stream (n: i64) per sequence {
    state n: i64 = 0
    last = loop (at: i64 = n) max 3 {
        emit n = at + cast(checked(x) * 0, i64)
        next at = at + 1
    }
    next n = last
}
"""


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[headrace.App]:
    (tmp_path / "toys.py").write_text(TOYS)
    (tmp_path / "p.pipe").write_text(COUNT)
    with headrace.load(tmp_path / "p.pipe", workers=2) as app:
        yield app


def test_a_stream_keeps_its_state_when_it_has_ended_well(streams: headrace.App) -> None:
    async def read(calls: Sequence) -> list[int]:
        return [int(one.n) async for one in calls.aio_stream(x=1)]

    calls = streams.count.sequence()
    assert [int(one.n) for one in calls.stream(x=1)] == [0, 1, 2]
    assert asyncio.run(read(calls)) == [3, 4, 5]
    assert [int(n) for n in calls(x=1).n] == [6, 7, 8]
    assert [int(n) for n in calls.submit(x=1).result().n] == [9, 10, 11]
    with pytest.raises(Fault, match="thirteen"):
        list(calls.stream(x=13))
    left = calls.stream(x=1)
    assert int(next(left).n) == 12
    waiting = calls.submit(x=1)  # it has its turn when nobody reads the other any more
    assert not waiting.done()
    del left
    assert [int(n) for n in waiting.result().n] == [12, 13, 14]


def test_a_stream_of_a_sequence_is_asked_for_as_such(streams: headrace.App) -> None:
    with pytest.raises(RequestError, match="keeps state for a sequence"):
        list(streams.count.stream(x=1))
    calls = streams.count.sequence()
    with pytest.raises(Fault, match="thirteen"):
        list(calls.stream(x=13))
    assert [int(one.n) for one in calls.stream(x=1)] == [0, 1, 2]


def test_requests_of_a_sequence_run_in_order_whoever_runs_them(plan: headrace.CompiledPlan) -> None:
    engine = Engine(plan.plan, EngineConfig(workers=4, intra_op_threads=1))
    futures = {
        (id, i): engine.submit(asked(-i, id, start=i == 0, end=i == 39))
        for i in range(40)
        for id in ("a", "b", "c")
    }
    for (_, i), future in futures.items():
        assert future.result().outputs["n"] == i + 1
    assert len(engine.sequences["gather"]) == 0
    engine.close()


def test_a_call_waits_for_those_before_it(plan: headrace.CompiledPlan) -> None:
    engine = Engine(plan.plan, EngineConfig(workers=1, intra_op_threads=1))
    sequences = engine.sequences["gather"]
    first = sequences.ask(InSequence(1, start=True))
    got: list[int] = []
    caller = threading.Thread(
        target=lambda: got.append(int(engine.call(asked(2, 1)).outputs["n"])),  # type: ignore[arg-type]
        daemon=True,
    )
    caller.start()
    later = engine.submit(asked(3, 1))
    with pytest.raises(Fault) as error:
        engine.call(asked(1, 1)._replace(deadline=0.0))
    assert error.value.code is Code.DEADLINE
    assert not later.done()
    run_through(sequences, first)
    caller.join()
    assert {got[0], int(later.result().outputs["n"])} == {1, 2}  # type: ignore[arg-type]
    engine.close()


def test_a_request_that_waits_for_its_turn_can_be_late_cancelled_or_closed(
    plan: headrace.CompiledPlan,
) -> None:
    engine = Engine(plan.plan, EngineConfig(workers=1, intra_op_threads=1))
    sequences = engine.sequences["gather"]
    first = sequences.ask(InSequence(1, start=True))
    late = engine.submit(asked(1, 1)._replace(deadline=engine.config.clock() + 0.02))
    with pytest.raises(Fault) as error:
        late.result()
    assert error.value.code is Code.DEADLINE
    cancelled, waiting = engine.submit(asked(2, 1)), engine.submit(asked(3, 1))
    last = [engine.submit(asked(4, 1)) for _ in range(500)]
    assert cancelled.cancel()
    run_through(sequences, first)
    assert waiting.result().outputs["n"] == 1
    assert last[-1].result().outputs["n"] == 501
    second = sequences.ask(InSequence(1))
    stuck = [engine.submit(asked(5, 1)) for _ in range(500)]
    engine.close()
    for future in stuck:
        with pytest.raises(Fault, match="closed"):
            future.result()
    sequences.finish(second, None)


def test_no_more_sequences_are_open_than_there_is_room_for(plan: headrace.CompiledPlan) -> None:
    engine = Engine(plan.plan, EngineConfig(workers=1, intra_op_threads=1, sequences=2))
    engine.call(asked(1, 1, start=True))
    engine.call(asked(1, 2, start=True))
    with pytest.raises(Fault, match="2 sequences are open") as error:
        engine.submit(asked(1, 3, start=True))
    assert error.value.code is Code.OVERLOADED
    engine.call(asked(1, 2, end=True))
    engine.call(asked(1, 3, start=True))
    engine.close()


def test_what_is_silent_is_forgotten_without_a_request() -> None:
    source = SOURCE.replace("idle 30s", "idle 20ms").replace("checked(x)", "x")
    source = source[source.index("pipeline") :]
    plan = headrace.compile(source).plan
    engine = Engine(plan, EngineConfig(workers=1, intra_op_threads=1))
    sequences = engine.sequences["gather"]
    engine.submit(asked(1, 1, start=True)).result()
    gone = threading.Event()
    watched = sequences.next_expiry
    limit = engine.config.clock() + 5
    while len(sequences) and engine.config.clock() < limit:
        gone.wait(0.005)
    assert len(sequences) == 0
    assert watched() is None
    with pytest.raises(Fault, match=r"silent for 0\.02 s"):
        engine.call(asked(1, 1))
    engine.close()


@given(
    seed=st.integers(0, 10**6),
    workers=st.integers(1, 4),
    requests=st.lists(
        st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([1, 1, 1, 2, 13])), max_size=25
    ),
    cancelled=st.sets(st.integers(0, 24), max_size=3),
)
def test_in_any_interleaving_each_sequence_sees_its_own_past(
    plan: headrace.CompiledPlan,
    seed: int,
    workers: int,
    requests: list[tuple[int, int]],
    cancelled: set[int],
) -> None:
    simulation = Simulation(plan.plan, workers=workers, seed=seed)
    begun: set[int] = set()
    outcomes: list[tuple[int, int, Outcome]] = []
    for i, (id, x) in enumerate(requests):
        try:
            outcome = simulation.submit(asked(x, id, start=id not in begun))
        except Fault as fault:
            outcome = Outcome()
            outcome.fail(fault)
        begun.add(id)
        outcomes.append((id, x, outcome))
        if i in cancelled:
            simulation.run(until=simulation.now + 0.001)
            simulation.cancel(outcome)
    simulation.run()
    assert simulation.in_flight == 0
    past: dict[int, list[float]] = {}
    first: set[int] = set()
    for id, x, outcome in outcomes:
        assert outcome.answers == 1
        starts = id not in first
        first.add(id)
        if outcome.outputs is not None:
            assert starts or id in past
            past.setdefault(id, []).append(x)
            assert outcome.outputs["n"] == len(past[id])
            assert np.asarray(outcome.outputs["all"]).tolist() == past[id]
        elif outcome.fault is not None and outcome.fault.code is not Code.CANCELLED:
            never = not starts and id not in past
            assert outcome.fault.code is (Code.INVALID if never else Code.FAILED)
    simulation.close()
