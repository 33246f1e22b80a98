"""Requests that have begun: what each of their strands waits for, and which can go on.

A strand waits for a Ticket, whose rows are in the queue of a stage or run, or for the Join of those
that it has forked into; else it is resumable, or a worker is at it. Rows that come to a stage where
nobody else can come and nothing else is to be done do not queue (`enter`). Nothing here waits,
locks or runs a stage; `now` is always an argument.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from .agenda import Agenda
from .batcher import Batch, Slice
from .blame import over_limit, own_fault, stuck
from .company import Company
from .flow import Fork, Work
from .foresight import Foresight
from .line import Entry
from .prepared import running_mean
from .request import Fault
from .rows import Rows
from .stage import Stage
from .stage_queues import NOTHING, StageQueue, StageQueues
from .task import Branch, Join, Strand, Task, Ticket
from .units import Holding

HANDFUL: Final = 2e-4
"""Seconds that a worker takes to go on with several strands, before it looks what else there is."""


class Resume(NamedTuple):
    """`outcome` is what the strand waited for, done, or why it is not; None for a walk of a fork
    that begins, and for a stream that has waited for its reader."""

    strand: Strand
    outcome: Ticket | Join | Fault | None


class Delivery(NamedTuple):
    """Results of some rows of a ticket, or why they have none."""

    ticket: Ticket
    rows: Sequence[int]
    outcome: list[Rows] | Fault


class Again(NamedTuple):
    """Rows of a batch that are to run once more, with these `columns`."""

    piece: Slice[Ticket]
    columns: Sequence[Rows]

    @property
    def outcome(self) -> None:
        """They have come to nothing yet."""


class Strands:
    """Those of all requests of one engine."""

    def __init__(
        self, pipelines: int, queues: StageQueues, company: Company, foresight: Foresight
    ) -> None:
        """`opened` counts the requests of each pipeline that wait to begin at their first stage."""
        self.opened = [0] * pipelines
        self._queues, self._company, self._foresight = queues, company, foresight
        self._resumable: deque[Resume] = deque()
        self._limits: Agenda[float, Ticket] = Agenda(_waits)
        self._steps: dict[tuple[int, int], float] = {}
        self._entered: dict[Strand, Holding] = {}

    def come(self, task: Task) -> None:
        """Note that a request is here, which may come to any stage."""
        self._company.come(task.pipeline.index)

    def enter(self, strand: Strand, stage: Stage, count: int, now: float) -> bool:
        """Whether rows that have come to a stage may run there without queueing, where nothing else
        is to be done: there must be nobody to wait for, and a place free. `leave` must follow."""
        if strand.done:  # since it was looked at last
            return False
        company, pipeline = self._company, strand.task.pipeline.index
        company.go(pipeline, strand.at)
        alone = not company.expected(stage.index)
        holding = self._queues.enter(stage, count, now, alone=alone)
        if holding is None:
            company.come(pipeline, strand.at)
            return False
        if holding is not NOTHING:
            self._entered[strand] = holding
            _hold(strand.task, holding)
        strand.at = stage.index
        company.come(pipeline, strand.at)
        return True

    def leave(self, strand: Strand, stage: Stage) -> None:
        """Note that rows which entered have run."""
        holding = self._entered.pop(strand, NOTHING) if self._entered else NOTHING
        self._queues.leave(self._queues.of(stage), holding)

    def enqueue(self, ticket: Ticket, now: float, idle: int) -> bool:
        """Put a work in front of its stage; when that is full the request goes on with a fault."""
        strand, work, task = ticket.strand, ticket.work, ticket.task
        if strand.done:
            return False
        queue, guard, pipeline = self._queues.of(work.stage), work.group.guard, task.pipeline
        if not task.reached_queue:
            task.reached_queue = True
            if not ticket.opens or pipeline.start_seconds is None:
                pipeline.started(_busy(strand))
        at, level, parts = queue.stage.index, queue.level(task), ticket.parts
        deadline = urgent = None
        if task.deadline is not None:
            deadline, urgent = self._foresight.limits(task, at)
            if guard is not None:
                deadline = task.deadline  # there may be another way out, up to then
        entries: list[Entry[Ticket]] = []
        for i, one in enumerate(parts):
            entry = Entry(ticket, one.count, one.key, i, level, deadline, one.size, urgent)
            entry.limited = task.limited
            entries.append(entry)
        if parts[0].columns is work.columns:
            ticket.parts = ()
        free = idle if idle and self._queues.is_open(queue) else 0
        if not queue.batcher.add(entries, now, free):
            fault = self._foresight.full_stage(task, work)
            self._resumable.append(Resume(strand, fault))
            return False
        self._company.wait(pipeline.index, strand.at, at)
        strand.ticket, strand.at = ticket, at
        if guard is not None and guard.at is not None:
            self._limits.add(guard.at, ticket)
        if task.behind and (why := self._queues.wait(queue, ticket)):
            self.interrupt(ticket, stuck(pipeline.plan.name, work, why), now)
            return False
        return True

    def open(self, task: Task, now: float) -> None:
        """Let a request begin that opens: it waits at its first stage."""
        if task.opened is None:
            open_walk(task)
        ticket, task.opened = task.opened, None
        if isinstance(ticket, Ticket):
            ticket.opens = True  # which takes no time, and is to be in no mean
            ticket.opens = self.enqueue(ticket, now, 0)
            self.opened[task.pipeline.index] += ticket.opens
        else:
            self._resumable.append(Resume(task, ticket))

    def taken(self, queue: StageQueue, batch: Batch[Ticket], now: float, holding: Holding) -> None:
        """Note that the rows of a batch have left their queue to be run."""
        for piece in batch.slices:
            ticket = piece.entry.owner
            if not ticket.taken:
                self._leave_queue(ticket, queue.stage)
            elif ticket.task.behind:
                self._queues.go(queue, ticket)
            if ticket.task.begun is not None:
                ticket.task.begun[queue.stage.index] = now
            if holding is not NOTHING:
                _hold(ticket.task, holding)

    def deliver(self, delivery: Delivery, now: float) -> None:
        """Take the outcome of some rows; with the last, or the first fault, the request goes on."""
        ticket, outcome = delivery.ticket, delivery.outcome
        strand = ticket.strand
        if strand.ticket is not ticket:
            return
        guard = ticket.work.group.guard
        if guard is not None and guard.over(now):
            outcome = over_limit(ticket.task.pipeline.plan.name, ticket.work)
        if isinstance(outcome, Fault):
            self.interrupt(ticket, outcome, now)
        elif ticket.deliver(delivery.rows, outcome):
            strand.ticket = None
            self._resumable.append(Resume(strand, ticket))

    def put_back(self, again: Again, now: float) -> None:
        """Let rows that have run run once more, as what they are told now."""
        entry, start, stop = again.piece
        ticket, stage = entry.owner, entry.owner.work.stage
        if ticket.strand.ticket is not ticket:
            return
        (part,) = stage.split(again.columns, stop - start)
        number = ticket.renew(entry.part, start, stop, part)
        queue = self._queues.of(stage)
        put = Entry(ticket, part.count, part.key, number, entry.level, entry.deadline, part.size)
        put.limited = entry.limited
        queue.batcher.put_back(put, now)
        if ticket.task.behind and (why := self._queues.wait(queue, ticket)):
            self.interrupt(ticket, stuck(ticket.task.pipeline.plan.name, ticket.work, why), now)

    def fork(self, strand: Strand, fork: Fork) -> None:
        """Let the walks of a fork be gone on with by whoever is free; the strand waits for them."""
        if strand.done:
            return
        join = strand.join = Join(strand, fork.flows)
        self._company.go(strand.task.pipeline.index, strand.at)
        self._company.come(strand.task.pipeline.index, strand.at, len(join.branches))
        self._resumable.extend(Resume(branch, None) for branch in join.branches)

    def end(self, branch: Branch, outcome: list[Rows] | Fault, now: float) -> None:
        """Take what a walk of a fork has come to; with the last, or the first fault, the strand
        that forked goes on."""
        if branch.done:
            return
        branch.done = True
        join, pipeline = branch.meets, branch.task.pipeline.index
        self._company.go(pipeline, branch.at)
        join.parent.busy += branch.busy
        if isinstance(outcome, Fault):
            self._resumable.append(Resume(join.parent, outcome))
        elif join.take(branch, outcome):
            self._resumable.append(Resume(join.parent, join))
        else:
            return
        self._part(join, now)
        self._company.come(pipeline, join.parent.at)

    def pause(self, task: Task) -> None:
        """Note that a stream waits for its reader, unless he has made room meanwhile: nobody waits
        for the company of who does not come by himself."""
        task.pauses += 1
        if task.pauses == 1:
            self._company.go(task.pipeline.index, task.at)

    def resume(self, task: Task) -> None:
        """Let a stream go on whose reader has made room."""
        if task.done:
            return
        task.pauses -= 1
        if task.pauses == 0:
            self._company.come(task.pipeline.index, task.at)
        self._resumable.append(Resume(task, None))

    def next(self) -> list[Resume]:
        """Take what a worker had better go on with at one time: the next strand, and more of them
        while they take no longer than a handful is to take."""
        ready, seconds = self._resumable, 0.0
        taken: list[Resume] = []
        while ready:
            strand = ready[0].strand
            if strand.done:
                ready.popleft()
                continue
            seconds += self._steps.get((strand.task.pipeline.index, strand.at), HANDFUL)
            if taken and seconds > HANDFUL:
                break
            taken.append(ready.popleft())
        return taken

    def took(self, strand: Strand, seconds: float) -> None:
        """Note how long a strand took to get from where it is to where it must wait, or its end."""
        place = strand.task.pipeline.index, strand.at
        self._steps[place] = running_mean(self._steps.get(place), seconds)

    def resumable(self) -> bool:
        """Whether a strand can go on."""
        ready = self._resumable
        while ready and ready[0].strand.done:
            ready.popleft()
        return bool(ready)

    def tasks(self) -> list[Task]:
        """Return the requests of strands that can go on, or wait at a stage."""
        found = [ticket.task for queue in self._queues for ticket in queue.batcher.owners()]
        return [*found, *(resume.strand.task for resume in self._resumable)]

    def next_limit(self) -> float | None:
        """Return when the next time limit of a `try` has passed."""
        first = self._limits.first()
        return None if first is None else first[0]

    def end_limits(self, now: float) -> None:
        """Let what has waited until the limit of a `try` go on to its `else`."""
        while (limit := self._limits.first()) is not None and limit[0] <= now:
            self._limits.pop()
            ticket = limit[1]
            self.interrupt(ticket, over_limit(ticket.task.pipeline.plan.name, ticket.work), now)

    def interrupt(self, ticket: Ticket, fault: Fault, now: float) -> None:
        """Take a work out of its queue, and let its request go on with a fault.

        What runs of it already is not used.
        """
        self._give_up(ticket, now)
        self._resumable.append(Resume(ticket.strand, fault))

    def withdraw(self, strand: Strand, now: float) -> None:
        """Let nothing more of a request run, which has not got its answer yet."""
        if strand.ticket is not None:
            self._give_up(strand.ticket, now)
        for branch in strand.join.branches if strand.join is not None else ():
            self.withdraw(branch, now)

    def stop(self, strand: Strand, now: float, *, counted: bool = True) -> None:
        """Take a strand, and those that it waits for, out wherever they are."""
        strand.done = True
        if strand.ticket is not None:
            self._give_up(strand.ticket, now)
        if strand.join is not None:
            self._part(strand.join, now)
        elif counted:
            self._company.go(strand.task.pipeline.index, strand.at)

    def _part(self, join: Join, now: float) -> None:
        """Let go of the strands of a fork, and stop those that are not at their end."""
        branches, join.branches, join.parent.join = join.branches, [], None
        for branch in branches:
            if not branch.done:
                self.stop(branch, now)

    def _give_up(self, ticket: Ticket, now: float) -> None:
        ticket.strand.ticket = None
        self._queues.of(ticket.work.stage).batcher.cancel(ticket, now)
        if not ticket.taken:
            self._leave_queue(ticket, ticket.work.stage)

    def _leave_queue(self, ticket: Ticket, stage: Stage) -> None:
        """Note that some rows of a ticket do not wait any more, or that it does not."""
        pipeline = ticket.task.pipeline.index
        ticket.taken = True
        self._company.pass_by(pipeline, stage.index)
        if ticket.task.behind:
            self._queues.go(self._queues.of(stage), ticket)
        if ticket.opens:
            self.opened[pipeline] -= 1


def opens(task: Task) -> bool:
    """Whether a request whose walk begins at a stage may come there in the thread that brings it:
    where its place in line says nothing of when it is served."""
    return task.deadline is None and task.turn is None and task.pipeline.plan.queueing is None


def open_walk(task: Task) -> None:
    """Let a request come to its first stage: there is nothing else to be done on the way."""
    try:
        work = next(task.flow)
        assert isinstance(work, Work)
        task.opened = Ticket(task, work, work.stage.split(work.columns, work.group.count))
    except Exception as error:
        task.opened = own_fault(error, task.pipeline.plan.name)


def waited_for(strand: Strand) -> Ticket | None:
    """Return a work that a strand waits for, or one of those that it has joined does."""
    if strand.ticket is not None or strand.join is None:
        return strand.ticket
    found = (waited_for(branch) for branch in strand.join.branches)
    return next((ticket for ticket in found if ticket is not None), None)


def _hold(task: Task, holding: Holding) -> None:
    """Note that something of a request runs, which may ask for other requests."""
    if task.told is not None:
        task.told.hold(holding)


def _waits(_limit: float, ticket: Ticket) -> bool:
    return ticket.strand.ticket is ticket


def _busy(strand: Strand) -> float:
    """Return the seconds that led to where a strand is."""
    return strand.busy + (_busy(strand.meets.parent) if isinstance(strand, Branch) else 0.0)
