"""Doing what the scheduler has decided: these run stages, and touch no queue."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from ..stdlib.op import Item
from .batcher import Batch, Slice
from .blame import blame, late, over_limit, own_fault
from .flow import Fallback, Fork, Work
from .metrics import StageCell, Tally
from .present import present, present_rows
from .request import Fault
from .rows import Rows, merge
from .stage import Awaiting, Part, RowsFailed, Stage, StageError
from .strands import Again, Delivery, Resume
from .task import Branch, Join, Strand, Ticket


@dataclass(frozen=True, slots=True)
class Ended:
    """A walk of a fork has come to its end: its results, or why it has none."""

    branch: Branch
    outcome: list[Rows] | Fault


Advanced: TypeAlias = "Ticket | Fork | Ended | dict[str, Item] | Fault | None"
"""What a strand came to: rows that must wait, a fork, the end of its walk; the results or the fault
of the request; None when it is done already."""


class Doors(Protocol):
    """Says which stages may be run at once and which must be waited for."""

    def enter(self, strand: Strand, stage: Stage, count: int) -> bool:
        """Whether `count` rows of a strand may run now; if so, `leave` follows when they have."""
        ...

    def leave(self, strand: Strand, stage: Stage) -> None: ...


class Closed:
    """Lets nothing run at once that could be waited for."""

    def enter(self, strand: Strand, stage: Stage, count: int) -> bool:
        del strand, count
        return stage.policy is None

    def leave(self, strand: Strand, stage: Stage) -> None:
        """Nothing waits where `enter` said yes."""


CLOSED = Closed()


class Reached(NamedTuple):
    """What a strand has come to, and in how many seconds; None where a stage that could have been
    waited for has run as well."""

    strand: Strand
    outcome: Advanced
    seconds: float | None = None


def go_on(
    resumes: Sequence[Resume], tally: Tally, clock: Callable[[], float], doors: Doors
) -> list[Reached]:
    """Go on with strands; several are each to wait at the next stage for the others."""
    if len(resumes) > 1:
        doors = CLOSED
    return [_gone_on(resume, tally, clock, doors) for resume in resumes]


def _gone_on(resume: Resume, tally: Tally, clock: Callable[[], float], doors: Doors) -> Reached:
    strand = resume.strand
    at, before = strand.at, strand.busy
    return Reached(
        strand,
        advance(strand, resume.outcome, tally, clock, doors),
        strand.busy - before if strand.at == at else None,
    )


def advance(
    strand: Strand,
    outcome: Ticket | Join | Fault | None,
    tally: Tally,
    clock: Callable[[], float],
    doors: Doors,
) -> Advanced:
    """Go on with a request: with what it waited for, done (or its fault), or with neither from the
    start of the walk, or from what it has emitted last."""
    task, begin = strand.task, clock()
    if task.turn is not None and not task.hold():
        return None
    try:
        return _walk(strand, outcome, tally, clock, doors)
    except Exception as error:
        # no local for the fault: frames that the traceback of its cause leads to would hold it,
        # and it leaves its own here, which leads its caller to nothing of his
        name = task.pipeline.plan.name
        if isinstance(strand, Branch):
            return Ended(strand, own_fault(error, name).with_traceback(None))
        return own_fault(error, name).with_traceback(None)
    finally:
        if task.turn is not None:
            task.release()
        strand.busy += clock() - begin


def _walk(
    strand: Strand,
    outcome: Ticket | Join | Fault | None,
    tally: Tally,
    clock: Callable[[], float],
    doors: Doors,
) -> Advanced:
    task = strand.task
    flow, cells, name = strand.flow, tally.stages, task.pipeline.plan.name
    try:
        if strand is task and task.opened is not None:
            opened, task.opened = task.opened, None
            work = flow.throw(opened) if isinstance(opened, Fault) else opened.work
        elif strand is task and task.held is not None:
            work, task.held = task.held, None
        elif outcome is None:
            work = next(flow)
        elif isinstance(outcome, Fault):
            work = flow.throw(outcome)
        else:
            work = flow.send(outcome.results())
        while True:
            if strand.done:
                return None
            if not isinstance(work, Work):
                if isinstance(work, Fork):
                    if work.group.guard is not None:
                        work.group.guard.over(clock())
                    return work
                if isinstance(work, Fallback):
                    cell = tally.pipelines[task.pipeline.index]
                    cell.fall_back(str(work.place), work.code.value)
                elif not task.emit(
                    present(task.presenters, work.columns),
                    tally.pipelines[task.pipeline.index],
                    clock(),
                ):
                    return None  # parked: its reader resumes it, perhaps at this moment
                work = next(flow)
                continue
            if task.deadline is not None and clock() >= task.deadline:
                return late(name, work)
            stage, count, guard = work.stage, work.group.count, work.group.guard
            if guard is not None and guard.over(clock()):
                work = flow.throw(over_limit(name, work))
                continue
            if guard is not None and guard.at is not None and stage.index in task.pipeline.limited:
                return Ticket(strand, work, _parts(stage, work))
            if (awaits := task.pipeline.awaits) and _must_wait(awaits, strand, work):
                return None  # parked: who has something for it resumes it, perhaps at this moment
            if not doors.enter(strand, stage, count):
                return Ticket(strand, work, stage.split(work.columns, count))
            try:
                try:
                    results = stage.run(work.columns, count, cells[stage.index])
                finally:
                    doors.leave(strand, stage)
                if guard is not None and guard.over(clock()):
                    raise over_limit(name, work)
            except Exception as error:
                work = flow.throw(blame(error, work, name))
            else:
                work = flow.send(results)
    except StopIteration as stop:
        columns: list[Rows] = stop.value
        if isinstance(strand, Branch):
            return Ended(strand, columns)
        if task.turn is not None:
            end = len(columns) - len(task.pipeline.plan.states)
            columns, task.left = columns[:end], columns[end:]
        if task.pipeline.plan.stream:
            return {}  # its results are what it has emitted
        return present(task.presenters, columns)


def _must_wait(awaits: Mapping[int, Awaiting], strand: Strand, work: Work) -> bool:
    """Whether a stream is to be parked, with the work for a stage that would wait."""
    task, stage = strand.task, awaits.get(work.stage.index)
    if stage is None or strand is not task or task.wake is None or work.group.guard is not None:
        return False
    task.held = work
    if not stage.ready(work.columns, task.wake):
        return True
    task.held = None
    return False


def _parts(stage: Stage, work: Work) -> list[Part]:
    """Return the rows of a work under a time limit, for which a thread of its own is to be found.

    Without a policy they meet no others.
    """
    if stage.policy is None:
        return [Part(object(), None, tuple(work.columns), work.group.count)]
    return stage.split(work.columns, work.group.count)


class Concluded(NamedTuple):
    """The last work of a request, and its results by name."""

    ticket: Ticket
    outcome: dict[str, Item]


Given: TypeAlias = Delivery | Again | Concluded
"""What a batch has given for some rows."""

RunBatch: TypeAlias = Callable[[Stage, Batch[Ticket], Tally, float], list[Given]]


def run_batch(stage: Stage, batch: Batch[Ticket], tally: Tally, now: float) -> list[Given]:
    """Run a batch. When it fails, the rows of each request run once more without the others'."""
    for piece in batch.slices:
        if piece.entry.owner.task.turn is not None:
            return _run_held(stage, batch, tally, now)
    return _run_all(stage, batch, tally, now)


