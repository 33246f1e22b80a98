"""Extension: what each model has done, per version and per number of rows.

Counts of requests and executions are those of `repository.model_counts`. Times are not divided
further than waiting and the rest, which is `compute_infer`. Responses of streams are counted by
their number, each with the time since the one before it.
"""

from typing import Any

from ...access import Access, Caller
from ...metrics import PipelineCounts
from ...repository.counts import Totals
from ...repository.model_counts import ModelCounts
from ...service import Service
from ..models import unknown_model
from ..operation import Arguments, Operation, of_model, text, told

NAMES = ("statistics",)


def _statistics(service: Service, asked: Arguments, _: Caller) -> Any:  # Any: JSON
    name, version = text(asked, "name"), text(asked, "version")
    return told(service.figures(), lambda figures: _told(service, name, version, figures.totals))


def _told(service: Service, name: str, version: str, totals: Totals) -> Any:  # Any: JSON
    served = {
        (model, number) for model in service.repository.routes for number in service.versions(model)
    }
    wanted = [
        key
        for key in sorted({*served, *totals.models}, key=lambda key: (key[0], int(key[1])))
        if (not name or key[0] == name) and (not version or key[1] == version)
    ]
    if name and not wanted:
        raise unknown_model(name, version)
    return {
        "model_stats": [
            _model(
                key,
                totals.models.get(key, ModelCounts()),
                totals.pipelines.get(key, PipelineCounts(key[0])),
            )
            for key in wanted
        ]
    }


def _model(key: tuple[str, str], counts: ModelCounts, pipeline: PipelineCounts) -> Any:  # Any: JSON
    name, version = key
    return {
        "name": name,
        "version": version,
        "last_inference": round(counts.last * 1000),
        "inference_count": counts.inferences,
        "execution_count": counts.executions,
        "inference_stats": {
            "success": _duration(counts.successes, counts.duration_seconds),
            "fail": _duration(counts.failed, 0.0),
            "queue": _duration(counts.successes, counts.queue_seconds),
            "compute_input": _duration(counts.computed, 0.0),
            "compute_infer": _duration(counts.computed, counts.compute_seconds),
            "compute_output": _duration(counts.computed, 0.0),
            "cache_hit": _duration(counts.hits, 0.0),
            "cache_miss": _duration(counts.misses, 0.0),
        },
        "response_stats": {
            str(number): {
                "compute_infer": _duration(count, pipeline.response_seconds[number]),
                "success": _duration(count, pipeline.response_seconds[number]),
            }
            for number, count in sorted(pipeline.responses.items())
        },
        "batch_stats": [
            {
                "batch_size": rows,
                "compute_input": _duration(count, 0.0),
                "compute_infer": _duration(count, counts.batch_seconds[rows]),
                "compute_output": _duration(count, 0.0),
            }
            for rows, count in sorted(counts.batches.items())
        ],
        "memory_usage": [],
    }


def _duration(count: int, seconds: float) -> dict[str, int]:
    return {"count": count, "ns": round(seconds * 1e9)}


OPERATIONS = (
    Operation(
        "ModelStatistics",
        Access.READ,
        "What models have done: counts and times, per version",
        (("GET", "/v2/models/stats"), *of_model("GET", "/stats")),
        _statistics,
    ),
)
