"""Extension: what each model has done, per version and per number of rows.

Counts are of requests, as the engine has counted them, so that they agree with the calls made. A
pipeline's time is not divided further than waiting to start and the rest, which is `compute_infer`.
Responses of streams are counted by their number, each with the time since the one before it.
"""

from typing import Any

from ...access import Access, Caller
from ...metrics import PipelineCounts
from ...service import Service
from ..models import unknown_model
from ..operation import Arguments, Operation, of_model, text

NAMES = ("statistics",)


def _statistics(service: Service, asked: Arguments, _: Caller) -> Any:  # Any: JSON
    name, version = text(asked, "name"), text(asked, "version")
    counted = service.repository.totals().pipelines
    served = {
        (model, number): PipelineCounts(model)
        for model in service.repository.routes
        for number in service.versions(model)
    }
    wanted = {
        key: counts
        for key, counts in {**served, **counted}.items()
        if (not name or key[0] == name) and (not version or key[1] == version)
    }
    if name and not wanted:
        raise unknown_model(name, version)
    ordered = sorted(wanted, key=lambda key: (key[0], int(key[1])))
    return {"model_stats": [_model(*key, wanted[key]) for key in ordered]}


def _model(name: str, version: str, counts: PipelineCounts) -> Any:  # Any: JSON
    failed = sum(counts.failures.values())
    computed = counts.duration_seconds - counts.queue_seconds
    nothing = _duration(counts.successes, 0.0)
    return {
        "name": name,
        "version": version,
        "last_inference": round(counts.last * 1000),
        "inference_count": counts.inferences,
        "execution_count": counts.successes,
        "inference_stats": {
            "success": _duration(counts.successes, counts.duration_seconds),
            "fail": _duration(failed, 0.0),
            "queue": _duration(counts.successes, counts.queue_seconds),
            "compute_input": nothing,
            "compute_infer": _duration(counts.successes, computed),
            "compute_output": nothing,
            "cache_hit": _duration(counts.cache_hits, 0.0),
            "cache_miss": _duration(counts.cache_misses, 0.0),
        },
        "response_stats": {
            str(number): {
                "compute_infer": _duration(count, counts.response_seconds[number]),
                "success": _duration(count, counts.response_seconds[number]),
            }
            for number, count in sorted(counts.responses.items())
        },
        "batch_stats": [
            {
                "batch_size": rows,
                "compute_input": _duration(count, 0.0),
                "compute_infer": _duration(count, seconds),
                "compute_output": _duration(count, 0.0),
            }
            for rows, (count, seconds) in sorted(counts.by_rows.items())
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
