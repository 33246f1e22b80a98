"""What a flow asks for and a driver runs: a stage turns columns into columns.

A stage knows nothing of requests, queues or clocks. `run` serves the rows of one request as the
plan allows without a queue; `run_together` is one execution and is what a queue's batch calls.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import MappingProxyType
from typing import Protocol, TypeAlias

from ..compiler.plan import ModelSegment, Place, PythonSegment
from ..compiler.policies import Batching, Priorities, Queueing
from .metrics import StageCell
from .request import Code
from .rows import Rows, Value, scatter

At: TypeAlias = tuple[str, Place]
"""The name of a stage, and where it is called."""


class StageError(Exception):
    """A stage failed. `row` is the row to blame where that is known; the cause is chained, `detail`
    is for the log. It failed `at` another stage than the one that was asked, where that is said."""

    def __init__(
        self, message: str, row: int | None = None, code: Code = Code.FAILED, detail: str = ""
    ) -> None:
        self.message, self.row, self.code, self.detail = message, row, code, detail
        self.at: At | None = None
        super().__init__(message)


class RowsFailed(StageError):
    """Some rows of an execution failed, each for a reason of its own in `errors`; others are to run
    `again`, told each of something else; `results` are those of the rest, in order, so that nothing
    has to run again for them."""

    def __init__(
        self,
        errors: "Mapping[int, StageError | StageGone]",
        results: "list[Rows]",
        again: "Mapping[int, Value]" = MappingProxyType({}),
    ) -> None:
        row = min(errors, default=None)
        first = StageError("it is to run again") if row is None else errors[row]
        super().__init__(first.message, row, first.code, first.detail)
        self.at = first.at
        self.errors, self.results, self.again = errors, results, again


class StageGone(Exception):
    """What a stage runs in has gone, or is not there; nothing of it is run again on its own.

    `detail` is for the log; `retry_after` is in how many seconds it may be there again.
    """

    def __init__(
        self, code: Code, message: str, detail: str = "", retry_after: float | None = None
    ) -> None:
        self.code, self.message, self.detail = code, message, detail
        self.retry_after = retry_after
        self.at: At | None = None
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Policy:
    """How a stage is queued: one queue, `instances` executions at a time (None: no bound), each
    of which takes its `resources` and weighs so much; `priorities` are its levels, None those of
    the request. With `again` rows may have to run once more: they queue, and meet new ones."""

    batching: Batching
    queueing: Queueing | None
    instances: int | None
    priorities: Priorities | None = None
    resources: tuple[tuple[str, int], ...] = ()
    weight: int = 0
    again: bool = False


def policy_of(segment: ModelSegment | PythonSegment) -> Policy | None:
    """Return how the stage of a segment is queued."""
    instances = segment.instances
    if instances is None and segment.service.isolation is not None:
        instances = 1
    service = segment.service
    unbound = instances is None and not service.resources
    if segment.batching is None and segment.queueing is None and unbound:
        return None
    batching = segment.batching or Batching(segment.group or 1, 0.0, ())
    return Policy(
        batching,
        segment.queueing,
        instances,
        service.priority,
        service.resources,
        service.weight,
    )


def needs_of(stages: "Iterable[Stage]") -> list[Sequence[tuple[str, int]]]:
    """Return what a run of each stage takes of resources."""
    return [one.policy.resources for one in stages if one.policy is not None]


@dataclass(slots=True)
class Part:
    """Rows of one work that may share an execution; `rows` None means all of them.

    Parts of one key may share it as well; `size` is what each row has of what they differ in.
    Nothing is changed in one; not frozen, as one is made for each request, in a third of the time.
    """

    key: Hashable
    rows: tuple[int, ...] | None
    columns: Sequence[Rows]
    count: int
    size: int = 0


class Stage(Protocol):
    """`index` is the stage's number in metrics; `policy` None means that nothing waits."""

    @property
    def name(self) -> str: ...

    @property
    def index(self) -> int: ...

    @property
    def policy(self) -> Policy | None: ...

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        """Run every row, in as many executions as it takes; raises StageError."""
        ...

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        """Run rows of one class in one execution; raises StageError."""
        ...

    def split(self, columns: Sequence[Rows], count: int) -> list[Part]:
        """Sort the rows of a work into classes that may each share executions."""
        ...


class Awaiting(Protocol):
    """A stage whose run waits for what somebody else does."""

    def ready(self, columns: Sequence[Rows], notify: Callable[[], object]) -> bool:
        """Whether it would not wait now; else `notify` is called once it would not, by any thread,
        and must not block."""
        ...


def classes(
    columns: Sequence[Rows], count: int, key: Callable[[Sequence[Rows], int], Hashable]
) -> list[Part]:
    """Sort rows by what `key` says of them; rows of equal key may share an execution."""
    found: dict[Hashable, list[int]] = {}
    for row in range(count):
        found.setdefault(key(columns, row), []).append(row)
    if len(found) == 1:
        return [Part(next(iter(found)), None, columns, count)]
    return [
        Part(one, tuple(rows), tuple(column.take(rows) for column in columns), len(rows))
        for one, rows in found.items()
    ]


def timed_run(
    stage: "Executes", columns: Sequence[Rows], count: int, cell: StageCell
) -> list[Rows]:
    """Execute once and count it, whatever comes of it."""
    start = perf_counter()
    try:
        return stage.execute(columns, count)
    finally:
        cell.record(count, perf_counter() - start)


class Executes(Protocol):
    """One execution, all rows at once."""

    def execute(self, columns: Sequence[Rows], count: int) -> list[Rows]: ...


def run_parts(
    stage: "Executes", parts: Sequence[Part], count: int, limit: int, cell: StageCell
) -> list[Rows]:
    """Run classes of rows in executions of at most `limit` and put the results in row order."""
    pieces: list[tuple[Sequence[int], list[Rows]]] = []
    for part in parts:
        rows = part.rows if part.rows is not None else range(count)
        for start in range(0, part.count, limit):
            stop = min(start + limit, part.count)
            chunk = [column.part(start, stop) for column in part.columns]
            try:
                results = timed_run(stage, chunk, stop - start, cell)
            except StageError as error:
                if stop - start == 1 and error.row is None:
                    error.row = 0
                if error.row is not None:
                    error.row = rows[start + error.row]
                raise
            pieces.append((rows[start:stop], results))
    width = len(pieces[0][1])
    return [scatter(count, [(rows, results[i]) for rows, results in pieces]) for i in range(width)]
