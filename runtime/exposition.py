"""Prometheus metrics: what was counted, under the names that dashboards know and our own.

It is read when it is scraped; nothing is counted twice and nothing is kept.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import asdict

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .awaiting import wait_until_done
from .custom_metrics import rendered
from .metrics import FIRST_RESPONSE_SECONDS, PipelineCounts, StageCounts
from .repository.figures import Figures
from .repository.model_counts import ModelCounts
from .repository.shadow import ShadowCounts
from .request import Code
from .service import Service

_MODEL = ("model", "version")
_STAGE = ("app", "stage")

# The reasons that dashboards know; what is not here is OTHER.
_REASONS = {
    Code.OVERLOADED.value: "REJECTED",
    Code.UNAVAILABLE.value: "REJECTED",
    Code.DEADLINE.value: "REJECTED",
    Code.CANCELLED.value: "CANCELED",
    Code.FAILED.value: "BACKEND",
}
_ALL_REASONS = ("REJECTED", "CANCELED", "BACKEND", "OTHER")
_NV_TOTAL = re.compile(rb"^((?:# (?:HELP|TYPE) )?nv_\w+?)_total\b", re.MULTILINE)
_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class FiguresCollector(Collector):
    """Yields the metrics of a server, which go on when a version is loaded anew."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        totals = self._figures.totals
        yield from _models(totals.models)
        yield from _pipelines(totals.pipelines)
        yield from _stages(totals.stages)
        yield from _shadows(self._figures.shadows)


def expose(figures: Figures) -> bytes:
    """Return figures in Prometheus' text format."""
    registry = CollectorRegistry()
    registry.register(FiguresCollector(figures))
    # The library ends every counter in `_total`; the names that dashboards ask for do not.
    return _NV_TOTAL.sub(rb"\1", generate_latest(registry)) + rendered(figures.families)


def metrics_app(service: Service) -> Starlette:
    """Return the application of the metrics port."""

    async def metrics(_: Request) -> Response:
        figures = service.figures()
        if isinstance(figures, Future):
            await wait_until_done(figures)
            figures = figures.result()
        return Response(expose(figures), media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[Route("/metrics", metrics)])


def _models(models: Mapping[tuple[str, str], ModelCounts]) -> Iterator[Metric]:
    failure = CounterMetricFamily(
        "nv_inference_request_failure", "Requests that failed", labels=(*_MODEL, "reason")
    )
    for model, counts in models.items():
        reasons: dict[str, int] = dict.fromkeys(_ALL_REASONS, 0)
        for code, count in counts.failures.items():
            reasons[_REASONS.get(code, "OTHER")] += count
        for reason, count in reasons.items():
            failure.add_metric((*model, reason), count)
    yield failure
    for name, text, read in _COUNTERS:
        counter = CounterMetricFamily(f"nv_{name}", text, labels=_MODEL)
        for model, counts in models.items():
            counter.add_metric(model, read(counts))
        yield counter


def _pipelines(pipelines: Mapping[tuple[str, str], PipelineCounts]) -> Iterator[Metric]:
    yield _first_responses(pipelines)
    pending = GaugeMetricFamily(
        "nv_inference_pending_request_count", "Requests that wait to start", labels=_MODEL
    )
    for model, pipeline in pipelines.items():
        pending.add_metric(model, pipeline.pending)
    yield pending
    flying = GaugeMetricFamily(
        "headrace_requests_in_flight",
        "Requests submitted that have no outcome yet, by priority level",
        labels=(*_MODEL, "level"),
    )
    for model, pipeline in pipelines.items():
        for level, count in (pipeline.levels or {1: 0}).items():
            flying.add_metric((*model, str(level)), count)
    yield flying
    fallbacks = CounterMetricFamily(
        "headrace_try_fallbacks",
        "Rows that went to the else of a try, by the fault of its body",
        labels=(*_MODEL, "try", "reason"),
    )
    for model, pipeline in pipelines.items():
        for (place, reason), count in pipeline.fallbacks.items():
            fallbacks.add_metric((*model, place, reason), count)
    yield fallbacks
    dropped = CounterMetricFamily(
        "headrace_dropped_by_deadline",
        "Requests given up before their deadline, by the stage that they waited for",
        labels=(*_MODEL, "stage"),
    )
    for model, pipeline in pipelines.items():
        for stage, count in pipeline.dropped.items():
            dropped.add_metric((*model, stage), count)
    yield dropped


