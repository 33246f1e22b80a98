"""Models that a batch goes through together (`chains.py`), as one stage with one queue.

Whoever fails at one of them leaves the others, who go on; so does whoever has no more time, or has
been cancelled. Each model counts its own executions, and the requests that it has answered.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Final, NamedTuple, TypeAlias

from ..compiler.plan import ModelSegment, Place
from .chains import Chain
from .context import spans_of
from .flow import FREED
from .instance import ModelStage
from .metrics import StageCell, Tally
from .request import Code
from .rows import Rows, merge, scatter
from .stage import Part, Policy, RowsFailed, StageError, StageGone, classes, policy_of
from .stage_calls import StageCalls

LATE: Final = "the deadline has passed; what was left has not been run"
CANCELLED: Final = "the request was cancelled; what was left has not been run"

Failure: TypeAlias = StageError | StageGone


class Member(NamedTuple):
    """A model, and the numbers of the values that it takes and gives, and of those that nobody
    needs behind it."""

    stage: ModelStage
    segment: ModelSegment
    place: Place
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    frees: tuple[int, ...]


class ChainStage:
    """It is given one column for each value that is not made in it, in order, and the contexts."""

    def __init__(
        self,
        chain: Chain,
        stages: Sequence[ModelStage],
        segments: Sequence[ModelSegment],
        index: int,
    ) -> None:
        self.name, self.index = stages[0].name, index
        self.chain, self._given = chain, len(chain.inputs)
        numbers = {slot: number for number, slot in enumerate(chain.inputs)}
        for call in chain.calls:
            for slot in call.outputs:
                numbers[slot] = len(numbers)
        self._values = len(numbers)
        self._results = tuple(numbers[slot] for slot in chain.outputs)
        self._members: list[Member] = []
        needed = set(self._results)
        for call, stage, segment in reversed([*zip(chain.calls, stages, segments, strict=True)]):
            takes = tuple(numbers[slot] for slot in call.inputs)
            gives = tuple(numbers[slot] for slot in call.outputs)
            frees = tuple({*takes, *gives} - needed)
            self._members.insert(0, Member(stage, segment, call.place, takes, gives, frees))
            needed.update(takes)
        self.policy = _policy(segments)
        self._tally: Callable[[], Tally] | None = None
        self._calls: Mapping[int, StageCalls] = {}

    def count(self, tally: Callable[[], Tally], calls: Mapping[int, StageCalls]) -> None:
        """Let its models count in the cells of the thread that runs them, which `tally` returns,
        and in the `calls` of its pipeline."""
        self._tally, self._calls = tally, calls
        for member in self._members:
            if (counted := calls.get(member.stage.index)) is not None:
                counted.by_outcome = True

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        cell.waited = 0.0
        return self.run_together(columns, count, cell)

    def split(self, columns: Sequence[Rows], count: int) -> list[Part]:
        first = self._members[0]
        if first.takes == tuple(range(self._given)):
            return first.stage.split(columns, count)
        return classes(columns, count, self._key)

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        """Run rows through all models; raises RowsFailed where some did not come to the end."""
        values, told = self._filled(columns), columns[-1]
        rows: Sequence[int] = range(count)  # those that are left
        failed: dict[int, Failure] = {}
        waited = cell.waited / count
        for member in self._members:
            results, errors, seconds = self._ask(member, values, told, len(rows))
            for row, error in errors.items():
                error.at = error.at or (member.stage.name, member.place)
                failed[rows[row]] = error
            if errors:
                kept = [row for row in range(len(rows)) if row not in errors]
                values = [value if value is FREED else value.take(kept) for value in values]
                told, rows = told.take(kept), [rows[row] for row in kept]
            if not rows:
                raise RowsFailed(failed, [Rows.of([]) for _ in self._results])
            for number, result in zip(member.gives, results, strict=True):
                values[number] = result
            for number in member.frees:
                values[number] = FREED
            self._count(member, told, len(rows), seconds + waited)
            waited = 0.0
        found = [values[number] for number in self._results]
        if failed:
            raise RowsFailed(failed, found)
        return found

    def _filled(self, columns: Sequence[Rows]) -> list[Rows]:
        return [*columns[:-1], *[FREED] * (self._values - self._given)]

    def _ask(
        self, member: Member, values: Sequence[Rows], told: Rows, count: int
    ) -> tuple[list[Rows], Mapping[int, Failure], float]:
        """Run a model; return what it gives those rows that it does not fail, why it fails the
        others, and how many seconds that took."""
        assert self._tally is not None  # it counts before it is asked
        cell = self._tally().stages[member.stage.index]
        columns = self._columns(member, values, told)
        over = _over(told, count)
        start = perf_counter()
        if over:
            kept = [row for row in range(count) if row not in over]
            results, errors = list[Rows](), dict[int, Failure]()
            if kept:
                left = [column.take(kept) for column in columns]
                results, errors = _run(member, left, told.take(kept), len(kept), cell)
            errors = {**over, **{kept[row]: error for row, error in errors.items()}}
        else:
            results, errors = _run(member, columns, told, count, cell)
        return results, errors, perf_counter() - start

    def _columns(self, member: Member, values: Sequence[Rows], told: Rows) -> list[Rows]:
        taken = [values[number] for number in member.takes]
        return [*taken, told] if member.segment.told else taken

    def _key(self, columns: Sequence[Rows], row: int) -> Hashable:
        """Return what rows have in common that may meet: what they do at the first, and the shapes
        of what comes later."""
        one = [column.part(row, row + 1) for column in columns]
        first = self._members[0]
        (part,) = first.stage.split(self._columns(first, one, one[-1]), 1)
        others = (one[at].item(0) for at in range(self._given) if at not in first.takes)
        return part.key, *(getattr(value, "shape", None) for value in others)

    def _count(self, member: Member, told: Rows, count: int, seconds: float) -> None:
        """Count the requests that a model has answered."""
        calls = self._calls.get(member.stage.index)
        if calls is not None:
            for start, stop, _ in spans_of(told, count):
                calls.answered(stop - start, seconds)


def _run(
    member: Member, columns: Sequence[Rows], told: Rows, count: int, cell: StageCell
) -> tuple[list[Rows], Mapping[int, Failure]]:
    """Run a model on rows, those of one shape together; return what it gives those that it does not
    fail, in their order, and why it fails the others."""
    parts = member.stage.split(columns, count)
    if len(parts) == 1:
        return _run_together(member.stage, columns, told, count, cell)
    pieces: list[tuple[list[int], list[Rows]]] = []
    errors: dict[int, Failure] = {}
    for part in parts:
        rows = part.rows or range(count)
        results, failed = _run_together(
            member.stage, part.columns, told.take(rows), part.count, cell
        )
        errors.update((rows[at], error) for at, error in failed.items())
        if results:
            pieces.append(([row for at, row in enumerate(rows) if at not in failed], results))
    places = {
        row: place for place, row in enumerate(sorted(row for one, _ in pieces for row in one))
    }
    kept = [([places[row] for row in rows], results) for rows, results in pieces]
    return [
        scatter(len(places), [(rows, results[at]) for rows, results in kept])
        for at in range(len(member.gives) if kept else 0)
    ], errors


def _run_together(
    stage: ModelStage, columns: Sequence[Rows], told: Rows, count: int, cell: StageCell
) -> tuple[list[Rows], Mapping[int, Failure]]:
    """Execute a model once, and where that fails as a whole once for each request."""
    try:
        return stage.run_together(columns, count, cell), {}
    except RowsFailed as error:
        return (error.results if len(error.errors) < count else []), error.errors
    except (StageError, StageGone) as error:
        spans = spans_of(told, count)
        if isinstance(error, StageGone) or len(spans) == 1:
            return [], dict.fromkeys(range(count), error)
    pieces: list[list[Rows]] = []
    errors: dict[int, Failure] = {}
    for start, stop, _ in spans:
        part = [column.part(start, stop) for column in columns]
        try:
            pieces.append(stage.run_together(part, stop - start, cell))
        except (StageError, StageGone) as error:
            errors.update(dict.fromkeys(range(start, stop), error))
    return [merge(column) for column in zip(*pieces, strict=True)], errors


def _over(told: Rows, count: int) -> dict[int, Failure]:
    """Return why rows are not to be run: whose time is up, or whom nobody waits for."""
    found: dict[int, Failure] = {}
    for start, stop, context in spans_of(told, count):
        if context.over:
            why = StageGone(Code.CANCELLED, CANCELLED)
        elif context.remaining() == 0.0:
            why = StageGone(Code.DEADLINE, LATE)
        else:
            continue
        found.update(dict.fromkeys(range(start, stop), why))
    return found


def _policy(segments: Sequence[ModelSegment]) -> Policy:
    """Return how the first is queued; as many may run as all have instances, one at each."""
    first = segments[0]
    instances = sum(segment.instances or 1 for segment in segments)
    policy = policy_of(replace(first, instances=instances))
    assert policy is not None  # as there are instances
    return policy
