"""What a trace tells of a request: the same answer, every value by name, times that add up."""

import asyncio
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.app import App
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.observe.recording import Recording
from headrace.runtime.observe.sums import covered
from headrace.runtime.observe.trace import Items, Trace
from headrace.runtime.request import Code, Fault, Request
from headrace.runtime.simulate import Simulation
from tests.runtime.forks import Toys
from tests.runtime.observe.pipes import TEXT, plan_in

MEETING = """
import meeting

def left(x):
    meeting.barrier.wait(20)
    return x + 1

def right(x):
    meeting.barrier.wait(20)
    return x * 2
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with headrace.load(plan_in(tmp_path), workers=2, intra_op_threads=1) as opened:
        yield opened


def check_sums(trace: Trace) -> None:
    """The equation of the sums holds, and no part is negative."""
    sums = trace.sums
    added = sums.line + sums.queue + sums.compute + sums.between - sums.at_once
    assert sums.total == pytest.approx(added, abs=1e-9)
    for part in (sums.line, sums.queue, sums.compute, sums.between, sums.at_once):
        assert part >= -1e-9
    assert sums.compute > 0


def test_a_trace_comes_with_the_answer_that_comes_without(app: App) -> None:
    plain = app.each(xs=[1, 2])
    answer, trace = app.each(xs=[1, 2], trace=True)
    np.testing.assert_array_equal(answer.ys, plain.ys)
    np.testing.assert_array_equal(answer.first, plain.first)
    assert trace.pipeline == "each"
    check_sums(trace)


def test_values_have_the_names_of_the_source_and_the_index_of_their_item(app: App) -> None:
    _, trace = app.each(xs=[1, 2, 3], trace=True)
    np.testing.assert_array_equal(trace["xs"], [1, 2, 3])
    np.testing.assert_array_equal(trace["first"], [11, 21, 31])
    twice = trace["twice"]
    assert isinstance(twice, Items)
    assert [(path, float(np.asarray(value))) for path, value in twice.items()] == [
        ((0,), 2.0),
        ((1,), 4.0),
        ((2,), 6.0),
    ]
    assert float(np.asarray(twice[1])) == 4.0
    assert {"x", "safe", "ys"} <= set(trace.names)
    assert [one.place.line for one in trace.values if one.name == "twice"] == [10]


def test_a_value_inside_of_a_model_is_said_to_be_there(app: App) -> None:
    _, trace = app.each(xs=[1], trace=True)
    with pytest.raises(KeyError, match="inside of the fused graph `plus`; compile with --no-fuse"):
        trace["scaled"]
    with pytest.raises(KeyError, match="did you mean `twice`"):
        trace["twise"]
    assert "scaled" not in trace


def test_a_value_of_an_arm_that_was_not_taken_was_not_made(tmp_path: Path) -> None:
    text = """