def _first_responses(pipelines: Mapping[tuple[str, str], PipelineCounts]) -> Metric:
    histogram = HistogramMetricFamily(
        "nv_inference_first_response_histogram_ms",
        "Time from admission to the first response of a stream",
        labels=_MODEL,
    )
    for model, pipeline in pipelines.items():
        counts = pipeline.first_responses
        if not counts:
            continue
        bounds = (*FIRST_RESPONSE_SECONDS, math.inf)
        buckets = [
            (
                "+Inf" if bound == math.inf else str(bound * 1000),
                sum(count for within, count in counts.items() if within <= bound),
            )
            for bound in bounds
        ]
        histogram.add_metric(model, buckets, pipeline.response_seconds[0] * 1000)
    return histogram


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


_COUNTERS: tuple[tuple[str, str, Callable[[ModelCounts], int]], ...] = (
    ("inference_request_success", "Requests answered", lambda m: m.successes),
    ("inference_count", "Inferences: rows that were computed", lambda m: m.inferences),
    ("inference_exec_count", "Executions: batches that ran", lambda m: m.executions),
    (
        "inference_request_duration_us",
        "Time from admission to the answer",
        lambda m: _microseconds(m.duration_seconds),
    ),
    (
        "inference_queue_duration_us",
        "The part of it spent in queues",
        lambda m: _microseconds(m.queue_seconds),
    ),
    ("inference_compute_input_duration_us", "Part of compute_infer here", lambda _: 0),
    (
        "inference_compute_infer_duration_us",
        "The rest of it",
        lambda m: _microseconds(m.compute_seconds),
    ),
    ("inference_compute_output_duration_us", "Part of compute_infer here", lambda _: 0),
    ("cache_num_hits_per_model", "What a cache had kept", lambda m: m.hits),
    ("cache_num_misses_per_model", "What a cache had not kept", lambda m: m.misses),
)


def _shadows(shadows: Mapping[tuple[str, str], ShadowCounts]) -> Iterator[Metric]:
    copies = CounterMetricFamily(
        "headrace_shadow_copies",
        "Copies of requests that a version was shown, by what came of them",
        labels=(*_MODEL, "outcome"),
    )
    for model, counts in shadows.items():
        for outcome, count in asdict(counts).items():
            copies.add_metric((*model, outcome), count)
    yield copies


def _stages(stages: Mapping[tuple[str, str], StageCounts]) -> Iterator[Metric]:
    for name, text, read in _STAGE_COUNTERS:
        counter = CounterMetricFamily(f"headrace_stage_{name}", text, labels=_STAGE)
        for labels, stage in stages.items():
            counter.add_metric(labels, read(stage))
        yield counter
    sizes = HistogramMetricFamily(
        "headrace_stage_batch_size", "Rows of an execution", labels=_STAGE
    )
    for labels, stage in stages.items():
        buckets = [
            (str(float(most)), sum(n for size, n in stage.sizes.items() if size <= most))
            for most in _BATCH_SIZES
        ]
        buckets.append(("+Inf", sum(stage.sizes.values())))
        rows = sum(size * count for size, count in stage.sizes.items())
        sizes.add_metric(labels, buckets, rows)
    yield sizes


_STAGE_COUNTERS: tuple[tuple[str, str, Callable[[StageCounts], float]], ...] = (
    ("executions", "Executions of a stage", lambda stage: stage.executions),
    ("rows", "Rows that a stage has run", lambda stage: stage.rows),
    ("compute_seconds", "Time that a stage ran", lambda stage: stage.compute_seconds),
    ("queue_seconds", "Time that rows waited for a stage", lambda stage: stage.queue_seconds),
    (
        "mixed_batches",
        "Executions that held rows of more than one request",
        lambda stage: stage.mixed,
    ),
    ("cache_hits", "Rows whose results were kept", lambda stage: stage.cache_hits),
    ("cache_misses", "Rows that a cache had not kept", lambda stage: stage.cache_misses),
    ("padded_rows", "Rows that were filled up to meet larger ones", lambda stage: stage.padded),
)
