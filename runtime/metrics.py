"""What has happened: counts and times a pipeline and a stage.

Every thread counts in cells of its own, so counting takes no lock and loses nothing; `snapshot`
adds the cells up. Counters only grow. Times are in seconds.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from .request import Dropped, Fault

Key = TypeVar("Key", int, str, tuple[str, str])

Counts = TypeVar("Counts", "StageCounts", "PipelineCounts")


class StageCell:
    """One thread's counts of one stage."""

    __slots__ = ("compute", "executions", "mixed", "padded", "queue", "rows", "sizes")

    def __init__(self) -> None:
        self.executions = 0
        self.rows = 0
        self.compute = 0.0
        self.queue = 0.0
        self.mixed = 0
        self.padded = 0
        self.sizes: dict[int, int] = {}

    def record(self, rows: int, seconds: float) -> None:
        """Count one execution."""
        self.executions += 1
        self.rows += rows
        self.compute += seconds
        sizes = self.sizes
        sizes[rows] = sizes.get(rows, 0) + 1


class PipelineCell:
    """One thread's counts of one pipeline. `rows` and `row_seconds` are of requests that had
    another number of rows than one, by that number."""

    __slots__ = (
        "dropped",
        "duration",
        "failures",
        "fallbacks",
        "queue",
        "row_seconds",
        "rows",
        "successes",
    )

    def __init__(self) -> None:
        self.successes = 0
        self.rows: dict[int, int] = {}
        self.row_seconds: dict[int, float] = {}
        self.duration = 0.0
        self.queue = 0.0
        self.failures: dict[str, int] = {}
        self.fallbacks: dict[tuple[str, str], int] = {}
        self.dropped: dict[str, int] = {}

    def count_rows(self, rows: int, seconds: float) -> None:
        """Note of a successful request, counted apart, that it had so many rows."""
        self.rows[rows] = self.rows.get(rows, 0) + 1
        self.row_seconds[rows] = self.row_seconds.get(rows, 0.0) + seconds

    def count_nothing(self) -> None:
        """Count a successful request without rows, of which nothing ran."""
        self.successes += 1
        self.count_rows(0, 0.0)

    def fall_back(self, place: str, code: str) -> None:
        """Count one row of a `try` that went to its `else`, and why."""
        self.fallbacks[place, code] = self.fallbacks.get((place, code), 0) + 1

    def end(self, fault: Fault) -> None:
        """Count one failed request, and where it was given up if it was."""
        self.fail(fault.code.value)
        if isinstance(fault, Dropped):
            stage = fault.stage or ""
            self.dropped[stage] = self.dropped.get(stage, 0) + 1

    def fail(self, code: str) -> None:
        """Count one failed request by its code's value."""
        self.failures[code] = self.failures.get(code, 0) + 1


class Tally:
    """One thread's cells, by the numbers of pipelines and stages, and of how many requests it is
    in the middle: it alone writes `inside`."""

    __slots__ = ("inside", "pipelines", "stages")

    def __init__(self, pipelines: int, stages: int) -> None:
        self.inside = 0
        self.pipelines = [PipelineCell() for _ in range(pipelines)]
        self.stages = [StageCell() for _ in range(stages)]


@dataclass(frozen=True, slots=True)
class StageCounts:
    """`rows / executions` is the mean batch; `mixed` counts batches that held rows of more than
    one request; `padded` counts rows that were filled up; `sizes` maps a batch size to its number
    of executions. An op or a function that takes one item at a time counts one execution for all
    rows of a request. Of a stage with a cache `cache_hits` are rows that were not run because
    their results were kept, `cache_misses` those that were."""

    name: str
    executions: int = 0
    rows: int = 0
    compute_seconds: float = 0.0
    queue_seconds: float = 0.0
    mixed: int = 0
    sizes: dict[int, int] = field(default_factory=dict[int, int])
    padded: int = 0
    cache_hits: int = 0
    cache_misses: int = 0


@dataclass(frozen=True, slots=True)
class PipelineCounts:
    """`duration_seconds` sums the time of successful requests, `queue_seconds` the part of it
    spent waiting to start; `failures` maps a code to its count, `fallbacks` the place
    of a `try` and the code of the fault to the rows that went to its `else`. `dropped` counts
    requests given up before their deadline, as they could not have been answered by then, by the
    stage that they waited for ("" before they were started). `rows` are successful requests by
    their rows, where those were not one, and `row_seconds` the time of them. Of this moment are
    `pending`, those that wait to start, and `levels`, those that were submitted and have no outcome
    yet, by priority level."""

    name: str
    successes: int = 0
    duration_seconds: float = 0.0
    queue_seconds: float = 0.0
    failures: dict[str, int] = field(default_factory=dict[str, int])
    pending: int = 0
    levels: dict[int, int] = field(default_factory=dict[int, int])
    fallbacks: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    cache_hits: int = 0
    cache_misses: int = 0
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    rows: dict[int, int] = field(default_factory=dict[int, int])
    row_seconds: dict[int, float] = field(default_factory=dict[int, float])

    @property
    def in_flight(self) -> int:
        """Requests that were submitted and have no outcome yet."""
        return sum(self.levels.values())

    @property
    def inferences(self) -> int:
        """Rows of successful requests, one for each where there is no batch."""
        return self.successes + sum((rows - 1) * count for rows, count in self.rows.items())

    @property
    def by_rows(self) -> dict[int, tuple[int, float]]:
        """Successful requests by their rows: how many, and the time of them."""
        found = {rows: (count, self.row_seconds[rows]) for rows, count in self.rows.items()}
        single = self.successes - sum(self.rows.values())
        if single:
            found[1] = (single, self.duration_seconds - sum(self.row_seconds.values()))
        return found


