"""An app whose plan is replaced while it is called."""

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.request import Code, Fault
from tests.runtime.repository.plans import GATES, LoadGate, adding, stopping, summing
from tests.runtime.repository.test_shared import run_all, sessions

STREAM = """\
pipeline count(n: i64) -> stream (i: i64) {
    _ = loop (at: i64 = n + START) max 3 {
        emit i = at
        next at = at + 1
    }
}
"""

LONG = """\
pipeline count(n: i64) -> stream (i: i64) {
    loop (at: i64 = 0) max n {
        emit i = at
        next at = at + 1
    }
}
"""

PLACES = """\
pipeline total(x: f32) -> (sum: f32) per sequence idle 1h {
    state sum: f32 = 0
    next sum = sum + x
    return sum = sum + x
}
schedule total { sequences { strategy = oldest, max = 1, backlog = 3 } }
"""
STATE = """\
pipeline count(n: i64) -> stream (i: i64) per sequence idle 30s {
    state last: i64 = 0
    _ = loop (at: i64 = last) max 3 {
        emit i = at
        next at = at + 1
    }
    next last = last + n
}
"""


@pytest.fixture(params=[1, 2], ids=["one engine", "two engines"])
def load(request: pytest.FixtureRequest) -> Iterator[Callable[[Plan | str], headrace.App]]:
    apps: list[headrace.App] = []

    def begin(plan: Plan | str) -> headrace.App:
        threads = 1 if request.param == 1 else None
        apps.append(headrace.load(plan, workers=request.param, intra_op_threads=threads))
        return apps[-1]

    yield begin
    for gate in GATES.values():
        gate.open()
    GATES.clear()
    for app in apps:
        app.close()


def settled() -> None:
    """Wait until what was replaced is closed."""
    for thread in threading.enumerate():
        if thread.name == "headrace-finish":
            thread.join(20)


Load = Callable[[Plan | str], headrace.App]


def test_another_plan_answers_and_what_was_held_of_the_app_goes_on(load: Load) -> None:
    app = load(adding(1.0))
    held = app.p
    assert (held(x=[0.0]).y, held.submit(x=[0.0]).result().y) == ([1.0], [1.0])
    app.update(adding(2.0))
    assert (held(x=[0.0]).y, held.submit(x=[0.0]).result().y) == ([2.0], [2.0])
    assert app.p is held
    assert app.plan.segments == adding(2.0).segments
    settled()
    assert sum(one.pipeline("p").successes for one in app.metrics) == 4


def test_a_plan_that_cannot_be_loaded_changes_nothing(load: Load) -> None:
    app = load(adding(1.0))
    GATES["bad"] = LoadGate(broken=True, shut=False)
    with pytest.raises(Exception, match="no such weights"):
        app.update(adding(2.0, gate="bad"))
    assert app.p(x=[0.0]).y == [1.0]


@pytest.mark.slow
def test_no_call_fails_while_plans_are_replaced(load: Load) -> None:
    app = load(adding(1.0))
    stop = threading.Event()
    answers: list[float] = []

    def call() -> None:
        while not stop.is_set():
            answers.append(float(app.p(x=[0.0]).y[0]))

    def submit() -> None:
        while not stop.is_set():
            answers.append(float(app.p.submit(x=[0.0]).result(20).y[0]))

    def change() -> None:
        try:
            for amount in range(20):
                app.update(adding(float(amount % 3)))
        finally:
            stop.set()

    run_all([change, call, call, submit, submit])
    settled()
    assert set(answers) <= {0.0, 1.0, 2.0}
    assert sum(one.pipeline("p").successes for one in app.metrics) == len(answers)


def test_a_call_under_way_ends_on_the_plan_it_began_on(load: Load) -> None:
    gate = GATES["run"] = LoadGate()
    app = load(stopping("run"))
    running = app.p.submit(x=[5.0])
    gate.entered()
    app.update(adding(1.0))
    assert app.p(x=[5.0]).y == [6.0]
    gate.open()
    assert running.result(20).y == [5.0]


def test_a_sequence_ends_on_the_plan_it_began_on(load: Load) -> None:
    app = load(summing(0.0))
    old, other = app.sum.sequence(1), app.sum.sequence(2)
    assert old(x=1.0).total == 1.0
    app.update(summing(100.0))
    assert other(x=1.0).total == 101.0
    assert old.submit(x=1.0).result(20).total == 2.0
    assert old.last(x=1.0).total == 3.0
    settled()
    assert old(x=1.0).total == 101.0
    assert other(x=1.0).total == 102.0


def test_a_stream_under_way_ends_on_the_plan_it_began_on(load: Load) -> None:
    app = load(STREAM.replace("START", "0"))
    stream = app.count.stream(n=0)
    first = next(stream)
    app.update(STREAM.replace("START", "50"))
    assert [record.i for record in (first, *stream)] == [0, 1, 2]
    assert [record.i for record in app.count.stream(n=0)] == [50, 51, 52]


