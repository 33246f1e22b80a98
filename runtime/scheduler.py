"""What a free worker does next: decisions of the threaded and the simulated driver.

A request is *admitted* to its pipeline's line, *started* by a worker, and goes on until a stage
with a queue is reached; there its rows wait. Whoever finishes a batch makes its requests
*resumable*. A request that forks waits in several places at once, each a *strand* of it, until the
last has come to its end. Nothing here waits, locks or runs a stage; `now` is always an argument.

A free worker takes, in this order: a request that can go on; a new request if getting it to its
queue is cheap, so that batches fill; a batch that is ready; a new request.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, TypeAlias

from ..compiler.plan import Batching, Queueing
from .batcher import Batch, Batcher, Entry
from .blame import late, over_limit
from .flow import Fork
from .prepared import Prepared
from .request import Code, Fault
from .rows import Rows
from .stage import Stage
from .task import Branch, Join, Strand, Task, Ticket

CHEAP_START: Final = 1e-3
"""Seconds to the first queue below which new requests are started before a batch is run."""


_WHOLE: Final = Batching(2**31, 0.0, ())
"""No bound on the rows of one run, and no waiting."""


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
    queue: "StageQueue"
    batch: Batch[Ticket]


Job: TypeAlias = Start | Resume | Run


@dataclass(frozen=True, slots=True)
class Delivery:
    """Results of some rows of a ticket, or why they have none."""

    ticket: Ticket
    rows: Sequence[int]
    outcome: list[Rows] | Fault


class StageQueue:
    """A stage that can be waited for, its batcher, and how many of its batches run.

    One without a policy is waited for under a time limit only, which need not wait for its end.
    """

    __slots__ = ("_instances", "batcher", "running", "stage")

    def __init__(self, stage: Stage, batcher: Batcher[Ticket], instances: int | None) -> None:
        self.stage, self.batcher, self.running = stage, batcher, 0
        self._instances = instances

    @property
    def free(self) -> bool:
        """Whether one more batch may run."""
        return self._instances is None or self.running < self._instances

    def admits(self, rows: int) -> bool:
        """Whether so many rows could run at once as a batch of their own."""
        return self.free and self.batcher.immediate(rows)


class Scheduler:
    """All requests of one engine that are not done. `in_flight` counts those not answered."""

    def __init__(
        self, pipelines: Sequence[Prepared], stages: Sequence[Stage], queue_size: int
    ) -> None:
        self.in_flight = 0
        self.started = 0
        self._resumable: deque[Resume] = deque()
        self._handed: deque[Task] = deque()
        self._parked: set[Task] = set()
        self._queue_size = queue_size
        self._lines: list[Batcher[Task]] = []
        for pipeline in pipelines:
            queueing = pipeline.plan.queueing or Queueing(queue_size, None, "reject")
            self._lines.append(Batcher(Batching(1, 0.0, ()), queueing))
        self._pipelines = pipelines
        self._queues: dict[int, StageQueue] = {}
        for stage in stages:
            if (policy := stage.policy) is not None:
                batcher: Batcher[Ticket] = Batcher(policy.batching, policy.queueing)
                self._queues[stage.index] = StageQueue(stage, batcher, policy.instances)
        limited = set[int]().union(*(pipeline.limited for pipeline in pipelines))
        for stage in (stages[index] for index in sorted(limited)):
            if stage.policy is None:
                self._queues[stage.index] = StageQueue(stage, Batcher(_WHOLE), None)
        largest = [policy.batching.maximum for stage in stages if (policy := stage.policy)]
        self._most_started = 4 * max(largest, default=1)
        self._deadlines: list[tuple[float, int, Task]] = []
        self._limits: list[tuple[float, int, Ticket]] = []
        self._streams: set[Task] = set()
        self._numbers = count()

    def pending(self) -> list[int]:
        """Return how many requests of each pipeline wait to be started."""
        return [line.waiting for line in self._lines]

    def admit(self, task: Task, now: float, idle: int) -> bool:
        """Take in a new request; False when its line is full. `idle` workers are free.

        When one of them is for this request, it does not go through the line.
        """
        line, idle = self._lines[task.pipeline.index], idle - len(self._handed)
        if idle > 0 and not self._resumable and not any(line.waiting for line in self._lines):
            self._handed.append(task)
            task.started = True
            self.started += 1
        elif not line.add((Entry(task, 1, level=task.level),), now, idle):
            return False
        self.in_flight += 1
        if task.pipeline.plan.stream:
            self._streams.add(task)
        if task.deadline is not None:
            heapq.heappush(self._deadlines, (task.deadline, next(self._numbers), task))
        return True

    def park(self, task: Task) -> bool:
        """Take in a request that has to wait for its turn; False when too many do."""
        if len(self._parked) >= self._queue_size:
            return False
        self._parked.add(task)
        self.in_flight += 1
        if task.deadline is not None:
            heapq.heappush(self._deadlines, (task.deadline, next(self._numbers), task))
        return True

    def unpark(self, task: Task) -> None:
        """Start a request whose turn has come; it has waited already."""
        self._parked.discard(task)
        self._handed.append(task)
        task.started = True
        self.started += 1

    def enter(self, stage: Stage, count: int, now: float) -> bool:
        """Whether rows that have come to a stage may run there without queueing.

        So it is when no one waits for company there, a place is free, and nothing else is to be
        done: what else could join them? `leave` must follow.
        """
        queue = self._queues.get(stage.index)
        if queue is None:
            return True
        if not queue.admits(count) or self.has_job(now):
            return False
        queue.running += 1
        return True

    def leave(self, stage: Stage) -> None:
        """Note that rows which entered have run."""
        queue = self._queues.get(stage.index)
        if queue is not None:
            queue.running -= 1

    def enqueue(self, ticket: Ticket, now: float, idle: int) -> bool:
        """Put a work in front of its stage; when that is full the request goes on with a fault."""
        strand, queue = ticket.strand, self._queues[ticket.work.stage.index]
        task = strand.task
        if strand.done:
            return False
        if not task.reached_queue:
            task.reached_queue = True
            task.pipeline.started(_busy(strand))
        entries = [
            Entry(ticket, part.count, part.key, index, task.level, size=part.size)
            for index, part in enumerate(ticket.parts)
        ]
        if not queue.batcher.add(entries, now, idle if queue.free else 0):
            self._resumable.append(Resume(strand, overloaded(task, ticket)))
            return False
        strand.ticket = ticket
        guard = ticket.work.group.guard
        if guard is not None and guard.at is not None:
            heapq.heappush(self._limits, (guard.at, next(self._numbers), ticket))
        return True

    def fork(self, strand: Strand, fork: Fork) -> None:
        """Let the walks of a fork be gone on with by whoever is free; the strand waits for them."""
        if strand.done:
            return
        join = strand.join = Join(strand, fork.flows)
        self._resumable.extend(Resume(branch, None) for branch in join.branches)

    def end(self, branch: Branch, outcome: list[Rows] | Fault, now: float) -> None:
        """Take what a walk of a fork has come to; with the last, or the first fault, the strand
        that forked goes on."""
        if branch.done:
            return
        branch.done = True
        join = branch.at
        join.parent.busy += branch.busy
        if isinstance(outcome, Fault):
            self._resumable.append(Resume(join.parent, outcome))
        elif join.take(branch, outcome):
            self._resumable.append(Resume(join.parent, join))
        else:
            return
        self._part(join, now)

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

    def next_job(self, now: float) -> Job | None:
        """Take the next thing to do; None when there is none at this moment."""
        self._forget_done()
        if self._resumable:
            return self._resumable.popleft()
        if self._handed:
            return Start(self._handed.popleft())
        line = self._line(now)
        if line is not None and self._fills_batches(line):
            return self._start(line, now)
        queue = self._ready_queue(now)
        if queue is not None and (batch := queue.batcher.take(now)) is not None:
            queue.running += 1
            return Run(queue, batch)
        return None if line is None else self._start(line, now)

    def has_job(self, now: float) -> bool:
        """Whether `next_job` would find something."""
        self._forget_done()
        return (
            bool(self._resumable or self._handed)
            or self._line(now) is not None
            or self._ready_queue(now) is not None
        )

    def next_due(self) -> float | None:
        """Return when a batch will be ready that is not ready yet; None when none waits."""
        times = [
            due
            for queue in self._queues.values()
            if queue.free and (due := queue.batcher.next_due()) is not None
        ]
        return min(times, default=None)

    def next_expiry(self) -> float | None:
        """Return when time runs out for the next request or row."""
        while self._deadlines and self._deadlines[0][2].done:
            heapq.heappop(self._deadlines)
        while self._limits and self._limits[0][2].strand.ticket is not self._limits[0][2]:
            heapq.heappop(self._limits)
        times = [self._deadlines[0][0]] if self._deadlines else []
        times += [self._limits[0][0]] if self._limits else []
        for batcher in self._batchers():
            if (expiry := batcher.next_expiry()) is not None:
                times.append(expiry)
        return min(times, default=None)

    def expire(self, now: float) -> list[tuple[Task, Fault]]:
        """Return the requests whose time is up, with the fault to end each with.

        Under a `try` a request goes on instead: with the fault, to its `else`.
        """
        while self._limits and self._limits[0][0] <= now:
            _, _, ticket = heapq.heappop(self._limits)
            if ticket.strand.ticket is ticket:
                fault = over_limit(ticket.task.pipeline.plan.name, ticket.work)
                self._interrupt(ticket, fault, now)
        over: list[tuple[Task, Fault]] = []
        while self._deadlines and self._deadlines[0][0] <= now:
            _, _, task = heapq.heappop(self._deadlines)
            if not task.done:
                ticket = _waited_for(task)
                work = ticket.work if ticket is not None else None
                over.append((task, late(task.pipeline.plan.name, work)))
        for line in self._lines:
            over += [(task, waited_too_long(task, None)) for task in line.expire(now)]
        for queue in self._queues.values():
            for ticket in queue.batcher.expire(now):
                fault = waited_too_long(ticket.task, ticket)
                if ticket.work.group.guard is None:
                    over.append((ticket.task, fault))
                else:
                    self._interrupt(ticket, fault, now)
        return over

    def finish(self, task: Task, now: float) -> bool:
        """Take a request out wherever it is; False when it was done already.

        It counts as in flight until its caller has the answer.
        """
        if task.done:
            return False
        self._stop(task, now)
        self._streams.discard(task)
        if task in self._parked:
            self._parked.discard(task)
        elif task.started:
            self.started -= 1
        else:
            self._lines[task.pipeline.index].cancel(task, now)
        return True

    def tasks(self) -> list[Task]:
        """Return the requests that wait: in a line, at a stage, or to be resumed; all streams, as
        any of them may wait for its reader."""
        found = [task for line in self._lines for task in line.owners()]
        for queue in self._queues.values():
            found += [ticket.task for ticket in queue.batcher.owners()]
        found += [*self._parked, *self._handed, *(resume.strand.task for resume in self._resumable)]
        return [*found, *self._streams]

    def _interrupt(self, ticket: Ticket, fault: Fault, now: float) -> None:
        """Take a work out of its queue, and let its request go on with a fault.

        What runs of it already is not used.
        """
        ticket.strand.ticket = None
        self._queues[ticket.work.stage.index].batcher.cancel(ticket, now)
        self._resumable.append(Resume(ticket.strand, fault))

    def _stop(self, strand: Strand, now: float) -> None:
        """Take a strand, and those that it waits for, out wherever they are."""
        strand.done = True
        ticket, strand.ticket = strand.ticket, None
        if ticket is not None:
            self._queues[ticket.work.stage.index].batcher.cancel(ticket, now)
        if strand.join is not None:
            self._part(strand.join, now)

    def _part(self, join: Join, now: float) -> None:
        """Let go of the strands of a fork, and stop those that are not at their end."""
        branches, join.branches, join.parent.join = join.branches, [], None
        for branch in branches:
            if not branch.done:
                self._stop(branch, now)

    def _batchers(self) -> "list[Batcher[Task] | Batcher[Ticket]]":
        return [*self._lines, *(queue.batcher for queue in self._queues.values())]

    def _forget_done(self) -> None:
        while self._resumable and self._resumable[0].strand.done:
            self._resumable.popleft()
        while self._handed and self._handed[0].done:
            self._handed.popleft()

    def _line(self, now: float) -> int | None:
        heads = [
            (head, index)
            for index, line in enumerate(self._lines)
            if (head := line.head(now)) is not None
        ]
        return min(heads)[1] if heads else None

    def _ready_queue(self, now: float) -> StageQueue | None:
        heads = [
            (head, index)
            for index, queue in self._queues.items()
            if queue.free and (head := queue.batcher.head(now)) is not None
        ]
        return self._queues[min(heads)[1]] if heads else None

    def _fills_batches(self, line: int) -> bool:
        seconds = self._pipelines[line].start_seconds
        return seconds is not None and seconds < CHEAP_START and self.started < self._most_started

    def _start(self, line: int, now: float) -> Start | None:
        batch = self._lines[line].take(now)
        if batch is None:
            return None
        task = batch.slices[0].entry.owner
        task.started = True
        self.started += 1
        return Start(task)


def _waited_for(strand: Strand) -> Ticket | None:
    """Return a work that a strand waits for, or one of those that it has joined does."""
    if strand.ticket is not None or strand.join is None:
        return strand.ticket
    found = (_waited_for(branch) for branch in strand.join.branches)
    return next((ticket for ticket in found if ticket is not None), None)


def _busy(strand: Strand) -> float:
    """Return the seconds that led to where a strand is."""
    return strand.busy + (_busy(strand.at.parent) if isinstance(strand, Branch) else 0.0)


def overloaded(task: Task, ticket: Ticket | None) -> Fault:
    """Return the fault of a request for which there is no room."""
    return Fault(
        Code.OVERLOADED,
        "too many requests wait already; try again later",
        pipeline=task.pipeline.plan.name,
        stage=ticket.work.stage.name if ticket is not None else None,
        place=ticket.work.place if ticket is not None else None,
    )


def waited_too_long(task: Task, ticket: Ticket | None) -> Fault:
    """Return the fault of a request that a queue's `timeout` ended."""
    return Fault(
        Code.OVERLOADED,
        "it waited longer than the queue's timeout; try again later",
        pipeline=task.pipeline.plan.name,
        stage=ticket.work.stage.name if ticket is not None else None,
        place=ticket.work.place if ticket is not None else None,
    )
