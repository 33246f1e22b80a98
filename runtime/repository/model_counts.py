"""What models have done, as callers count it: for themselves and as members of ensembles."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..metrics import PipelineCounts, StageCounts
from ..protocols.models import ModelKey
from ..request import Code
from .attribution import Attribution


@dataclass(frozen=True, slots=True)
class ModelCounts:
    """`successes` are requests that were answered, with the seconds from asking to the answer and
    those of them in queues; `kept` of them were answered with what a cache had kept. `inferences`
    are the rows of the others. `batches` maps the rows of an execution to the number of executions,
    `batch_seconds` to their time. `hits` and `misses` of a cache are requests where the model is
    described by others, and else rows. `failures` maps a code to requests. `last` is when the last
    was answered, in seconds since the epoch."""

    successes: int = 0
    duration_seconds: float = 0.0
    queue_seconds: float = 0.0
    kept: int = 0
    inferences: int = 0
    batches: Mapping[int, int] = field(default_factory=dict[int, int])
    batch_seconds: Mapping[int, float] = field(default_factory=dict[int, float])
    hits: int = 0
    misses: int = 0
    failures: Mapping[str, int] = field(default_factory=dict[str, int])
    last: float = 0.0

    @property
    def executions(self) -> int:
        return sum(self.batches.values())

    @property
    def computed(self) -> int:
        """Requests for which something ran."""
        return self.successes - self.kept

    @property
    def compute_seconds(self) -> float:
        return max(0.0, self.duration_seconds - self.queue_seconds)

    @property
    def failed(self) -> int:
        return sum(self.failures.values())


def models(
    pipeline: PipelineCounts,
    stages: Iterable[StageCounts],
    version: str,
    attribution: Attribution,
) -> Iterator[tuple[ModelKey, ModelCounts]]:
    """Yield what a pipeline of one engine counts for which models, itself first."""
    by_name: dict[str, list[StageCounts]] = {}
    for stage in stages:
        by_name.setdefault(stage.name, []).append(stage)
    key = pipeline.name, version
    whole = _whole(pipeline, attribution, by_name)
    yield key, whole
    for name, members in attribution.members.items():
        hidden = whole.kept * attribution.cached.get(name, 0)
        for member in members:
            yield member, _member(pipeline, name, by_name.get(name, []), len(members), hidden)
    for ensemble, times in attribution.nested.items():
        yield ensemble, _nested(pipeline, times)


def _whole(
    pipeline: PipelineCounts, attribution: Attribution, stages: Mapping[str, list[StageCounts]]
) -> ModelCounts:
    """Return what is the pipeline's own: one execution a request where it is several stages."""
    own = [stage for name in attribution.own for stage in stages.get(name, [])]
    kept = 0
    rows = pipeline.inferences
    by_rows = pipeline.by_rows
    batches: dict[int, int] = {size: count for size, (count, _) in by_rows.items() if size}
    seconds: dict[int, float] = {size: time for size, (_, time) in by_rows.items() if size}
    queue = pipeline.queue_seconds
    hits, misses = pipeline.cache_hits, pipeline.cache_misses
    if attribution.described:
        found = _kept(pipeline, {**dict.fromkeys(attribution.own, 1), **attribution.cached})
        kept, rows = sum(found.values()), rows - sum(n * count for n, count in found.items())
        hits, misses = kept, _missed(pipeline, attribution, kept)
        for size, count in found.items():
            batches[size] = batches.get(size, 0) - count
    if attribution.own:
        batches, seconds = _executions(own, 1)
    if attribution.described:
        waited = [
            one for name in (*attribution.own, *attribution.members) for one in stages.get(name, [])
        ]
        queue += _queued(waited, pipeline.successes, pipeline.inferences)
    return ModelCounts(
        pipeline.successes,
        pipeline.duration_seconds,
        queue,
        kept,
        rows,
        batches,
        seconds,
        hits,
        misses,
        _failures(pipeline) if attribution.described else pipeline.failures,
        pipeline.last,
    )


def _member(
    pipeline: PipelineCounts, name: str, stages: list[StageCounts], shared: int, hidden: int
) -> ModelCounts:
    """Return what an ensemble's stage counts for a member; one that is `shared` by several, which
    are fused, counts for each, and its time in equal parts. Of what was kept so much is `hidden`
    behind the ensemble's own."""
    calls = {rows: count for (stage, rows), count in pipeline.calls.items() if stage == name}
    found = sum(_kept(pipeline, {name: 1}).values())
    kept = max(0, found - hidden)
    failures = {
        code: count for (stage, code), count in pipeline.call_failures.items() if stage == name
    }
    answered, rows = sum(calls.values()), sum(rows * count for rows, count in calls.items())
    batches, seconds = _executions(stages, shared)
    return ModelCounts(
        answered + kept,
        pipeline.call_seconds.get(name, 0.0) / shared,
        _queued(stages, answered, rows) / shared,
        kept,
        rows,
        batches,
        seconds,
        kept,
        max(0, pipeline.looked.get(name, 0) - found),
        failures,
        pipeline.last if answered or kept else 0.0,
    )


def _nested(pipeline: PipelineCounts, times: int) -> ModelCounts:
    """Return what counts for an ensemble in an ensemble, whose steps are as good as the other's."""
    by_rows = pipeline.by_rows
    return ModelCounts(
        pipeline.successes * times,
        inferences=pipeline.inferences * times,
        batches={rows: count * times for rows, (count, _) in by_rows.items() if rows},
        batch_seconds=dict.fromkeys(by_rows, 0.0),
        last=pipeline.last,
    )


def _kept(pipeline: PipelineCounts, stages: Mapping[str, int]) -> dict[int, int]:
    """Return how many requests had all that these stages give them kept, each so many times, by
    their rows."""
    sizes = {rows for name, rows in pipeline.kept if name in stages}
    found = {
        rows: min(pipeline.kept.get((name, rows), 0) // times for name, times in stages.items())
        for rows in sizes
    }
    return {rows: count for rows, count in found.items() if count}


def _missed(pipeline: PipelineCounts, attribution: Attribution, kept: int) -> int:
    """Return for how many requests a cache was looked into in vain."""
    if attribution.cached:
        return pipeline.successes - kept if pipeline.looked else 0
    return sum(pipeline.looked.get(name, 0) for name in attribution.own) - kept


def _executions(
    stages: Iterable[StageCounts], shared: int
) -> tuple[dict[int, int], dict[int, float]]:
    batches: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for stage in stages:
        for size, count in stage.sizes.items():
            batches[size] = batches.get(size, 0) + count
            seconds[size] = seconds.get(size, 0.0) + stage.size_seconds[size] / shared
    return batches, seconds


def _queued(stages: Iterable[StageCounts], requests: int, rows: int) -> float:
    """Return for how long requests have waited for stages, which count that of each row."""
    return sum(stage.queue_seconds for stage in stages) * requests / max(1, rows)


def _failures(pipeline: PipelineCounts) -> dict[str, int]:
    """Return failures without the requests that were refused for what they ask, before any stage
    was: a tritonserver does not count them."""
    wrong = (Code.INVALID.value, Code.NOT_FOUND.value, Code.UNSUPPORTED.value)
    refused = {code: pipeline.failures.get(code, 0) for code in wrong}
    for (_, code), count in pipeline.failed_at.items():
        if code in refused:
            refused[code] -= count
    return {code: count - refused.get(code, 0) for code, count in pipeline.failures.items()}
