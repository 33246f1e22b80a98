"""Loops, tries and streams, run: in the caller's thread, by workers, and simulated."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.exposition import expose
from headrace.runtime.repository.figures import figures_of
from headrace.runtime.repository.repository import Repository
from headrace.runtime.request import Code, Fault, Request, RequestError
from headrace.runtime.simulate import Simulation
from headrace.runtime.streams import ROOM

TURNS = """
pipeline grow(x: f32[N], most: i64) -> (ids: f32[M], n: i64) {
    ids, n = loop (ids: f32[_] = x, n: i64 = 0) max most {
        next ids = concat(ids, [0.5]), n = n + 1
        stop when n >= 3
    }
    return ids = ids, n = n
}

pipeline collatz(xs: i64[N], most: i64 = 200) -> (turns: i64[N], last: i64[N]) {
    r = for x in xs {
        end = loop (v: i64 = x, n: i64 = 0) max if x == 1 { 0 } else { most } {
            v2 = if v % 2 == 0 { v / 2 } else { 3 * v + 1 }
            next v = v2, n = n + 1
            stop when v2 == 1
        }
        yield turns = end.n, last = end.v
    }
    return turns = r.turns, last = r.last
}

pipeline totals(xs: i64[N], most: i64) -> (ys: i64[M]) batch 4 {
    sums = loop (s: i64 = 0, all: i64[_] = xs) max most {
        parts = for x in all { yield x * 2 when x < 100 }
        next s = s + len(all), all = parts
    }
    return ys = sums.all
}

pipeline count(most: i64, every: i64 = 1) -> stream (n: i64, twice: f32) {
    loop (n: i64 = 0) max most {
        emit n = n, twice = cast(n * 2, f32) when n % every == 0
        next n = n + 1
    }
}
"""


@pytest.fixture(scope="module")
def app() -> Iterator[headrace.App]:
    with headrace.load(headrace.compile(TURNS), workers=2) as app:
        yield app


def collatz(x: int) -> int:
    turns = 0
    while x != 1:
        x, turns = x // 2 if x % 2 == 0 else 3 * x + 1, turns + 1
    return turns


# ---- loops


@pytest.mark.parametrize(("most", "turns"), [(0, 0), (1, 1), (4, 4), (9, 4)])
def test_a_loop_takes_turns_until_it_stops_or_has_had_the_most(
    app: headrace.App, most: int, turns: int
) -> None:
    got = app.grow(x=np.ones(2, np.float32), most=most)
    assert got.n == turns
    assert got.ids.tolist() == [1, 1] + [0.5] * turns


def test_rows_stop_on_their_own_and_come_back_in_order(app: headrace.App) -> None:
    xs = [27, 1, 6, 97, 2, 1, 7]
    for got in (app.collatz(xs=xs), app.collatz.submit(xs=xs).result(10)):
        assert got.turns.tolist() == [collatz(x) for x in xs]
        assert got.last.tolist() == [1] * len(xs)


def test_a_loop_over_no_items_gives_none(app: headrace.App) -> None:
    assert app.collatz(xs=np.zeros(0, np.int64)).turns.tolist() == []


def test_a_for_in_a_loop_may_shorten_what_is_carried_to_nothing(app: headrace.App) -> None:
    got = app.totals(xs=[[60, 1], [200, 99]], most=[2, 1])
    assert [row.tolist() for row in got.ys] == [[4], [198]]


def test_a_negative_bound_fails_the_row_and_says_where(app: headrace.App) -> None:
    with pytest.raises(Fault, match="`max` of the loop is -1") as raised:
        app.grow(x=np.ones(2, np.float32), most=-1)
    assert raised.value.place is not None
    assert raised.value.place.line == 3


def test_a_stage_that_fails_in_a_loop_names_the_turn(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(
        "def f(x):\n    if x > 12:\n        raise ValueError('too much')\n    return x * 2\n"
    )
    (tmp_path / "p.pipe").write_text("""
