"""Extension: what each model has done, per version and per number of rows.

Counts are of requests, as the engine has counted them, so that they agree with the calls made. A
pipeline's time is not divided further than waiting to start and the rest, which is `compute_infer`.
Responses of streams are counted by their number, each with the time since the one before it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...access import Access, Caller
from ...metrics import PipelineCounts
from ...service import Service
from ..models import Described, unknown_model
from ..operation import Arguments, Operation, of_model, text

NAMES = ("statistics",)

_Key = tuple[str, str]  # a model and its version


def _statistics(service: Service, asked: Arguments, _: Caller) -> Any:  # Any: JSON
    name, version = text(asked, "name"), text(asked, "version")
    counted = service.repository.totals().pipelines
    served = {
        (model, number): PipelineCounts(model)
        for model in service.repository.routes
        for number in service.versions(model)
    }
    known = _with_members(service, {**served, **counted})
    wanted = {
        key: counts
        for key, counts in known.items()
        if (not name or key[0] == name) and (not version or key[1] == version)
    }
    if name and not wanted:
        raise unknown_model(name, version)
    ordered = sorted(wanted, key=lambda key: (key[0], int(key[1])))
    return {"model_stats": [_model(*key, wanted[key], _described(service, key)) for key in ordered]}


def _with_members(
    service: Service, counted: Mapping[_Key, PipelineCounts]
) -> dict[_Key, PipelineCounts]:
    """Return counts in which what an ensemble runs counts for its members too, as a tritonserver
    counts it. Times are those of requests of their own."""
    found = dict(counted)
    for key, counts in counted.items():
        for member, times in _members(service, key).items():
            if member not in found or not counts.successes:
                continue
            own, name = found[member], member[0]
            kept = {at: count for at, count in counts.kept.items() if at[0] == name}
            looked = {at: count for at, count in counts.looked.items() if at == name}
            found[member] = replace(
                own,
                successes=own.successes + times * counts.successes,
                rows=_sum(own.rows, counts.rows, times),
                row_seconds={**dict.fromkeys(counts.rows, 0.0), **own.row_seconds},
                kept=_sum(own.kept, kept, 1),
                looked=_sum(own.looked, looked, 1),
                last=max(own.last, counts.last),
            )
    return found


def _sum(one: Mapping[Any, int], other: Mapping[Any, int], times: int) -> dict[Any, int]:
    return {key: one.get(key, 0) + times * other.get(key, 0) for key in (*one, *other)}


def _members(service: Service, key: _Key) -> Counter[_Key]:
    """Return how often each member is a step of an ensemble; nothing where it is none."""
    found: Counter[_Key] = Counter()
    described = _described(service, key)
    scheduling = {} if described is None else described.config.get("ensemble_scheduling") or {}
    for step in scheduling.get("step", ()):
        name, version = step["model_name"], int(step.get("model_version", -1))
        newest = max(service.versions(name), key=int, default="")
        member = name, newest if version <= 0 else str(version)
        found[member] += 1
        found += _members(service, member)
    return found


def _described(service: Service, key: _Key) -> Described | None:
    route = service.repository.routes.get(key[0])
    served = None if route is None else route.versions.get(key[1])
    return None if served is None else served.model.described


def _model(
    name: str, version: str, counts: PipelineCounts, described: Described | None
) -> Any:  # Any: JSON
    failed = sum(counts.failures.values())
    computed = counts.duration_seconds - counts.queue_seconds
    hits, misses, by_rows = counts.cache_hits, counts.cache_misses, dict(counts.by_rows)
    kept = 0
    if described is not None:  # requests are kept there, not rows, and what is kept is not run
        own = not described.config.get("ensemble_scheduling")
        for (_, rows), count in counts.kept.items() if own else ():
            kept += count
            left, seconds = by_rows.get(rows, (count, 0.0))
            by_rows[rows] = (left - count, seconds)
        hits, misses = kept, sum(counts.looked.values()) - kept if own else 0
    ran = counts.successes - kept
    nothing = _duration(ran, 0.0)
    return {
        "name": name,
        "version": version,
        "last_inference": round(counts.last * 1000),
        "inference_count": sum(rows * count for rows, (count, _) in by_rows.items()),
        "execution_count": ran,
        "inference_stats": {
            "success": _duration(counts.successes, counts.duration_seconds),
            "fail": _duration(failed, 0.0),
            "queue": _duration(counts.successes, counts.queue_seconds),
            "compute_input": nothing,
            "compute_infer": _duration(ran, computed),
            "compute_output": nothing,
            "cache_hit": _duration(hits, 0.0),
            "cache_miss": _duration(misses, 0.0),
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
            for rows, (count, seconds) in sorted(by_rows.items())
            if count
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
