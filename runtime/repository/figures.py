"""All that a repository has counted, in a form that is added up: with what other processes have."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeAlias

from ..custom_metrics import Cell, Family, Kind
from ..metrics import Snapshot
from ..protocols.models import ModelKey
from .counts import Totals, added, closed, merged
from .repository import Repository
from .shadow import ShadowCounts

AppKey: TypeAlias = tuple[str, str]
"""An app and its version."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a version has counted since it was loaded, which was at `since` on the engines' clock:
    a time that all processes of a machine share."""

    since: float
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Figures:
    """`totals` are since the start, `shadows` what came of copies, by pipeline and version;
    `families` are the metrics that models make up. `loaded` are the versions that are served, each
    apart, where that is asked for."""

    totals: Totals
    shadows: Mapping[ModelKey, ShadowCounts]
    families: tuple[Family, ...]
    loaded: Mapping[AppKey, Loaded] = field(default_factory=dict[AppKey, Loaded])


def figures_of(repository: Repository, *, apart: bool = False) -> Figures:
    """Return what a repository has counted; with `apart` that of each version by itself, too."""
    loaded = {
        (version.app, str(version.number)): Loaded(
            repository.now() - version.engine.age, version.engine.metrics
        )
        for version in (repository.live if apart else ())
    }
    families = repository.nested.metrics.families()
    return Figures(repository.totals(), repository.shadow_counts(), tuple(families), loaded)


def summed(figures: Iterable[Figures]) -> Figures:
    """Add up what some, one at least, have counted: numbers, gauges among them."""
    return reduce(_sum, figures)


def left_behind(figures: Figures) -> Figures:
    """Return what goes on to count of what has ended: nothing is under way there any more."""
    totals = figures.totals
    rest = closed(totals.snapshot())
    return Figures(
        Totals(
            dict(zip(totals.pipelines, rest.pipelines, strict=True)),
            dict(zip(totals.stages, rest.stages, strict=True)),
            totals.models,
        ),
        figures.shadows,
        tuple(one for one in figures.families if one.kind is not Kind.GAUGE),
        {key: replace(one, snapshot=closed(one.snapshot)) for key, one in figures.loaded.items()},
    )


def _sum(one: Figures, other: Figures) -> Figures:
    return Figures(
        Totals(
            merged(one.totals.pipelines, other.totals.pipelines),
            merged(one.totals.stages, other.totals.stages),
            merged(one.totals.models, other.totals.models),
        ),
        merged(one.shadows, other.shadows),
        _families(one.families, other.families),
        _loaded(one.loaded, other.loaded),
    )


def _loaded(
    one: Mapping[AppKey, Loaded], other: Mapping[AppKey, Loaded]
) -> Mapping[AppKey, Loaded]:
    found = {**one, **other}
    for key in one.keys() & other.keys():
        ours, theirs = one[key].snapshot, other[key].snapshot
        # a plan's stages may have one name, and stand in one order everywhere
        snapshot = Snapshot(
            tuple(map(added, ours.pipelines, theirs.pipelines)),
            tuple(map(added, ours.stages, theirs.stages)),
        )
        found[key] = Loaded(min(one[key].since, other[key].since), snapshot)
    return found


def _families(one: tuple[Family, ...], other: tuple[Family, ...]) -> tuple[Family, ...]:
    found = {family.name: family for family in one}
    for family in other:
        known = found.get(family.name)
        if known is not None and known.kind is family.kind:
            cells = {**known.cells, **family.cells}
            for labels in known.cells.keys() & family.cells.keys():
                cells[labels] = _cell(known.cells[labels], family.cells[labels])
            found[family.name] = replace(known, cells=cells)
        elif known is None:
            found[family.name] = family
    return tuple(found.values())


def _cell(one: Cell, other: Cell) -> Cell:
    if one.bounds != other.bounds:  # its model has made them up, and cannot be helped
        return one
    counts = [ours + theirs for ours, theirs in zip(one.counts, other.counts, strict=True)]
    return Cell(one.value + other.value, one.bounds, counts)