fn f(x: i64) -> (y: i64) = python "f.py:f"
pipeline p(xs: i64[N]) -> (ys: i64[N]) {
    ys = for x in xs {
        y = loop (v: i64 = x) max 3 { next v = f(v) }
        yield y
    }
    return ys = ys
}
""")
    with headrace.load(tmp_path / "p.pipe") as app, pytest.raises(Fault, match="too much") as error:
        app.p(xs=[1, 7])
    assert error.value.item == (1, 1)


# ---- streams


def test_a_stream_is_read_one_by_one_or_as_a_whole(app: headrace.App) -> None:
    each = list(app.count.stream(most=4))
    assert [(int(one.n), float(one.twice)) for one in each] == [(n, 2 * n) for n in range(4)]
    whole = app.count(most=4)
    assert [int(n) for n in whole.n] == [0, 1, 2, 3]
    later = app.count.submit(most=4).result(10)
    assert [int(n) for n in later.n] == [0, 1, 2, 3]


def test_a_stream_in_this_thread_runs_no_further_than_it_is_read() -> None:
    with headrace.load(headrace.compile(TURNS)) as app:
        reader = app.count.stream(most=10**9)
        assert [int(next(reader).n) for _ in range(3)] == [0, 1, 2]


def test_emit_when_emits_only_then(app: headrace.App) -> None:
    assert [int(one.n) for one in app.count.stream(most=10, every=4)] == [0, 4, 8]


def test_a_stream_is_read_in_an_event_loop(app: headrace.App) -> None:
    async def read() -> list[int]:
        return [int(one.n) async for one in app.count.aio_stream(most=3 * ROOM)]

    assert asyncio.run(read()) == list(range(3 * ROOM))


def test_only_streams_can_be_read_as_one_and_inputs_are_checked_at_once(app: headrace.App) -> None:
    with pytest.raises(RequestError, match="is no stream"):
        app.grow.stream(x=np.ones(2, np.float32), most=1)
    with pytest.raises(RequestError, match="-> stream"):
        app.count.stream(few=3)
    with pytest.raises(RequestError, match="comes whole"):
        app.count(most=3, outputs=["n"])


def test_a_slow_reader_parks_the_request_which_costs_no_worker() -> None:
    engine = Engine(headrace.compile(TURNS).plan, EngineConfig(workers=1))
    told = threading.Event()
    stream = engine.open_stream(
        engine.pipeline("count"),
        {"most": 5 * ROOM},
        lambda one: int(np.asarray(one["n"])),
        told.set,
    )
    quick = engine.submit(Request("grow", {"x": np.ones(1, np.float32), "most": np.int64(1)}))
    assert quick.result(10).outputs["n"] == 1  # by the only worker
    found: list[int] = []
    while not stream.over:
        assert told.wait(10)
        told.clear()
        taken = stream.take()
        assert len(taken) <= ROOM
        found += taken
    assert found == list(range(5 * ROOM))
    engine.close()


def test_a_stream_that_is_cancelled_or_whose_engine_closes_ends() -> None:
    engine = Engine(headrace.compile(TURNS).plan, EngineConfig(workers=1))
    endless = {"most": 10**9}
    first = engine.open_stream(engine.pipeline("count"), endless, dict, lambda: None)
    first.cancel()
    assert engine.drain(10)
    assert engine.metrics.pipeline("count").failures == {"cancelled": 1}
    engine = Engine(headrace.compile(TURNS).plan, EngineConfig(workers=1))
    second = engine.open_stream(engine.pipeline("count"), endless, dict, lambda: None)
    engine.close()
    second.take()
    with pytest.raises(Fault) as raised:
        _ = second.over
    assert raised.value.code is Code.UNAVAILABLE


def test_a_parked_stream_goes_on_where_it_was_in_any_interleaving() -> None:
    plan = headrace.compile(TURNS).plan
    for seed in range(5):
        simulation = Simulation(plan, workers=2, seed=seed)
        outcomes = [simulation.submit(Request("count", {"most": np.int64(12)})) for _ in range(3)]
        for outcome in outcomes:
            outcome.room = 5
        simulation.run()
        assert [len(outcome.emitted) for outcome in outcomes] == [5, 5, 5]
        assert simulation.in_flight == 3
        while any(outcome.parked for outcome in outcomes):
            for outcome in outcomes:
                if outcome.parked:
                    simulation.resume(outcome)
            simulation.run()
        for outcome in outcomes:
            assert [int(np.asarray(one["n"])) for one in outcome.emitted] == list(range(12))
            assert outcome.answers == 1
        simulation.close()


LISTS = """
pipeline given(xs: list<f32[2]> = [[1, 2], [3, 4]]) -> (ys: f32[_, 2]) {
    return ys = xs * 2.0
}

