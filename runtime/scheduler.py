"""What a free worker does next: decisions of the threaded and the simulated driver.

A request is *admitted* to its pipeline's line (`entrance.py`), *started* by a worker, and goes on
until a stage with a queue is reached; there its rows wait. Whoever finishes a batch makes its
requests *resumable* (`strands.py`: a request that forks is in several places at once, each a strand
of it). Nothing here waits, locks or runs a stage; `now` is always an argument.

A free worker takes, in this order: a request that can go on; a new request if getting it to its
queue is cheap, so that batches fill; a batch that is ready; a new request. What cannot be answered
in time any more is dropped before it runs, or not taken in (`foresight.py`).
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from ..compiler.plan_walk import segments_of
from ..stdlib.op import Item
from .admission import Intake
from .agenda import Agenda
from .batcher import Batch, Batcher
from .blame import late
from .company import Company, reaches
from .entrance import Entrance
from .flow import Fork
from .forecast import START
from .foresight import Foresight
from .jobs import Concluded, Ended, Reached
from .prepared import Prepared
from .request import Fault
from .room import Room
from .stage import Stage
from .stage_queues import StageQueue, StageQueues
from .strands import Again, Delivery, Resume, Strands, waited_for
from .task import Strand, Task, Ticket
from .units import Holding, Units

CHEAP_START: Final = 1e-3
"""Seconds to the first queue below which new requests are started before a batch is run."""


@dataclass(frozen=True, slots=True)
class Start:
    task: Task


@dataclass(frozen=True, slots=True)
class GoOn:
    """What each strand comes to is handed back together (`Scheduler.advanced`)."""

    resumes: Sequence[Resume]


@dataclass(frozen=True, slots=True)
class Run:
    """`Scheduler.ran` follows."""

    queue: StageQueue
    batch: Batch[Ticket]
    holding: Holding


@dataclass(frozen=True, slots=True)
class End:
    """Answer a request with a fault: its time is up."""

    task: Task
    fault: Fault


Job: TypeAlias = Start | GoOn | Run | End
Answer: TypeAlias = tuple[Task, dict[str, Item] | Fault]


class Scheduler:
    """All requests of one engine that are not done. `in_flight` counts those not answered."""

    def __init__(
        self,
        pipelines: Sequence[Prepared],
        stages: Sequence[Stage],
        intake: Intake,
        units: Units,
        room: Room | None = None,
    ) -> None:
        """Stages have joined the `units` that they need; `room` is shared with those who run
        requests elsewhere."""
        self.in_flight = 0
        self._stages = len(stages)
        self._over: deque[End] = deque()
        self._pipelines = pipelines
        self._levels: list[dict[int, int]] = [{} for _ in pipelines]
        self._foresight = Foresight(len(pipelines), intake, room or Room(intake.bytes_in_flight))
        waited = {one.index for one in stages if one.policy and one.policy.batching.wait > 0}
        found = [_reaches(pipeline) for pipeline in pipelines]
        # where nobody ever waits for company, nobody is counted
        self._company = Company([one if waited & one[START] else {} for one in found])
        limited = set[int]().union(*(pipeline.limited for pipeline in pipelines))
        self._queues = StageQueues(stages, limited, self._company, units)
        self.strands = Strands(len(pipelines), self._queues, self._company, self._foresight)
        largest = [policy.batching.maximum for stage in stages if (policy := stage.policy)]
        queued = {stage.index for stage in stages if stage.policy is not None}
        only_one = [
            len(queued.intersection(segments_of(pipeline.body))) == 1 and not pipeline.limited
            for pipeline in pipelines
        ]
        most_started = 4 * max(largest, default=1)
        self._entrance = Entrance(
            pipelines, intake, self.strands, self._foresight, only_one, most_started
        )
        self._deadlines: Agenda[float, Task] = Agenda(_in_flight)
        self._streams: set[Task] = set()

    @property
    def started(self) -> int:
        """How many requests have begun and are not answered."""
        return self._entrance.started

    def pending(self) -> list[int]:
        """Return how many requests of each pipeline wait to be started, or at their first stage.

        Those for which a worker is free do not.
        """
        return self._entrance.pending()

    def by_level(self) -> list[dict[int, int]]:
        """Return how many requests of each pipeline, by priority level, have no outcome yet."""
        return [dict(levels) for levels in self._levels]

    def queued(self) -> list[int]:
        """Return how many rows wait for each stage."""
        return [self._queues.waiting(stage) for stage in range(self._stages)]

    def spare(self, idle: int) -> bool:
        """Whether one of the `idle` workers would take a request that came now."""
        return self._entrance.spare(idle)

    def admit(self, task: Task, now: float, idle: int, *, nested: bool = False) -> Fault | None:
        """Take in a new request; return why not, if not. `idle` workers are free.

        When one of them is for this request, or the next that is free, it does not go through the
        line; nor when it is `nested`: a request that has begun may wait for it.
        """
        refusal = self._entrance.admit(task, now, idle, nested=nested)
        if refusal is None:
            self._take_in(task)
        return refusal

    def begin(self, task: Task, now: float) -> Start | None:
        """Take a request that is to be begun by the next free worker; None when it is not."""
        return Start(task) if self._entrance.begin(task, now) else None

    def park(self, task: Task, now: float) -> Fault | None:
        """Take in a request that has to wait for its turn; return why not, if not."""
        refusal = self._entrance.park(task, now)
        if refusal is None:
            self._take_in(task)
        return refusal

    def unpark(self, task: Task) -> None:
        """Start a request whose turn has come; it has waited already."""
        self._entrance.unpark(task)

    def _take_in(self, task: Task) -> None:
        self.in_flight += 1
        pipeline, level = task.pipeline, task.level
        levels = self._levels[pipeline.index]
        levels[level] = levels.get(level, 0) + 1
        if pipeline.plan.stream:
            self._streams.add(task)
        if task.deadline is not None:
            self._deadlines.add(task.deadline, task)

    def enter(self, strand: Strand, stage: Stage, count: int, now: float) -> bool:
        """Whether rows that have come to a stage may run there without queueing.

        So it is when there is nobody to wait for, a place is free, and nothing else is to be done:
        what else could join them? `leave` must follow.
        """
        if self.has_job(now):
            return False
        return self.strands.enter(strand, stage, count, now)

    def advanced(self, steps: Sequence[Reached], now: float, idle: int) -> list[Answer]:
        """Take what strands have come to; return the requests that are to be answered."""
        answers: list[Answer] = []
        strands = self.strands
        for strand, outcome, seconds in steps:
            if seconds is not None:
                strands.took(strand, seconds)
            if isinstance(outcome, Ticket):
                strands.enqueue(outcome, now, idle)
            elif isinstance(outcome, dict | Fault):
                succeeded = not isinstance(outcome, Fault)
                if self.finish(strand.task, now, succeeded=succeeded):
                    answers.append((strand.task, outcome))
            elif isinstance(outcome, Fork):
                strands.fork(strand, outcome)
            elif isinstance(outcome, Ended):
                strands.end(outcome.branch, outcome.outcome, now)
            elif isinstance(strand, Task) and not strand.done:
                strands.pause(strand)
        return answers

    def ran(self, run: Run, deliveries: Sequence[Delivery | Again], now: float) -> None:
        """Take what a batch has given."""
        self._queues.leave(run.queue, run.holding)
        for delivery in deliveries:
            if isinstance(delivery, Again):
                self.strands.put_back(delivery, now)
            else:
                self.strands.deliver(delivery, now)

    def concluded(self, ended: Sequence[Concluded], now: float) -> list[Answer]:
        """Take what batches have ended; return the requests that are to be answered."""
        answers: list[Answer] = []
        size = 0
        for ticket, outputs in ended:
            task = ticket.task
            if task.ticket is ticket and not task.done:  # else it has been taken out meanwhile
                task.ticket = None
                self._take_out(task, now, succeeded=True)
                size += task.size
                answers.append((task, outputs))
        self._foresight.leave(size)
        return answers

    def next_job(self, now: float) -> Job | None:
        """Take the next thing to do; None when there is none at this moment."""
        entrance = self._entrance
        while True:
            if self._over:
                return self._over.popleft()
            if resumes := self.strands.next():
                return GoOn(resumes)
            if entrance.any_handed():
                return Start(entrance.next_handed(now))
            line = entrance.first(now)
            if line is not None:
                if self._overdue(entrance.lines[line], now):
                    continue
                if self._fills_batches(line):
                    if (task := entrance.start(line, now)) is not None:
                        return Start(task)
                    continue
            queue = self._queues.ready(now)
            if queue is not None:
                if self._overdue(queue.batcher, now):
                    continue
                if (holding := self._queues.claim(queue, now)) is None:
                    continue
                if (batch := self._queues.take(queue, now, holding)) is not None:
                    self.strands.taken(queue, batch, now, holding)
                    return Run(queue, batch, holding)
            if line is None:
                return None
            if (task := entrance.start(line, now)) is not None:
                return Start(task)

    def _overdue(self, batcher: Batcher[Task] | Batcher[Ticket], now: float) -> bool:
        """Whether time has run out for something in a queue that is about to be served: it is not
        to run although nobody has been told of it yet."""
        expiry = batcher.next_expiry()
        if expiry is None or expiry > now:
            return False
        self._over.extend(End(task, fault) for task, fault in self.expire(now))
        return True

    def has_job(self, now: float) -> bool:
        """Whether `next_job` would find something, if only requests that need no worker to get from
        their line to their first queue."""
        return (
            bool(self._over or self.strands.resumable() or self._entrance.any_handed())
            or self._entrance.first(now) is not None
            or self._queues.ready(now) is not None
        )

    def any_queued(self) -> bool:
        """Whether rows wait in front of a stage."""
        return self._queues.any_rows()

    def next_due(self, now: float) -> float | None:
        """Return when a batch will be ready that is not ready yet; None when none waits."""
        return self._queues.next_due(now)

    def next_expiry(self) -> float | None:
        """Return when time runs out for the next request or row."""
        first = self._deadlines.first()
        times = [] if first is None else [first[0]]
        if (limit := self.strands.next_limit()) is not None:
            times.append(limit)
        for batcher in self._batchers():
            if (expiry := batcher.next_expiry()) is not None:
                times.append(expiry)
        return min(times, default=None)

    def expire(self, now: float) -> list[tuple[Task, Fault]]:
        """Return the requests whose time is up, with the fault to end each with.

        Under a `try` a request goes on instead: with the fault, to its `else`.
        """
        self.strands.end_limits(now)
        over: list[tuple[Task, Fault]] = []
        while (first := self._deadlines.first()) is not None and first[0] <= now:
            self._deadlines.pop()
            task = first[1]
            ticket = waited_for(task)
            work = ticket.work if ticket is not None else None
            over.append((task, late(task.pipeline.plan.name, work)))
            self._withdraw(task, now)
        for line in self._entrance.lines:
            for task, dropped in line.expire(now):
                over.append((task, self._given_up(task, None, dropped=dropped)))
        for queue in self._queues:
            for ticket, dropped in queue.batcher.expire(now):
                fault = self._given_up(ticket.task, ticket, dropped=dropped)
                if dropped or ticket.work.group.guard is None:
                    over.append((ticket.task, fault))
                else:
                    self.strands.interrupt(ticket, fault, now)
        for task, _ in over:
            self._withdraw(task, now)  # wherever else it waits
        return over

    def _given_up(self, task: Task, ticket: Ticket | None, *, dropped: bool) -> Fault:
        """Return the fault of what has left a queue: dropped, or because of the queue's timeout."""
        waiting = self._entrance.lines[task.pipeline.index].waiting
        work = ticket.work if ticket is not None else None
        return self._foresight.given_up(task, work, waiting, dropped=dropped)

    def finish(self, task: Task, now: float, *, succeeded: bool = False) -> bool:
        """Take a request out wherever it is; False when it was done already.

        It counts as in flight until its caller has the answer.
        """
        if task.done:
            return False
        self._take_out(task, now, succeeded=succeeded)
        self._foresight.leave(task.size)
        return True

    def _take_out(self, task: Task, now: float, *, succeeded: bool) -> None:
        """Take a request out wherever it is. The room of its inputs is to be given back."""
        parked = self._entrance.finish(task, now)
        self.strands.stop(task, now, counted=not parked and task.pauses < 1)
        if self._streams:
            self._streams.discard(task)
        self._levels[task.pipeline.index][task.level] -= 1
        self._foresight.answered(task, now, succeeded=succeeded)

    def wake_with(self, wake: Callable[[], None]) -> None:
        """Let this be called, by any thread, when units that were taken elsewhere may be free."""
        self._queues.wake = wake

    def close(self) -> None:
        """Want no units any more."""
        self._queues.close()

    def streams(self) -> list[Task]:
        """Return the requests that are answered by streams."""
        return list(self._streams)

    def tasks(self) -> list[Task]:
        """Return the requests that wait: in a line, at a stage, or to be resumed; all streams, as
        any of them may wait for its reader."""
        return [*self._entrance.tasks(), *self.strands.tasks(), *self._streams]

    def leftovers(self) -> dict[str, int]:
        """Return what is not as it was before the first request: nothing, when none is in flight
        and no stage runs."""
        counts = {
            "requests in flight": self.in_flight,
            **self._entrance.leftovers(),
            "streams": len(self._streams),
            "bytes of inputs": self._foresight.held,
            "requests expected somewhere": self._company.counted(),
            **self._queues.leftovers(),
        }
        return {name: count for name, count in counts.items() if count}

    def _withdraw(self, task: Task, now: float) -> None:
        self._entrance.withdraw(task, now)
        self.strands.withdraw(task, now)

    def _batchers(self) -> "list[Batcher[Task] | Batcher[Ticket]]":
        return [*self._entrance.lines, *(queue.batcher for queue in self._queues)]

    def _fills_batches(self, line: int) -> bool:
        seconds = self._pipelines[line].start_seconds
        return seconds is not None and seconds < CHEAP_START and self._entrance.may_start_more()


def _reaches(pipeline: Prepared) -> dict[int, frozenset[int]]:
    """Return the stages that come after each stage; a request that is recorded goes through those
    of a chain one by one."""
    found = reaches(pipeline.body)
    if pipeline.chains:
        apart = reaches(pipeline.plan.body)
        found = {**apart, **found, START: apart[START] | found[START]}
    return found


def _in_flight(_deadline: float, task: Task) -> bool:
    return not task.done