@dataclass(frozen=True, slots=True)
class Snapshot:
    pipelines: tuple[PipelineCounts, ...]
    stages: tuple[StageCounts, ...]

    def pipeline(self, name: str) -> PipelineCounts:
        return next(one for one in self.pipelines if one.name == name)

    def stage(self, name: str) -> StageCounts:
        return next(one for one in self.stages if one.name == name)

    def with_cache(self, pipeline: int, stage: int, hits: int, misses: int) -> "Snapshot":
        """Return it with what a pipeline looked up in the cache of a stage, by their numbers."""
        return Snapshot(
            tuple(
                _cached(one, hits, misses, i == pipeline) for i, one in enumerate(self.pipelines)
            ),
            tuple(_cached(one, hits, misses, i == stage) for i, one in enumerate(self.stages)),
        )


class Metrics:
    """The cells of all threads of one engine."""

    def __init__(self, pipelines: Sequence[str], stages: Sequence[str]) -> None:
        self._pipelines, self._stages = tuple(pipelines), tuple(stages)
        self._tallies: list[Tally] = []
        self._local = threading.local()
        self._lock = threading.Lock()

    def tally(self) -> Tally:
        """Return the calling thread's cells."""
        try:
            return self._local.tally
        except AttributeError:
            tally = self._local.tally = Tally(len(self._pipelines), len(self._stages))
            with self._lock:
                self._tallies.append(tally)
            return tally

    def inside(self) -> int:
        """Return in how many requests the threads are."""
        with self._lock:
            return sum(tally.inside for tally in self._tallies)

    def snapshot(
        self, pending: Sequence[int] = (), levels: Sequence[dict[int, int]] = ()
    ) -> Snapshot:
        """Add up what all threads have counted; the engine fills in what is of this moment."""
        with self._lock:
            tallies = list(self._tallies)
        waiting = list(pending) or [0] * len(self._pipelines)
        flying = list(levels) or [{} for _ in self._pipelines]
        return Snapshot(
            tuple(
                _pipeline(name, [tally.pipelines[i] for tally in tallies], waiting[i], flying[i])
                for i, name in enumerate(self._pipelines)
            ),
            tuple(
                _stage(name, [tally.stages[i] for tally in tallies])
                for i, name in enumerate(self._stages)
            ),
        )


def _pipeline(
    name: str, cells: Sequence[PipelineCell], pending: int, levels: dict[int, int]
) -> PipelineCounts:
    failures = _sum([dict(cell.failures) for cell in cells])
    return PipelineCounts(
        name,
        sum(cell.successes for cell in cells),
        sum(cell.duration for cell in cells),
        sum(cell.queue for cell in cells),
        failures,
        pending,
        levels,
        _sum([dict(cell.fallbacks) for cell in cells]),
        dropped=_sum([dict(cell.dropped) for cell in cells]),
        rows=_sum([dict(cell.rows) for cell in cells]),
        row_seconds=_sum_seconds([dict(cell.row_seconds) for cell in cells]),
    )


def _stage(name: str, cells: Sequence[StageCell]) -> StageCounts:
    return StageCounts(
        name,
        sum(cell.executions for cell in cells),
        sum(cell.rows for cell in cells),
        sum(cell.compute for cell in cells),
        sum(cell.queue for cell in cells),
        sum(cell.mixed for cell in cells),
        _sum([dict(cell.sizes) for cell in cells]),
        sum(cell.padded for cell in cells),
    )


def _cached(counts: Counts, hits: int, misses: int, its_own: bool) -> Counts:
    if not its_own:
        return counts
    hits, misses = counts.cache_hits + hits, counts.cache_misses + misses
    return replace(counts, cache_hits=hits, cache_misses=misses)


def _sum(counts: Sequence[dict[Key, int]]) -> dict[Key, int]:
    total: dict[Key, int] = {}
    for one in counts:
        for key, count in one.items():
            total[key] = total.get(key, 0) + count
    return total


def _sum_seconds(seconds: Sequence[dict[int, float]]) -> dict[int, float]:
    total: dict[int, float] = {}
    for one in seconds:
        for key, spent in one.items():
            total[key] = total.get(key, 0.0) + spent
    return total
