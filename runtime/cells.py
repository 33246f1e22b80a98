"""What each thread counts for itself, of stages and of pipelines: it alone writes its cells.

Counters only grow. Times are in seconds.
"""

import math
from collections import deque
from typing import Final, TypeVar

from .request import Dropped, Fault

RECENT: Final = 64
"""Executions of a stage, of each thread, of which the time is known one by one."""

FIRST_RESPONSE_SECONDS: Final = (0.1, 0.5, 2.0, 5.0)
"""The bounds by which the first responses of streams are counted, those of Triton's histogram."""

Key = TypeVar("Key", int, float, str, tuple[str, str])
Number = TypeVar("Number", int, float)


class StageCell:
    """One thread's counts of one stage. `sizes` has executions by their rows: how many, and the
    seconds of them all. The rows of the batch that is run have `waited` so many seconds, in all."""

    __slots__ = ("mixed", "padded", "queue", "recent", "rows", "sizes", "waited")

    def __init__(self, recent: int | None = RECENT) -> None:
        self.rows = 0
        self.queue = self.waited = 0.0
        self.mixed = 0
        self.padded = 0
        self.sizes: dict[int, list[float]] = {}
        self.recent: deque[float] = deque(maxlen=recent)

    @property
    def executions(self) -> int:
        return sum(int(count) for count, _ in list(self.sizes.values()))

    @property
    def compute(self) -> float:
        """The seconds of all executions."""
        return sum(seconds for _, seconds in list(self.sizes.values()))

    def record(self, rows: int, seconds: float) -> None:
        """Count one execution."""
        self.rows += rows
        self.recent.append(seconds)
        known = self.sizes.get(rows)
        if known is None:
            self.sizes[rows] = [1, seconds]
        else:
            known[0] += 1
            known[1] += seconds

    def add(self, other: "StageCell") -> None:
        """Count what another cell has counted, whose thread may go on meanwhile."""
        self.rows += other.rows
        self.queue += other.queue
        self.mixed += other.mixed
        self.padded += other.padded
        for rows, (count, seconds) in dict(other.sizes).items():
            known = self.sizes.setdefault(rows, [0, 0.0])
            known[0] += count
            known[1] += seconds
        self.recent.extend(list(other.recent))  # a copy, as that thread may go on meanwhile


class PipelineCell:
    """One thread's counts of one pipeline. `rows` and `row_seconds` are of requests that had
    another number of rows than one, by that number; `responses` and `response_seconds` of what
    streams have sent, by its number from 0. `last` is when the last request was answered, on
    `perf_counter`."""

    __slots__ = (
        "dropped",
        "duration",
        "failed_at",
        "failures",
        "fallbacks",
        "first_responses",
        "last",
        "queue",
        "response_seconds",
        "responses",
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
        self.failed_at: dict[tuple[str, str], int] = {}
        self.responses: dict[int, int] = {}
        self.response_seconds: dict[int, float] = {}
        self.first_responses: dict[float, int] = {}
        self.last = 0.0

    def count_response(self, index: int, seconds: float) -> None:
        """Count a response of a stream, that many seconds after the one before it."""
        self.responses[index] = self.responses.get(index, 0) + 1
        self.response_seconds[index] = self.response_seconds.get(index, 0.0) + seconds
        if index == 0:
            bound = next((most for most in FIRST_RESPONSE_SECONDS if seconds <= most), math.inf)
            self.first_responses[bound] = self.first_responses.get(bound, 0) + 1

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
        """Count one failed request, at which stage it did, and whether it was given up there."""
        self.fail(fault.code.value)
        if fault.stage is not None:
            key = fault.stage, fault.code.value
            self.failed_at[key] = self.failed_at.get(key, 0) + 1
        if isinstance(fault, Dropped):
            stage = fault.stage or ""
            self.dropped[stage] = self.dropped.get(stage, 0) + 1

    def fail(self, code: str) -> None:
        """Count one failed request by its code's value."""
        self.failures[code] = self.failures.get(code, 0) + 1

    def add(self, other: "PipelineCell") -> None:
        """Count what another cell has counted, whose thread may go on meanwhile."""
        self.successes += other.successes
        self.duration += other.duration
        self.queue += other.queue
        _add(self.rows, other.rows)
        _add(self.row_seconds, other.row_seconds)
        _add(self.failures, other.failures)
        _add(self.fallbacks, other.fallbacks)
        _add(self.dropped, other.dropped)
        _add(self.failed_at, other.failed_at)
        _add(self.responses, other.responses)
        _add(self.response_seconds, other.response_seconds)
        _add(self.first_responses, other.first_responses)
        self.last = max(self.last, other.last)


class Tally:
    """One thread's cells, by the numbers of pipelines and stages, of how many requests it is in the
    middle, and how many of its last it `came` for and ran (`bell.py`): it alone writes these."""

    __slots__ = ("came", "inside", "pipelines", "stages")

    def __init__(self, pipelines: int, stages: int, recent: int | None = RECENT) -> None:
        self.inside = self.came = 0
        self.pipelines = [PipelineCell() for _ in range(pipelines)]
        self.stages = [StageCell(recent) for _ in range(stages)]

    def add(self, other: "Tally") -> None:
        """Count what another thread has counted, which may go on meanwhile."""
        for mine, others in zip(self.pipelines, other.pipelines, strict=True):
            mine.add(others)
        for ours, theirs in zip(self.stages, other.stages, strict=True):
            ours.add(theirs)


def _add(total: dict[Key, Number], counts: dict[Key, Number]) -> None:
    for key, count in dict(counts).items():  # a copy, for its thread may add a key meanwhile
        total[key] = total.get(key, 0) + count
