"""What a free worker does next: decisions of the threaded and the simulated driver.

A request is *admitted* to its pipeline's line, *started* by a worker, and goes on until a stage
with a queue is reached; there its rows wait. Whoever finishes a batch makes its requests
*resumable*. A request that forks waits in several places at once, each a *strand* of it, until the
last has come to its end. Nothing here waits, locks or runs a stage; `now` is always an argument.

A free worker takes, in this order: a request that can go on; a new request if getting it to its
queue is cheap, so that batches fill; a batch that is ready; a new request. What cannot be answered
in time any more is dropped before it runs, or not taken in (`foresight.py`).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from ..compiler.policies import Batching, Queueing
from .admission import Intake
from .agenda import Agenda
from .batcher import Batch, Batcher
from .blame import late, over_limit, overloaded
from .company import Company, reaches
from .flow import Fork
from .forecast import START
from .foresight import Foresight
from .line import Entry, Rank
from .prepared import Prepared
from .request import Fault
from .rows import Rows
from .stage import Stage
from .stage_queues import StageQueue, StageQueues
from .task import Branch, Join, Strand, Task, Ticket
from .units import Needs

CHEAP_START: Final = 1e-3
"""Seconds to the first queue below which new requests are started before a batch is run."""


@dataclass(frozen=True, slots=True)
class Start:
    task: Task


@dataclass(frozen=True, slots=True)
class Resume:
    """`outcome` is what the strand waited for, done, or why it is not; None for a walk of a fork
    that begins, and for a stream that has waited for its reader."""

    strand: Strand
    outcome: Ticket | Join | Fault | None


@dataclass(frozen=True, slots=True)
class Run:
    """`Scheduler.ran` follows."""

    queue: StageQueue
    batch: Batch[Ticket]


@dataclass(frozen=True, slots=True)
class End:
    """Answer a request with a fault: its time is up."""

    task: Task
    fault: Fault


Job: TypeAlias = Start | Resume | Run | End


@dataclass(frozen=True, slots=True)
class Delivery:
    """Results of some rows of a ticket, or why they have none."""

    ticket: Ticket
    rows: Sequence[int]
    outcome: list[Rows] | Fault


class Scheduler:
    """All requests of one engine that are not done. `in_flight` counts those not answered."""

    def __init__(
        self,
        pipelines: Sequence[Prepared],
        stages: Sequence[Stage],
        intake: Intake,
        resources: Needs = (),
    ) -> None:
        """`resources` are how many units there are of what stages need, where that is said."""
        self.in_flight = 0
        self.started = 0
        self._resumable: deque[Resume] = deque()
        self._handed: deque[Task] = deque()
        self._over: deque[End] = deque()
        self._parked: set[Task] = set()
        self._queue_size = intake.queue_size
        self._lines: list[Batcher[Task]] = []
        for pipeline in pipelines:
            queueing = pipeline.plan.queueing or Queueing(intake.queue_size)
            self._lines.append(Batcher(Batching(1), queueing))
        self._pipelines = pipelines
        self._foresight = Foresight(len(pipelines), intake)
        waited = {one.index for one in stages if one.policy and one.policy.batching.wait > 0}
        found = [reaches(pipeline.plan.body) for pipeline in pipelines]
        # where nobody ever waits for company, nobody is counted
        self._company = Company([one if waited & one[START] else {} for one in found])
        limited = set[int]().union(*(pipeline.limited for pipeline in pipelines))
        self._queues = StageQueues(stages, limited, self._company, resources)
        largest = [policy.batching.maximum for stage in stages if (policy := stage.policy)]
        self._most_started = 4 * max(largest, default=1)
        self._deadlines: Agenda[float, Task] = Agenda(_in_flight)
        self._limits: Agenda[float, Ticket] = Agenda(_waits)
        self._streams: set[Task] = set()

    def pending(self) -> list[int]:
        """Return how many requests of each pipeline wait to be started."""
        return [line.waiting for line in self._lines]

    def admit(self, task: Task, now: float, idle: int) -> Fault | None:
        """Take in a new request; return why not, if not. `idle` workers are free.

        When one of them is for this request, it does not go through the line.
        """
        pipeline, idle = task.pipeline.index, idle - len(self._handed)
        line = self._lines[pipeline]
        at_once = idle > 0 and not self._resumable and not any(one.waiting for one in self._lines)
        ahead = 0 if at_once else line.ahead(task.level)
        if (refusal := self._foresight.refusal(task, now, ahead)) is not None:
            return refusal
        if at_once:
            self._hand(task)
        elif not line.add((self._foresight.entry(task),), now, idle):
            return self._foresight.full(task, line.waiting)
        self._take_in(task)
        self._company.come(pipeline)
        if task.pipeline.plan.stream:
            self._streams.add(task)
        return None

    def park(self, task: Task, now: float) -> Fault | None:
        """Take in a request that has to wait for its turn; return why not, if not."""
        refusal = self._foresight.refusal(task, now, 0)
        if refusal is None and len(self._parked) >= self._queue_size:
            refusal = overloaded(task.pipeline.plan.name)
        if refusal is None:
            self._parked.add(task)
            self._take_in(task)
        return refusal

    def unpark(self, task: Task) -> None:
        """Start a request whose turn has come; it has waited already."""
        self._parked.discard(task)
        self._hand(task)
        self._company.come(task.pipeline.index)

    def _hand(self, task: Task) -> None:
        self._handed.append(task)
        task.started = True
        self.started += 1

    def _take_in(self, task: Task) -> None:
        self.in_flight += 1
        self._foresight.take_in(task)
        if task.deadline is not None:
            self._deadlines.add(task.deadline, task)

    def enter(self, strand: Strand, stage: Stage, count: int, now: float) -> bool:
        """Whether rows that have come to a stage may run there without queueing.

        So it is when there is nobody to wait for, a place is free, and nothing else is to be done:
        what else could join them? `leave` must follow.
        """
        if self.has_job(now):
            return False
        company, pipeline = self._company, strand.task.pipeline.index
        company.go(pipeline, strand.at)
        alone = not company.expected(stage.index)
        if not self._queues.enter(stage, count, now, alone=alone):
            company.come(pipeline, strand.at)
            return False
        strand.at = stage.index
        company.come(pipeline, strand.at)
        return True

    def leave(self, stage: Stage) -> None:
        """Note that rows which entered have run."""
        self._queues.leave(self._queues.of(stage))

    def enqueue(self, ticket: Ticket, now: float, idle: int) -> bool:
        """Put a work in front of its stage; when that is full the request goes on with a fault."""
        strand, queue = ticket.strand, self._queues.of(ticket.work.stage)
        task, guard = strand.task, ticket.work.group.guard
        if strand.done:
            return False
        if not task.reached_queue:
            task.reached_queue = True
            task.pipeline.started(_busy(strand))
        at, level = queue.stage.index, queue.level(task)
        deadline = urgent = None
        if task.deadline is not None:
            deadline, urgent = self._foresight.limits(task, at)
            if guard is not None:
                deadline = task.deadline  # there may be another way out, up to then
        entries = [
            Entry(ticket, one.count, one.key, i, level, deadline, one.size, urgent, task.limited)
            for i, one in enumerate(ticket.parts)
        ]
        if not queue.batcher.add(entries, now, idle if self._queues.is_open(queue) else 0):
            fault = self._foresight.full_stage(task, ticket.work)
            self._resumable.append(Resume(strand, fault))
            return False
        self._company.wait(task.pipeline.index, strand.at, at)
        strand.ticket, strand.at = ticket, at
        if guard is not None and guard.at is not None:
            self._limits.add(guard.at, ticket)
        return True

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

    def resume(self, task: Task) -> None:
        """Let a stream go on whose reader has made room."""
        if not task.done:
            self._resumable.append(Resume(task, None))

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
            self._interrupt(ticket, outcome, now)
        elif ticket.deliver(delivery.rows, outcome):
            strand.ticket = None
            self._resumable.append(Resume(strand, ticket))

    def ran(self, run: Run) -> None:
        """Note that a batch has run, before what it gave is delivered."""
        self._queues.leave(run.queue)

    def next_job(self, now: float) -> Job | None:
        """Take the next thing to do; None when there is none at this moment."""
        while True:
            self._forget_done()
            if self._over:
                return self._over.popleft()
            if self._resumable:
                return self._resumable.popleft()
            if self._handed:
                return _begun(self._handed.popleft(), now)
            line = self._line(now)
            if line is not None:
                if self._overdue(self._lines[line], now):
                    continue
                if self._fills_batches(line):
                    return self._start(line, now)
            queue = self._queues.ready(now)
            if queue is not None:
                if self._overdue(queue.batcher, now):
                    continue
                if (batch := self._queues.take(queue, now)) is not None:
                    self._note_taken(queue, batch, now)
                    return Run(queue, batch)
            return None if line is None else self._start(line, now)

    def _overdue(self, batcher: Batcher[Task] | Batcher[Ticket], now: float) -> bool:
        """Whether time has run out for something in a queue that is about to be served: it is not
        to run although nobody has been told of it yet."""
        expiry = batcher.next_expiry()
        if expiry is None or expiry > now:
            return False
        self._over.extend(End(task, fault) for task, fault in self.expire(now))
        return True

    def has_job(self, now: float) -> bool:
        """Whether `next_job` would find something."""
        self._forget_done()
        return (
            bool(self._resumable or self._handed or self._over)
            or self._line(now) is not None
            or self._queues.ready(now) is not None
        )

    def next_due(self, now: float) -> float | None:
        """Return when a batch will be ready that is not ready yet; None when none waits."""
        return self._queues.next_due(now)

    def next_expiry(self) -> float | None:
        """Return when time runs out for the next request or row."""
        first = (self._deadlines.first(), self._limits.first())
        times = [found[0] for found in first if found is not None]
        for batcher in self._batchers():
            if (expiry := batcher.next_expiry()) is not None:
                times.append(expiry)
        return min(times, default=None)

    def expire(self, now: float) -> list[tuple[Task, Fault]]:
        """Return the requests whose time is up, with the fault to end each with.

        Under a `try` a request goes on instead: with the fault, to its `else`.
        """
        while (limit := self._limits.first()) is not None and limit[0] <= now:
            self._limits.pop()
            ticket = limit[1]
            self._interrupt(ticket, over_limit(ticket.task.pipeline.plan.name, ticket.work), now)
        over: list[tuple[Task, Fault]] = []
        while (first := self._deadlines.first()) is not None and first[0] <= now:
            self._deadlines.pop()
            task = first[1]
            ticket = _waited_for(task)
            work = ticket.work if ticket is not None else None
            over.append((task, late(task.pipeline.plan.name, work)))
            self._withdraw(task, now)
        for line in self._lines:
            for task, dropped in line.expire(now):
                over.append((task, self._given_up(task, None, dropped=dropped)))
        for queue in self._queues:
            for ticket, dropped in queue.batcher.expire(now):
                fault = self._given_up(ticket.task, ticket, dropped=dropped)
                if dropped or ticket.work.group.guard is None:
                    over.append((ticket.task, fault))
                else:
                    self._interrupt(ticket, fault, now)
        for task, _ in over:
            self._withdraw(task, now)  # wherever else it waits
        return over

    def _given_up(self, task: Task, ticket: Ticket | None, *, dropped: bool) -> Fault:
        """Return the fault of what has left a queue: dropped, or because of the queue's timeout."""
        waiting = self._lines[task.pipeline.index].waiting
        work = ticket.work if ticket is not None else None
        return self._foresight.given_up(task, work, waiting, dropped=dropped)

    def finish(self, task: Task, now: float, *, succeeded: bool = False) -> bool:
        """Take a request out wherever it is; False when it was done already.

        It counts as in flight until its caller has the answer.
        """
        if task.done:
            return False
        parked = task in self._parked
        self._stop(task, now, counted=not parked)
        self._streams.discard(task)
        if parked:
            self._parked.discard(task)
        elif task.started:
            self.started -= 1
        else:
            self._lines[task.pipeline.index].cancel(task, now)
        self._foresight.answered(task, now, succeeded=succeeded)
        return True

    def tasks(self) -> list[Task]:
        """Return the requests that wait: in a line, at a stage, or to be resumed; all streams, as
        any of them may wait for its reader."""
        found = [task for line in self._lines for task in line.owners()]
        for queue in self._queues:
            found += [ticket.task for ticket in queue.batcher.owners()]
        found += [*self._parked, *self._handed, *(resume.strand.task for resume in self._resumable)]
        return [*found, *self._streams]

    def leftovers(self) -> dict[str, int]:
        """Return what is not as it was before the first request: nothing, when none is in flight
        and no stage runs."""
        counts = {
            "requests in flight": self.in_flight,
            "requests started": self.started,
            "requests in line": sum(line.waiting for line in self._lines),
            "requests that wait for their turn": len(self._parked),
            "streams": len(self._streams),
            "bytes of inputs": self._foresight.held,
            "requests expected somewhere": self._company.counted(),
            **self._queues.leftovers(),
        }
        return {name: count for name, count in counts.items() if count}

    def _note_taken(self, queue: StageQueue, batch: Batch[Ticket], now: float) -> None:
        for piece in batch.slices:
            ticket = piece.entry.owner
            if not ticket.taken:
                ticket.taken = True
                self._company.pass_by(ticket.task.pipeline.index, queue.stage.index)
            if ticket.task.begun is not None:
                ticket.task.begun[queue.stage.index] = now

    def _interrupt(self, ticket: Ticket, fault: Fault, now: float) -> None:
        """Take a work out of its queue, and let its request go on with a fault.

        What runs of it already is not used.
        """
        self._give_up(ticket, now)
        self._resumable.append(Resume(ticket.strand, fault))

    def _withdraw(self, strand: Strand, now: float) -> None:
        """Let nothing more of a request run, which has not got its answer yet."""
        if isinstance(strand, Task) and not strand.started:
            self._lines[strand.pipeline.index].cancel(strand, now)
        if strand.ticket is not None:
            self._give_up(strand.ticket, now)
        for branch in strand.join.branches if strand.join is not None else ():
            self._withdraw(branch, now)

    def _give_up(self, ticket: Ticket, now: float) -> None:
        ticket.strand.ticket = None
        self._queues.of(ticket.work.stage).batcher.cancel(ticket, now)
        if not ticket.taken:
            ticket.taken = True
            self._company.pass_by(ticket.task.pipeline.index, ticket.work.stage.index)

    def _stop(self, strand: Strand, now: float, *, counted: bool = True) -> None:
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
                self._stop(branch, now)

    def _batchers(self) -> "list[Batcher[Task] | Batcher[Ticket]]":
        return [*self._lines, *(queue.batcher for queue in self._queues)]

    def _forget_done(self) -> None:
        while self._resumable and self._resumable[0].strand.done:
            self._resumable.popleft()
        while self._handed and self._handed[0].done:
            self._handed.popleft()

    def _line(self, now: float) -> int | None:
        found: int | None = None
        first: tuple[Rank, float] | None = None
        for index, line in enumerate(self._lines):
            head = line.head(now)
            if head is not None and (first is None or head < first):
                found, first = index, head
        return found

    def _fills_batches(self, line: int) -> bool:
        seconds = self._pipelines[line].start_seconds
        return seconds is not None and seconds < CHEAP_START and self.started < self._most_started

    def _start(self, line: int, now: float) -> Start | None:
        batch = self._lines[line].take(now)
        if batch is None:
            return None
        entry = batch.slices[0].entry
        task = entry.owner
        task.started = True
        self.started += 1
        self._foresight.left_line(task, entry.arrived, now)
        return _begun(task, now)


def _begun(task: Task, now: float) -> Start:
    if task.begun is not None:
        task.begun[START] = now
    return Start(task)


def _in_flight(_deadline: float, task: Task) -> bool:
    return not task.done


def _waits(_limit: float, ticket: Ticket) -> bool:
    return ticket.strand.ticket is ticket


def _waited_for(strand: Strand) -> Ticket | None:
    """Return a work that a strand waits for, or one of those that it has joined does."""
    if strand.ticket is not None or strand.join is None:
        return strand.ticket
    found = (_waited_for(branch) for branch in strand.join.branches)
    return next((ticket for ticket in found if ticket is not None), None)


def _busy(strand: Strand) -> float:
    """Return the seconds that led to where a strand is."""
    return strand.busy + (_busy(strand.meets.parent) if isinstance(strand, Branch) else 0.0)
