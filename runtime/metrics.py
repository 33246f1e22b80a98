"""What has happened: counts and times a pipeline and a stage.

Every thread counts in cells of its own (`cells.py`), so counting takes no lock and loses nothing;
`snapshot` adds the cells up. Those of threads that have ended become one: callers may come and go
for ever. Counters only grow. Times are in seconds.
"""

import threading
import time
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from .cells import FIRST_RESPONSE_SECONDS as FIRST_RESPONSE_SECONDS
from .cells import RECENT
from .cells import PipelineCell as PipelineCell
from .cells import StageCell as StageCell
from .cells import Tally as Tally

Counts = TypeVar("Counts", "StageCounts", "PipelineCounts")


class _Thread:
    """Lives as long as the thread in whose locals it is."""

    __slots__ = ("__weakref__",)


@dataclass(frozen=True, slots=True)
class StageCounts:
    """`rows / executions` is the mean batch; `mixed` counts batches that held rows of more than
    one request; `padded` counts rows that were filled up; `sizes` maps a batch size to its number
    of executions, `size_seconds` to the time of them. An op or a function that takes one item at a
    time counts one execution for all rows of a request. An execution that failed is one. Of a stage
    with a cache `cache_hits` are rows that were not run because their results were kept,
    `cache_misses` those that were. `recent` are the seconds that its latest executions took, in no
    order; `waiting` are the rows in its queue at this moment."""

    name: str
    executions: int = 0
    rows: int = 0
    compute_seconds: float = 0.0
    queue_seconds: float = 0.0
    mixed: int = 0
    sizes: dict[int, int] = field(default_factory=dict[int, int])
    size_seconds: dict[int, float] = field(default_factory=dict[int, float])
    padded: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    recent: tuple[float, ...] = ()
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class PipelineCounts:
    """`duration_seconds` sums the time of successful requests, `queue_seconds` the part of it
    spent waiting to start; `failures` maps a code to its count, `fallbacks` the place
    of a `try` and the code of the fault to the rows that went to its `else`. `dropped` counts
    requests given up before their deadline, as they could not have been answered by then, by the
    stage that they waited for ("" before they were started); `failed_at` counts those that failed
    at a stage, by its name and their code. `rows` are successful requests by
    their rows, where those were not one, and `row_seconds` the time of them. Of this moment are
    `pending`, those that wait to start, and `levels`, those that were submitted and have no outcome
    yet, by priority level. `responses` of streams and `response_seconds`, each since the one before
    it, are by their number from 0; `first_responses` are by the bound that they were within. `last`
    is when the last request was answered, in seconds since the epoch; 0 where none was. The cache
    of a stage was `looked` into so often, and had `kept` all rows of some, by stage and rows. Where
    calls of stages are counted, `calls` are those that were answered by stage and rows, and
    `call_seconds` their time by stage, `call_failures` those that failed by stage and code."""

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
    failed_at: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    responses: dict[int, int] = field(default_factory=dict[int, int])
    response_seconds: dict[int, float] = field(default_factory=dict[int, float])
    first_responses: dict[float, int] = field(default_factory=dict[float, int])
    last: float = 0.0
    looked: dict[str, int] = field(default_factory=dict[str, int])
    kept: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    calls: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    call_seconds: dict[str, float] = field(default_factory=dict[str, float])
    call_failures: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

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
        if single:  # some of one row may have been counted apart
            counted, seconds = found.get(1, (0, 0.0))
            rest = self.duration_seconds - sum(self.row_seconds.values())
            found[1] = (counted + single, seconds + rest)
        return found


@dataclass(frozen=True, slots=True)
class Snapshot:
    pipelines: tuple[PipelineCounts, ...]
    stages: tuple[StageCounts, ...]

    def pipeline(self, name: str) -> PipelineCounts:
        return next(one for one in self.pipelines if one.name == name)

    def stage(self, name: str) -> StageCounts:
        return next(one for one in self.stages if one.name == name)

    def with_cache(self, use: "LookedUp") -> "Snapshot":
        """Return it with what a pipeline looked up in the cache of a stage, by their numbers."""
        hits, misses, name = use.hits, use.misses, self.stages[use.stage].name
        pipelines = list(self.pipelines)
        own = _cached(pipelines[use.pipeline], hits, misses, True)
        kept = {(name, rows): count for rows, count in dict(use.kept).items()}
        pipelines[use.pipeline] = replace(
            own, looked={**own.looked, name: use.looked}, kept={**own.kept, **kept}
        )
        return Snapshot(
            tuple(pipelines),
            tuple(_cached(one, hits, misses, i == use.stage) for i, one in enumerate(self.stages)),
        )

    def with_calls(self, made: "Called") -> "Snapshot":
        """Return it with what a pipeline asked of a stage, by their numbers."""
        pipelines, name = list(self.pipelines), self.stages[made.stage].name
        own = pipelines[made.pipeline]
        failures = {(name, code): count for code, count in dict(made.failures).items()}
        if made.by_outcome:
            failures = {at: count for at, count in own.failed_at.items() if at[0] == name}
        pipelines[made.pipeline] = replace(
            own,
            calls={**own.calls, **{(name, rows): n for rows, n in dict(made.rows).items()}},
            call_seconds={**own.call_seconds, name: made.seconds},
            call_failures={**own.call_failures, **failures},
        )
        return replace(self, pipelines=tuple(pipelines))


