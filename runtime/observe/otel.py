"""Recordings as OpenTelemetry spans.

One span a request, a child of the caller's where it told of one (W3C); below it one for each call
of a stage. A run that held rows of several requests is a span of its own, without a parent, to
which each of those calls has a link. The extra `otel` brings the library.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from .recording import Recording, Run, Span
from .sums import compute_of, sum_up, until

try:
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import (
        Link,
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        set_span_in_context,
    )
    from opentelemetry.trace import Span as Otel
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise ImportError(
        "OpenTelemetry is not installed: pip install 'headrace[otel]'", name=error.name
    ) from error

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

At: TypeAlias = Callable[[float], int]
"""Turns a moment on the engine's clock into nanoseconds since 1970."""

_REMEMBERED: Final = 4096  # runs that may still be linked to
_SHOWN: Final = 500  # characters of a message


def over_http(endpoint: str) -> "SpanExporter":
    """Return what sends spans to a collector: OTLP over HTTP, to `http://host:4318/v1/traces`."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint)


def provider_of(exporter: "SpanExporter") -> TracerProvider:
    """Return what makes spans and hands them to an exporter, in batches, in its own thread."""
    provider = TracerProvider(resource=Resource.create({"service.name": "headrace"}))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class Spans:
    """A sink. The provider is closed with it."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("headrace")
        self._propagator = TraceContextTextMapPropagator()
        self._runs: OrderedDict[str, SpanContext] = OrderedDict()

    def take(self, recording: Recording) -> None:
        """Make the spans of a recording that is over."""
        now, wall = recording.clock(), time.time_ns()

        def at(moment: float) -> int:
            return wall - int((now - moment) * 1e9)

        end = recording.ended if recording.ended is not None else now
        sums = sum_up(recording)
        request = self._tracer.start_span(
            recording.pipeline.name,
            self._propagator.extract(recording.parent, Context()),
            SpanKind.SERVER,
            {
                "headrace.pipeline": recording.pipeline.name,
                "headrace.request.id": recording.request_id[:_SHOWN],
                "headrace.line.seconds": sums.line,
                "headrace.queue.seconds": sums.queue,
                "headrace.compute.seconds": sums.compute,
            },
            start_time=at(recording.begun),
        )
        if request.is_recording():
            inside = set_span_in_context(request, Context())
            for fell in recording.fell:
                told = {"headrace.place": str(fell.place), "headrace.rows": fell.rows}
                request.add_event("fallback", told, at(fell.at))
            for span in recording.spans:
                self._call(span, inside, until(span, recording), at)
        if recording.fault is not None:
            _fail(request, recording.fault.code.value, str(recording.fault), at(end))
        request.end(at(end))

    def close(self) -> None:
        """Send what there is."""
        self._provider.shutdown()

    def _call(self, span: Span, inside: Context, end: float, at: At) -> None:
        links = [
            Link(self._shared(part.run, at), {"headrace.rows": part.rows})
            for part in span.parts
            if part.run.requests > 1
        ]
        call = self._tracer.start_span(
            span.stage,
            inside,
            SpanKind.INTERNAL,
            {
                "headrace.stage": span.stage,
                "headrace.place": str(span.place),
                "headrace.rows": span.rows,
                "headrace.compute.seconds": compute_of(span, end),
                "headrace.cache.hits": span.hits or 0,
                "headrace.copied.bytes": span.copied,
            },
            links,
            at(span.asked),
        )
        if span.fault is not None:
            _fail(call, span.fault.code.value, str(span.fault), at(end))
        call.end(at(end))

    def _shared(self, run: Run, at: At) -> SpanContext:
        """Return the span of a run that several requests shared, made by the first that asks."""
        known = self._runs.get(run.key)
        if known is None:
            made = self._tracer.start_span(
                f"{run.stage} batch",
                Context(),
                SpanKind.INTERNAL,
                {
                    "headrace.stage": run.stage,
                    "headrace.rows": run.rows,
                    "headrace.requests": run.requests,
                    "headrace.padded.rows": run.padded,
                    "thread.name": run.thread,
                },
                start_time=at(run.start),
            )
            made.end(at(run.stop))
            known = self._runs[run.key] = made.get_span_context()
            if len(self._runs) > _REMEMBERED:
                self._runs.popitem(last=False)
        return known


def _fail(span: Otel, code: str, message: str, at: int) -> None:
    span.set_status(Status(StatusCode.ERROR, message[:_SHOWN]))
    told = {"exception.type": code, "exception.message": message[:_SHOWN]}
    span.add_event("exception", told, at)
