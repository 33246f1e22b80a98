"""Counts of versions that come and go: what closed engines have counted is kept."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar, cast

from ..metrics import PipelineCounts, Snapshot, StageCounts
from ..protocols.models import ModelKey
from .attribution import Attribution
from .model_counts import ModelCounts, models
from .shadow import ShadowCounts

Counts = TypeVar("Counts", PipelineCounts, StageCounts, ModelCounts, ShadowCounts)


@dataclass(frozen=True, slots=True)
class Counted:
    """What an engine has counted, as a `version` of an `app`, and whose executions are whose there,
    by pipeline."""

    snapshot: Snapshot
    app: str = ""
    version: str = ""
    attributions: Mapping[str, Attribution] = field(default_factory=dict[str, Attribution])


@dataclass(frozen=True, slots=True)
class Totals:
    """`pipelines` and `models` by name and version, `stages` by app and name."""

    pipelines: Mapping[ModelKey, PipelineCounts]
    stages: Mapping[tuple[str, str], StageCounts]
    models: Mapping[ModelKey, ModelCounts]

    def snapshot(self) -> Snapshot:
        """Return them as of one engine; of an app, whose pipelines have one version at a time."""
        return Snapshot(tuple(self.pipelines.values()), tuple(self.stages.values()))


NOTHING = Totals({}, {}, {})


def total(engines: Iterable[Counted], before: Totals = NOTHING) -> Totals:
    """Add what engines have counted to what there was."""
    pipelines, stages = dict(before.pipelines), dict(before.stages)
    totals = dict(before.models)
    for one in engines:
        for pipeline in one.snapshot.pipelines:
            _add(pipelines, (pipeline.name, one.version), pipeline)
            whose = one.attributions.get(pipeline.name, Attribution())
            for key, counts in models(pipeline, one.snapshot.stages, one.version, whose):
                _add(totals, key, counts)
        for stage in one.snapshot.stages:
            _add(stages, (one.app, stage.name), stage)
    return Totals(pipelines, stages, totals)


def _add(totals: dict[ModelKey, Counts], key: ModelKey, counts: Counts) -> None:
    known = totals.get(key)
    totals[key] = counts if known is None else added(known, counts)


def closed(snapshot: Snapshot) -> Snapshot:
    """Return what an engine leaves behind: nothing waits there any more."""
    rest = tuple(replace(one, pending=0, levels={}) for one in snapshot.pipelines)
    stages = tuple(replace(one, waiting=0, recent=()) for one in snapshot.stages)
    return Snapshot(rest, stages)


def merged(
    one: Mapping[ModelKey, Counts], other: Mapping[ModelKey, Counts]
) -> dict[ModelKey, Counts]:
    """Add up counts of what is in both, and keep those of what is in one."""
    found = dict(one)
    for key, counts in other.items():
        _add(found, key, counts)
    return found


def added(one: Counts, other: Counts) -> Counts:
    """Add up counts of one thing: numbers, and numbers by key; the latest times are pooled."""
    changed: dict[str, object] = {}
    for each in fields(one):
        ours: object = getattr(one, each.name)
        theirs: object = getattr(other, each.name)
        if each.name == "last":
            changed[each.name] = max(cast("float", ours), cast("float", theirs))
        elif isinstance(ours, int | float) and isinstance(theirs, int | float):
            changed[each.name] = ours + theirs
        elif isinstance(ours, dict):
            changed[each.name] = _merged(
                cast("Mapping[object, float]", ours), cast("Mapping[object, float]", theirs)
            )
        elif isinstance(ours, tuple):
            changed[each.name] = (
                *cast("tuple[float, ...]", ours),
                *cast("tuple[float, ...]", theirs),
            )
    return replace(one, **changed)


def _merged(one: Mapping[object, float], other: Mapping[object, float]) -> dict[object, float]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *other)}