class Called(Protocol):
    """A stage as a pipeline asks it."""

    pipeline: int
    stage: int
    rows: dict[int, int]
    seconds: float
    failures: dict[str, int]
    by_outcome: bool


class LookedUp(Protocol):
    """A cache as a pipeline uses it."""

    pipeline: int
    stage: int
    hits: int
    misses: int
    looked: int
    kept: dict[int, int]


class Metrics:
    """The cells of all threads of one engine."""

    def __init__(self, pipelines: Sequence[str], stages: Sequence[str]) -> None:
        self._pipelines, self._stages = tuple(pipelines), tuple(stages)
        self._tallies: list[tuple[weakref.ref[_Thread], Tally]] = []
        self._ended = self._tally()
        self._local = threading.local()
        self._lock = threading.Lock()
        self._epoch = time.time() - time.perf_counter()

    def tally(self) -> Tally:
        """Return the calling thread's cells."""
        try:
            return self._local.tally
        except AttributeError:
            tally, thread = self._tally(), _Thread()
            with self._lock:
                self._let_go()
                self._tallies.append((weakref.ref(thread), tally))
            self._local.thread, self._local.tally = thread, tally
            return tally

    def forget(self) -> None:
        """Drop what the calling thread has counted."""
        tally = self.tally()
        with self._lock:
            self._tallies = [one for one in self._tallies if one[1] is not tally]
        del self._local.tally, self._local.thread

    def inside(self) -> int:
        """Return in how many requests the threads are."""
        with self._lock:
            return sum(tally.inside for _, tally in self._tallies)

    def snapshot(
        self,
        pending: Sequence[int] = (),
        levels: Sequence[dict[int, int]] = (),
        queued: Sequence[int] = (),
    ) -> Snapshot:
        """Add up what all threads have counted; the engine fills in what is of this moment."""
        total = self._tally(None)
        with self._lock:
            self._let_go()
            tallies = [tally for _, tally in self._tallies]
            total.add(self._ended)
        for tally in tallies:
            total.add(tally)
        waiting = list(pending) or [0] * len(self._pipelines)
        flying = list(levels) or [{} for _ in self._pipelines]
        lines = list(queued) or [0] * len(self._stages)
        return Snapshot(
            tuple(
                _pipeline(name, cell, pending, levels, self._epoch)
                for name, cell, pending, levels in zip(
                    self._pipelines, total.pipelines, waiting, flying, strict=True
                )
            ),
            tuple(map(_stage, self._stages, total.stages, lines)),
        )

    def _tally(self, recent: int | None = RECENT) -> Tally:
        return Tally(len(self._pipelines), len(self._stages), recent)

    def _let_go(self) -> None:
        """Keep of threads that have ended no more than what they have counted, all together. The
        lock is held."""
        known, self._tallies = self._tallies, []
        for thread, tally in known:
            if thread() is None:
                self._ended.add(tally)
            else:
                self._tallies.append((thread, tally))


def _pipeline(
    name: str, cell: PipelineCell, pending: int, levels: dict[int, int], epoch: float
) -> PipelineCounts:
    return PipelineCounts(
        name,
        cell.successes,
        cell.duration,
        cell.queue,
        cell.failures,
        pending,
        levels,
        cell.fallbacks,
        dropped=cell.dropped,
        rows=cell.rows,
        row_seconds=cell.row_seconds,
        failed_at=cell.failed_at,
        responses=cell.responses,
        response_seconds=cell.response_seconds,
        first_responses=cell.first_responses,
        last=cell.last and cell.last + epoch,
    )


def _stage(name: str, cell: StageCell, waiting: int) -> StageCounts:
    return StageCounts(
        name,
        cell.executions,
        cell.rows,
        cell.compute,
        cell.queue,
        cell.mixed,
        {rows: int(count) for rows, (count, _) in cell.sizes.items()},
        {rows: seconds for rows, (_, seconds) in cell.sizes.items()},
        cell.padded,
        recent=tuple(cell.recent),
        waiting=waiting,
    )


def _cached(counts: Counts, hits: int, misses: int, its_own: bool) -> Counts:
    if not its_own:
        return counts
    hits, misses = counts.cache_hits + hits, counts.cache_misses + misses
    return replace(counts, cache_hits=hits, cache_misses=misses)