pipeline carried(most: i64) -> (ys: f32[_, 2]) {
    xs = loop (xs: list<f32[2]> = [[1, 2], [3, 4]]) max most { next xs = xs }
    return ys = xs * 2.0
}

pipeline chosen(c: bool, xs: list<f32[2]>) -> (ys: f32[_, 2]) {
    zs = if c { xs } else { [[1, 2], [3, 4]] }
    return ys = zs * 2.0
}
"""


def test_a_list_that_is_written_down_is_one_to_an_op() -> None:
    with headrace.load(headrace.compile(LISTS), workers=1) as app:
        for got in (
            app.given(),
            app.given.submit().result(10),
            app.carried(most=1),
            app.chosen(c=False, xs=[]),
            app.chosen(c=True, xs=[[1, 2], [3, 4]]),
        ):
            assert got.ys.dtype == np.float32
            assert got.ys.tolist() == [[2, 4], [6, 8]]


# ---- tries

TRIES = """
fn big(x: f32) -> (y: f32) = python "f.py:big"
fn small(x: f32) -> (y: f32) = python "f.py:small"

pipeline each(xs: f32[N]) -> (ys: f32[N]) {
    ys = for x in xs {
        y = try big(x) else small(x)
        yield y
    }
    return ys = ys
}

pipeline soon(x: f32) -> (y: f32) {
    return y = try big(x) within 100ms else small(x)
}

pipeline inner(x: f32) -> (y: f32) {
    return y = try { try big(x) else big(-x) } within 10s else small(x)
}
"""
FUNCTIONS = """
import threading

gate = threading.Event()

def big(x):
    if x < 0:
        raise ValueError("negative")
    if x == 99:
        gate.wait(10)
    return x * 10

def bigs(xs):
    return [big(x) for x in xs]

def small(x):
    gate.set()
    return x
"""


def tries(tmp_path: Path, schedule: str = "") -> Plan:
    (tmp_path / "f.py").write_text(FUNCTIONS)
    text = TRIES.replace('"f.py:big"', '"f.py:bigs" batched') if schedule else TRIES
    (tmp_path / "p.pipe").write_text(text + schedule)
    return headrace.compile(tmp_path / "p.pipe").plan


def test_only_the_rows_that_fail_go_the_other_way(tmp_path: Path) -> None:
    with headrace.load(tries(tmp_path), workers=2) as app:
        for got in (app.each(xs=[1, -2, 3, -4]), app.each.submit(xs=[1, -2, 3, -4]).result(10)):
            assert got.ys.tolist() == [10, -2, 30, -4]
        assert app.each(xs=[1, 2]).ys.tolist() == [10, 20]
        (counts,) = {
            count for one in app.metrics for count in one.pipeline("each").fallbacks.values()
        }
    assert counts in (2, 4)  # per engine


def test_what_fell_back_is_counted_and_shown(tmp_path: Path) -> None:
    engine = Engine(tries(tmp_path), EngineConfig(workers=1))
    engine.call(Request("each", {"xs": np.array([1, -2, -3], np.float32)}))
    repository = Repository(engine.config)
    repository.adopt("p", engine)
    text = expose(figures_of(repository)).decode()
    engine.close()
    assert (
        'headrace_try_fallbacks_total{model="each",reason="failed",try="p.pipe:7:13",version="1"} '
        "2.0" in text
    )


def test_the_other_way_s_own_fault_is_the_request_s(tmp_path: Path) -> None:
    with headrace.load(tries(tmp_path)) as app:
        assert app.inner(x=-1).y == 10
        (tmp_path / "p.pipe").write_text(TRIES.replace("else small(x)", "else big(x)"))
    with headrace.load(tmp_path / "p.pipe") as app, pytest.raises(Fault, match="negative"):
        app.each(xs=[-1])


def test_workers_go_on_when_the_limit_passes_and_drop_what_comes_late(tmp_path: Path) -> None:
    with headrace.load(tries(tmp_path), workers=2) as app:
        # `big` waits for `small`, which runs only once `big` has been given up
        assert app.soon.submit(x=99).result(10).y == 99
        snapshot = app.metrics[-1].pipeline("soon")
    assert snapshot.fallbacks == {("p.pipe:14:16", "deadline"): 1}
    assert snapshot.successes == 1


def test_the_limit_of_an_outer_try_leaves_an_inner_one_no_other_way(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("import time\ndef nap(x):\n    time.sleep(0.1)\n    return x\n")
    (tmp_path / "p.pipe").write_text("""
