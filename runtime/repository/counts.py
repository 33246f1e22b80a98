"""Counts of versions that come and go: what closed engines have counted is kept."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeVar, cast

from ..metrics import PipelineCounts, Snapshot, StageCounts

Counts = TypeVar("Counts", PipelineCounts, StageCounts)


@dataclass(frozen=True, slots=True)
class Totals:
    """`pipelines` by name and version, `stages` by name."""

    pipelines: Mapping[tuple[str, str], PipelineCounts]
    stages: Mapping[str, StageCounts]

    def snapshot(self) -> Snapshot:
        """Return them as of one engine; of an app, whose pipelines have one version at a time."""
        return Snapshot(tuple(self.pipelines.values()), tuple(self.stages.values()))


def total(snapshots: Iterable[tuple[str, Snapshot]], before: Totals | None = None) -> Totals:
    """Add what engines have counted, each with its version, to what there was."""
    pipelines = dict(before.pipelines) if before is not None else {}
    stages = dict(before.stages) if before is not None else {}
    for version, snapshot in snapshots:
        for pipeline in snapshot.pipelines:
            key = pipeline.name, version
            known = pipelines.get(key)
            pipelines[key] = pipeline if known is None else added(known, pipeline)
        for stage in snapshot.stages:
            same = stages.get(stage.name)
            stages[stage.name] = stage if same is None else added(same, stage)
    return Totals(pipelines, stages)


def closed(snapshot: Snapshot) -> Snapshot:
    """Return what an engine leaves behind: nothing waits there any more."""
    rest = tuple(replace(one, pending=0, levels={}) for one in snapshot.pipelines)
    stages = tuple(replace(one, waiting=0, recent=()) for one in snapshot.stages)
    return Snapshot(rest, stages)


def added(one: Counts, other: Counts) -> Counts:
    """Add up counts of one thing: numbers, and numbers by key."""
    changed: dict[str, object] = {}
    for field in fields(one):
        ours: object = getattr(one, field.name)
        theirs: object = getattr(other, field.name)
        if field.name == "last":
            changed[field.name] = max(cast("float", ours), cast("float", theirs))
        elif isinstance(ours, int | float) and isinstance(theirs, int | float):
            changed[field.name] = ours + theirs
        elif isinstance(ours, dict):
            changed[field.name] = _merged(
                cast("Mapping[object, float]", ours), cast("Mapping[object, float]", theirs)
            )
    return replace(one, **changed)


def _merged(one: Mapping[object, float], other: Mapping[object, float]) -> dict[object, float]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in (*one, *other)}
