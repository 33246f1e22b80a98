"""Recordings as OpenTelemetry spans: parents, links to shared batches, errors, times."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import headrace
from headrace.runtime.observe.otel import Spans
from headrace.runtime.observe.recording import Recording
from headrace.runtime.observe.watch import Watched
from headrace.runtime.request import Fault, Request
from headrace.runtime.simulate import Simulation
from tests.runtime.observe.pipes import plan_in

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Made:
    """A sink, and the spans that it has made."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.sink = Spans(provider)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def made() -> Iterator[Made]:
    one = Made()
    yield one
    one.sink.close()


def record(folder: Path, pipeline: str, parent: str | None, **inputs: object) -> Recording:
    """Run one request, recorded."""
    with headrace.load(plan_in(folder), workers=1, intra_op_threads=1) as app:
        engine = app.workers_engine()
        recording = Recording(
            engine.pipeline(pipeline).plan,
            engine.config.clock,
            values=False,
            request_id="r-1",
            parent={} if parent is None else {"traceparent": parent},
        )
        prepared = engine.watched(pipeline, recording)
        assert isinstance(prepared, Watched)
        with suppress(Fault):
            engine.run(prepared, inputs)
    return recording


def test_the_callers_trace_is_continued(tmp_path: Path, made: Made) -> None:
    made.sink.take(record(tmp_path, "each", PARENT, xs=[1.0]))
    (request,) = made.named("each")
    assert request.parent is not None
    assert request.context is not None
    assert f"{request.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{request.parent.span_id:016x}" == "b7ad6b7169203331"
    for stage in ("plus", "double", "reject"):
        (span,) = made.named(stage)
        assert span.parent == request.context
        assert request.start_time <= span.start_time <= span.end_time <= request.end_time  # type: ignore[operator] ended
    assert request.attributes is not None
    assert request.attributes["headrace.request.id"] == "r-1"


def test_what_the_caller_does_not_sample_is_not_sent(tmp_path: Path, made: Made) -> None:
    made.sink.take(record(tmp_path, "each", PARENT[:-1] + "0", xs=[1.0]))
    assert made.spans == ()


def test_a_fault_is_an_error_of_the_stage_and_of_the_request(tmp_path: Path, made: Made) -> None:
    made.sink.take(record(tmp_path, "fails", None, x=5.0))
    for name in ("fails", "reject"):
        (span,) = made.named(name)
        assert span.status.status_code is StatusCode.ERROR
        assert "too much" in str(span.status.description)
        assert [event.name for event in span.events] == ["exception"]
    (fine,) = made.named("double")
    assert fine.status.status_code is StatusCode.UNSET


def test_a_shared_batch_is_one_span_that_each_request_links_to(tmp_path: Path, made: Made) -> None:
    simulation = Simulation(plan_in(tmp_path, schedule="server").plan, workers=2)
    recorded = [
        simulation.record(Request("slow", {"x": np.float32(x)}, str(x)))[1] for x in range(3)
    ]
    simulation.run()
    simulation.close()
    for recording in recorded:
        made.sink.take(recording)
    (batch,) = made.named("double batch")
    assert batch.parent is None
    assert batch.attributes is not None
    assert (batch.attributes["headrace.rows"], batch.attributes["headrace.requests"]) == (3, 3)
    calls = made.named("double")
    assert len(calls) == 3
    for call in calls:
        assert [link.context.span_id for link in call.links] == [batch.context.span_id]  # type: ignore[union-attr] it has one
    traces = {span.context.trace_id for span in calls if span.context is not None}
    assert len(traces) == 3