fn nap(x: f32) -> (y: f32) = python "f.py:nap"
pipeline both(x: f32) -> (y: f32) {
    return y = try { try nap(x) within 10s else 7.0 } within 20ms else -x
}
""")
    with headrace.load(tmp_path / "p.pipe", workers=2) as app:
        assert app.both(x=1).y == -1
        assert app.both.submit(x=1).result(10).y == -1
        for one in app.metrics:
            assert set(one.pipeline("both").fallbacks) == {("p.pipe:4:16", "deadline")}


def simulated(plan: Plan, seed: int, slow: float, **options: Any) -> Simulation:
    costs = {"big": slow, "small": 0.001}
    return Simulation(plan, seed=seed, cost=lambda stage, _: costs.get(stage, 0.0), **options)


@pytest.mark.parametrize("schedule", ["", "schedule soon { big { batch { max = 4 } } }"])
def test_lateness_is_told_to_the_moment_on_a_fake_clock(tmp_path: Path, schedule: str) -> None:
    plan = tries(tmp_path, schedule)
    for seed in range(5):
        simulation = simulated(plan, seed, 0.5, workers=2)
        outcome = simulation.submit(Request("soon", {"x": np.float32(2)}))
        simulation.run()
        assert outcome.outputs == {"y": np.float32(2)}
        assert outcome.at == pytest.approx(0.101)
        quick = simulated(plan, seed, 0.05, workers=2)
        outcome = quick.submit(Request("soon", {"x": np.float32(2)}))
        quick.run()
        assert outcome.outputs == {"y": np.float32(20)}
        assert quick.metrics.pipeline("soon").fallbacks == {}
        simulation.close()
        quick.close()


def test_what_waits_too_long_in_a_queue_is_not_run_and_frees_its_place(tmp_path: Path) -> None:
    schedule = "schedule soon { big { batch { max = 1 }, queue { size = 8 } } }"
    simulation = simulated(tries(tmp_path, schedule), 0, 0.09, workers=1)
    outcomes = [simulation.submit(Request("soon", {"x": np.float32(n)})) for n in range(4)]
    simulation.run()
    assert [float(np.asarray((one.outputs or {})["y"])) for one in outcomes] == [0, 1, 2, 3]
    assert [stage for _, stage, _ in simulation.runs].count("big") < 4
    assert all(outcome.answers == 1 for outcome in outcomes)
    assert sum(simulation.metrics.pipeline("soon").fallbacks.values()) == [
        stage for _, stage, _ in simulation.runs
    ].count("small")
    simulation.close()


def test_a_full_queue_is_a_reason_to_go_the_other_way(tmp_path: Path) -> None:
    schedule = "schedule soon { big { batch { max = 1 }, queue { size = 1 } } }"
    simulation = simulated(tries(tmp_path, schedule), 0, 0.09)
    outcomes = [simulation.submit(Request("soon", {"x": np.float32(n)})) for n in range(6)]
    simulation.run()
    reasons = {reason for _, reason in simulation.metrics.pipeline("soon").fallbacks}
    assert all(outcome.outputs is not None for outcome in outcomes)
    assert reasons <= {"overloaded", "deadline"}
    simulation.close()


def test_a_request_s_own_deadline_is_no_reason_to_go_the_other_way(tmp_path: Path) -> None:
    simulation = simulated(tries(tmp_path), 0, 0.5, workers=2)
    outcome = simulation.submit(Request("soon", {"x": np.float32(2)}, deadline=0.05))
    simulation.run()
    assert outcome.fault is not None
    assert outcome.fault.code is Code.DEADLINE
    assert simulation.metrics.pipeline("soon").fallbacks == {}
    simulation.close()