def conclude(given: Sequence[Given]) -> tuple[list[Concluded], list[Delivery | Again]]:
    """Return what ends requests, with what answers them, and the deliveries that do not: of those
    who go on, who have failed, who wait for more rows, and whose rows are to run again."""
    ended: list[Concluded] = []
    others: list[Delivery | Again] = []
    for one in given:
        if isinstance(one, Concluded):
            ended.append(one)
        else:
            others.append(one)
    return ended, others


def _run_held(stage: Stage, batch: Batch[Ticket], tally: Tally, now: float) -> list[Given]:
    """Run the rows of those whose turn in their sequence is not over, which lasts until then."""
    held = [piece for piece in batch.slices if piece.entry.owner.task.hold()]
    try:
        rows = sum(piece.stop - piece.start for piece in held)
        return _run_all(stage, Batch(tuple(held), rows), tally, now) if held else []
    finally:
        for piece in held:
            piece.entry.owner.task.release()


def _run_all(stage: Stage, batch: Batch[Ticket], tally: Tally, now: float) -> list[Given]:
    cell = tally.stages[stage.index]
    slices = batch.slices
    first, mixed, waited = slices[0].entry.owner.task, False, 0.0
    for entry, start, stop in slices:
        waited += (now - entry.arrived) * (stop - start)
        mixed = mixed or entry.owner.task is not first
    cell.queue += waited
    cell.waited = waited
    cell.mixed += mixed
    try:
        columns = [one.owner.columns(one.part, start, stop) for one, start, stop in slices]
        together = [merge(pieces) for pieces in zip(*columns, strict=True)]
        run = stage.run if stage.policy is None else stage.run_together
        results = run(together, batch.rows, cell)
    except RowsFailed as error:
        return _apart(slices, error)
    except Exception as error:
        if isinstance(error, StageError) and len(slices) > 1:
            return [_alone(stage, piece, cell) for piece in slices]
        return [_failed(piece, error) for piece in slices]
    given: list[Given] = []
    at = 0
    for piece in slices:
        given.append(_given(piece, results, at))
        at += piece.stop - piece.start
    return given