def test_streams_that_nobody_reads_on_hold_up_no_close(load: Load) -> None:
    """Neither on the plan that answers, nor on one that was replaced."""
    app = load(STREAM.replace("START", "0"))
    old = app.count.stream(n=0)
    next(old)
    app.update(STREAM.replace("START", "50"))
    new = app.count.stream(n=0)
    reader = threading.Thread(target=next, args=(new,))  # which is gone when the app is closed
    reader.start()
    reader.join()
    app.close()
    for stream in (old, new):
        with pytest.raises(Fault, match="closed before the stream was read") as caught:
            next(stream)
        assert caught.value.code is Code.UNAVAILABLE


async def rest(stream: AsyncIterator[Any], found: list[int]) -> None:
    async for one in stream:
        found.append(one.i)


async def read_until_closed(app: headrace.App, stream: AsyncIterator[Any]) -> None:
    """Close the app while a stream is read, in its reader's own thread."""
    found = [(await anext(stream)).i]
    app.close()
    with pytest.raises(Fault, match="closed before the stream was read") as caught:
        await rest(stream, found)
    assert caught.value.code is Code.UNAVAILABLE
    assert found == list(range(len(found)))
    assert len(found) >= 16


def test_streams_of_workers_that_wait_for_their_reader_hold_up_no_close(load: Load) -> None:
    app = load(LONG)
    stream = app.count.aio_stream(n=1000)
    asyncio.run(asyncio.wait_for(read_until_closed(app, stream), 20))


def test_nor_do_those_that_have_waited_for_their_turn(load: Load) -> None:
    kept = "{\n    state kept: i64 = 0\n    next kept = n"
    app = load(LONG.replace(" {", f" per sequence {kept}", 1))

    async def read() -> None:
        calls = app.count.sequence("a")
        before, stream = calls.aio_stream(n=1), calls.aio_stream(n=1000)
        await anext(before)
        first = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)  # it has asked for its turn
        await rest(before, [])
        assert (await first).i == 0
        app.close()
        found: list[int] = []
        with pytest.raises(Fault, match="closed before the stream was read"):
            await rest(stream, found)
        assert len(found) >= 15

    asyncio.run(asyncio.wait_for(read(), 20))


def test_who_waits_for_a_stream_that_nobody_reads_on_holds_up_no_close(load: Load) -> None:
    app = load(STATE)
    stream = app.count.sequence(1).stream(n=0)
    next(stream)
    waiting: list[object] = [app.count.sequence(1).submit(n=0)]
    callers = [threading.Thread(target=lambda: waiting.append(app.count.sequence(1)(n=0)))]
    callers[0].start()
    (sequences,) = app._loaded.engine.sequences.values()  # pyright: ignore[reportPrivateUsage] who waits is told nowhere
    while not sequences._callers:  # pyright: ignore[reportPrivateUsage] nor this
        callers[0].join(0.001)
    app.close()
    callers[0].join(20)
    assert not callers[0].is_alive()


def test_who_waits_for_the_place_of_a_silent_sequence_gets_it_at_the_close(load: Load) -> None:
    """For nobody can go on with that any more. So it is on a plan that was replaced, too."""
    app = load(PLACES)
    for plan in (None, PLACES):
        if plan is not None:
            app.update(plan)
        app.total.sequence(1)(x=1)
    waiting = [app.total.sequence(id).submit(x=id) for id in (2, 3)]
    called: list[float] = []
    caller = threading.Thread(target=lambda: called.append(app.total.sequence(4)(x=4).sum))
    caller.start()
    (sequences,) = app._loaded.engine.sequences.values()  # pyright: ignore[reportPrivateUsage] who waits is told nowhere
    while sequences.waiting < 3:
        caller.join(0.001)
    app.close()
    caller.join(20)
    assert [one.result(20).sum for one in waiting] == [2, 3]
    assert called == [4]


def test_pipelines_come_and_go_with_the_plan(load: Load) -> None:
    app = load(adding(1.0, name="p"))
    held = app.p
    app.update(adding(1.0, name="q"))
    assert app.q(x=np.zeros(1, np.float32)).y == [1.0]
    settled()
    with pytest.raises(Fault) as caught:
        held(x=[0.0])
    assert caught.value.code is Code.UNAVAILABLE
    with pytest.raises(AttributeError, match="no pipeline `p`"):
        _ = app.p


@pytest.mark.slow
def test_models_that_both_plans_have_are_in_memory_once_and_the_others_go() -> None:
    before = weakref.WeakSet(sessions())
    with headrace.load(adding(1.0), workers=1) as app:
        app.update(adding(1.0, name="q"))
        app.update(adding(2.0))
        settled()
        gc.collect()
        assert len([one for one in sessions() if one not in before]) == 1