fn double(x: f32) -> (y: f32) = python "stages.py:double" pure
pipeline p(x: f32) -> (y: f32) {
    y = if x > 1 {
        much = double(x)
        much
    } else {
        x
    }
    return y = y
}
"""
    with headrace.load(plan_in(tmp_path, text)) as app:
        assert float(np.asarray(app.p(x=2.0, trace=True)[1]["much"])) == 4.0
        _, trace = app.p(x=0.5, trace=True)
        with pytest.raises(KeyError, match="`much` was not made for this request"):
            trace["much"]


def test_what_a_cache_held_and_what_fell_to_an_else_is_told(app: App) -> None:
    app.each(xs=[1, 2])
    _, trace = app.each(xs=[1, 2, 3], trace=True)
    hits = {span.stage: span.hits for span in trace.spans}
    assert (hits["double"], hits["plus"]) == (2, None)
    assert [(fell.place.line, fell.rows) for fell in trace.fallbacks] == [(11, 2)]
    text = str(trace)
    assert "2 of 3 from cache" in text
    assert "try at a.pipe:11:16: 2 rows went to its else" in text


def test_a_traced_request_is_counted_like_any_other(tmp_path: Path) -> None:
    counts: list[tuple[object, ...]] = []
    for trace in (False, True):
        with headrace.load(plan_in(tmp_path), workers=1, intra_op_threads=1) as app:
            for _ in range(3):
                app.each(xs=[1, 2, 3], trace=trace)
                app.each.submit(xs=[1, 2, 3], trace=trace).result()
            snapshot = app.metrics[0]
            pipeline, stage = snapshot.pipeline("each"), snapshot.stage("double")
            counts.append(
                (
                    pipeline.successes,
                    pipeline.fallbacks,
                    stage.executions,
                    stage.rows,
                    stage.cache_hits,
                    stage.cache_misses,
                    snapshot.stage("reject").rows,
                )
            )
    assert counts[0] == counts[1]


def test_a_submitted_a_awaited_and_a_batched_request_are_traced(app: App) -> None:
    _, submitted = app.each.submit(xs=[1, 2], trace=True).result(20)
    _, awaited = asyncio.run(app.each.aio(xs=[1, 2], trace=True))
    for trace in (submitted, awaited):
        check_sums(trace)
        assert [span.stage for span in trace.spans][:2] == ["plus", "double"]
        assert all(part.run.thread for span in trace.spans for part in span.parts)


def test_a_stream_is_traced_as_it_is_read(app: App) -> None:
    records, trace = app.counted.stream(n=3, trace=True)
    assert len(list(records)) == 3
    assert len(trace.recording.emitted) == 3
    assert "emitted 3 responses" in str(trace)

    async def read() -> Trace:
        records, trace = app.counted.aio_stream(n=2, trace=True)
        assert len([one async for one in records]) == 2
        return trace

    assert len(asyncio.run(read()).recording.emitted) == 2


def test_a_request_of_a_sequence_is_traced(app: App) -> None:
    with app.summed.sequence() as sums:
        sums(x=1.0)
        answer, trace = sums(x=2.0, trace=True)
        assert float(answer.y) == 6.0
        assert float(np.asarray(trace["total"])) == 1.0
        assert float(np.asarray(trace["sum"])) == 3.0
        _, submitted = sums.submit(x=2.0, trace=True).result(20)
        assert float(np.asarray(submitted["total"])) == 3.0


def test_a_fault_has_the_trace_of_its_request(app: App) -> None:
    with pytest.raises(Fault) as caught:
        app.fails(x=5.0, trace=True)
    with pytest.raises(Fault) as submitted:
        app.fails.submit(x=5.0, trace=True).result(20)
    for fault in (caught.value, submitted.value):
        assert fault.trace is not None
        assert fault.trace.fault is fault
        assert float(np.asarray(fault.trace["double"])) == 10.0
        assert "failed (failed)" in str(fault.trace)
        assert pickle.loads(pickle.dumps(fault)).trace is None


def test_an_input_called_trace_is_the_input(app: App) -> None:
    assert float(app.odd(trace=2.0).y) == 4.0
    with pytest.raises(TypeError, match="trace is True or False, not 'yes'"):
        app.each(xs=[1], trace="yes")


def test_what_is_not_traced_runs_as_it_was_bound(app: App) -> None:
    prepared = app.workers_engine().pipeline("each")
    before = prepared.whole
    app.each.submit(xs=[1], trace=True).result(20)
    assert app.workers_engine().pipeline("each") is prepared
    assert prepared.whole is before


def test_rows_of_two_requests_in_a_batch_see_each_other(tmp_path: Path) -> None:
    plan = plan_in(tmp_path, TEXT, schedule="server").plan
    simulation = Simulation(plan, workers=2, cost=lambda _stage, _rows: 0.002)
    recorded = [simulation.record(Request("slow", {"x": np.float32(x)}, str(x))) for x in range(3)]
    simulation.run()
    runs = []
    for outcome, recording in recorded:
        assert outcome.outputs is not None
        (span,) = [one for one in recording.spans if one.stage == "double"]
        ((run, rows),) = span.parts
        assert rows == 1
        assert (run.rows, run.requests) == (3, 3)
        runs.append(run)
        check = Trace(recording).sums
        assert check.total == pytest.approx(
            check.line + check.queue + check.compute + check.between - check.at_once
        )
    assert len({run.key for run in runs}) == 1
    assert "1 of 3" in str(Trace(recorded[0][1]))
    simulation.close()


def test_a_request_given_up_in_line_has_waited_all_of_its_time(tmp_path: Path) -> None:
    simulation = Simulation(plan_in(tmp_path).plan, cost=lambda _stage, _rows: 1.0)
    simulation.submit(Request("slow", {"x": np.float32(1)}))
    outcome, recording = simulation.record(Request("slow", {"x": np.float32(1)}, deadline=0.25))
    simulation.run()
    assert outcome.fault is not None
    assert outcome.fault.code is Code.DEADLINE
    sums = Trace(recording).sums
    assert (sums.total, sums.line) == pytest.approx((0.25, 0.25))
    simulation.close()


@pytest.mark.usefixtures("meeting")
def test_calls_at_once_are_taken_off_the_sum() -> None:
    engine = Engine(Toys(MEETING).joined().plan(), EngineConfig(workers=2, intra_op_threads=1))
    recording = Recording(engine.pipeline("p").plan, engine.config.clock, values=True)
    pipeline = engine.watched("p", recording)
    engine.dispatch(pipeline, {"x": 3.0}, dict).result(20)
    trace = Trace(recording)
    check_sums(trace)
    assert trace.sums.at_once > 0
    assert "- at once" in str(trace)
    engine.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the simulated device wants Linux")
def test_values_on_a_device_are_copied_to_the_host(tmp_path: Path) -> None:
    text = """
model plus = onnx "plus.onnx" (x: f32[N]) -> (y: f32[N])
pipeline p(x: f32[N]) -> (y: f32[N]) {
    near = plus(x)
    return y = near
}
schedule p on "placed" { plus { device = sim } }
"""
    with headrace.load(plan_in(tmp_path, text, schedule="placed")) as app:
        answer, trace = app.p(x=[1, 2], trace=True)
        np.testing.assert_array_equal(trace["near"], answer.y)
        copied = {span.stage: span.copied for span in trace.spans}
        assert copied == {"to sim": 8, "plus": 0, "to cpu": 8}
        assert "copied 0.0 KiB" in str(trace)


def test_time_is_covered_once_however_many_cover_it() -> None:
    assert covered([(0, 2), (1, 3), (5, 6), (5.2, 5.8)]) == pytest.approx(4.0)
    assert covered([]) == 0