def _given(piece: Slice[Ticket], results: Sequence[Rows], at: int) -> Given:
    """Return what the rows of a piece have got, which are there from a row on: the results of their
    request, where it ends with them."""
    entry, start, stop = piece
    ticket, end = entry.owner, at + stop - start
    task = ticket.task
    if not task.ends or stop - start != ticket.work.group.count:
        return Delivery(ticket, _rows(piece), [column.part(at, end) for column in results])
    try:
        return Concluded(ticket, present_rows(task.presenters, results, at, end))
    except Exception as error:
        return Delivery(ticket, _rows(piece), own_fault(error, task.pipeline.plan.name))


def _apart(slices: Sequence[Slice[Ticket]], failed: RowsFailed) -> list[Given]:
    """Give the requests whose rows have not failed theirs, and the others the reason."""
    given: list[Given] = []
    start = kept = 0
    for piece in slices:
        stop = start + piece.stop - piece.start
        wrong = next((row for row in range(start, stop) if row in failed.errors), None)
        if start in failed.again:
            told = Rows.of([failed.again[row] for row in range(start, stop)])
            given.append(Again(piece, [*_columns(piece)[:-1], told]))
        elif wrong is None:
            given.append(_given(piece, failed.results, kept))
            kept += stop - start
        else:
            kept += sum(row not in failed.errors for row in range(start, stop))
            given.append(_failed(piece, failed.errors[wrong], wrong - start))
        start = stop
    return given


def _alone(stage: Stage, piece: Slice[Ticket], cell: StageCell) -> Given:
    again = stage.policy is not None and stage.policy.again
    run = stage.run_together if again else stage.run
    try:
        results = run(_columns(piece), piece.stop - piece.start, cell)
    except RowsFailed as error:
        return _apart([piece], error)[0]
    except Exception as error:
        return _failed(piece, error)
    return _given(piece, results, 0)


def _failed(piece: Slice[Ticket], error: Exception, index: int | None = None) -> Delivery:
    ticket, rows = piece.entry.owner, _rows(piece)
    row = rows[0] if len(rows) == 1 else None if index is None else rows[index]
    if isinstance(error, StageError) and error.row is not None and error.row < len(rows):
        row = rows[error.row]
    fault = blame(error, ticket.work, ticket.task.pipeline.plan.name, row)
    return Delivery(ticket, rows, fault)


def _columns(piece: Slice[Ticket]) -> Sequence[Rows]:
    return piece.entry.owner.columns(piece.entry.part, piece.start, piece.stop)


def _rows(piece: Slice[Ticket]) -> Sequence[int]:
    return piece.entry.owner.rows(piece.entry.part, piece.start, piece.stop)
