"""Requests that have not begun: in the lines of their pipelines, handed to a worker that is free
for them, at the stage at which their walk begins, or parked until their turn has come.

Nothing here waits, locks or runs a stage; `now` is always an argument.
"""

from collections import deque
from collections.abc import Sequence

from ..compiler.policies import Batching, Queueing
from .admission import Intake
from .batcher import Batcher
from .forecast import START
from .foresight import Foresight
from .line import Rank
from .prepared import Prepared
from .request import Fault
from .strands import Strands
from .task import Task


class Entrance:
    """`started` counts the requests that have begun and are not answered, `lines` hold those of
    each pipeline that wait. At most `most_started` begin before they are needed; `only_one` says of
    each pipeline whether it has a single stage that can be waited for."""

    def __init__(
        self,
        pipelines: Sequence[Prepared],
        intake: Intake,
        strands: Strands,
        foresight: Foresight,
        only_one: Sequence[bool],
        most_started: int,
    ) -> None:
        self.started = 0
        self.lines: list[Batcher[Task]] = []
        for pipeline in pipelines:
            queueing = pipeline.plan.queueing or Queueing(intake.queue_size)
            self.lines.append(Batcher(Batching(1), queueing))
        self._strands, self._foresight = strands, foresight
        self._only_one, self._most_started = only_one, most_started
        self._queue_size = intake.queue_size
        self._handed: deque[Task] = deque()
        self._parked: set[Task] = set()

    def pending(self) -> list[int]:
        """Return how many requests of each pipeline wait to be started, or at their first stage.

        Those for which a worker is free do not.
        """
        opened = self._strands.opened
        return [line.waiting + wait for line, wait in zip(self.lines, opened, strict=True)]

    def spare(self, idle: int) -> bool:
        """Whether one of the `idle` workers would take a request that came now."""
        return idle > len(self._handed) and not self._any_waits()

    def admit(self, task: Task, now: float, idle: int, *, nested: bool) -> Fault | None:
        """Take in a new request (`Scheduler.admit`)."""
        pipeline, handed = task.pipeline.index, len(self._handed)
        line = self.lines[pipeline]
        free = idle > handed or (task.opens and not handed)
        at_once = nested or (free and not self._any_waits() and not self._strands.resumable())
        opens = task.opens and not at_once and self._opens(pipeline)
        ahead = 0 if at_once or opens else line.ahead(task.level)
        if (refusal := self._foresight.refusal(task, now, ahead)) is not None:
            return refusal
        if task.opens and (waiting := self._waiting(pipeline)) >= self._queue_size + idle:
            return self._foresight.no_place(task, waiting)
        queues = not at_once and not opens
        if queues and not line.add((self._foresight.entry(task),), now, idle - handed):
            return self._foresight.no_place(task, line.waiting)
        self._strands.come(task)
        if at_once:
            self._hand(task)
        elif opens:
            if handed:
                for other in [one for one in self._handed if one.opens]:
                    self._handed.remove(other)  # with which it can meet
                    self._strands.open(other, now)
            self._open(task, now)
        return None

    def park(self, task: Task, now: float) -> Fault | None:
        """Take in a request that has to wait for its turn; return why not, if not."""
        refusal = self._foresight.refusal(task, now, 0)
        if refusal is None and len(self._parked) >= self._queue_size:
            refusal = self._foresight.no_place(task, None)
        if refusal is None:
            self._parked.add(task)
        return refusal

    def unpark(self, task: Task) -> None:
        """Start a request whose turn has come; it has waited already."""
        self._parked.discard(task)
        self._hand(task)
        self._strands.come(task)

    def begin(self, task: Task, now: float) -> bool:
        """Take a request that is to be begun by the next free worker; False when it is not."""
        if task.done or task not in self._handed:
            return False
        self._handed.remove(task)
        _begin(task, now)
        return True

    def any_handed(self) -> bool:
        """Whether a request is to be begun by the next free worker."""
        while self._handed and self._handed[0].done:
            self._handed.popleft()
        return bool(self._handed)

    def next_handed(self, now: float) -> Task:
        """Take the first of these."""
        task = self._handed.popleft()
        _begin(task, now)
        return task

    def first(self, now: float) -> int | None:
        """Return the line whose first is to be started next."""
        found: int | None = None
        most: tuple[Rank, float] | None = None
        for index, line in enumerate(self.lines):
            head = line.head(now)
            if head is not None and (most is None or head < most):
                found, most = index, head
        return found

    def may_start_more(self) -> bool:
        """Whether few have begun, so that others may before what has is served."""
        return self.started < self._most_started

    def start(self, line: int, now: float) -> Task | None:
        """Take the first of a line; None when it has come to its first stage by itself."""
        batch = self.lines[line].take(now)
        assert batch is not None  # as it has a head
        entry = batch.slices[0].entry
        task = entry.owner
        self._foresight.left_line(task, entry.arrived, now)
        if task.opens:
            task.waited = now - task.admitted
            self._open(task, now)
            return None
        task.started = True
        self.started += 1
        _begin(task, now)
        return task

    def withdraw(self, task: Task, now: float) -> None:
        """Take a request out of its line, if it is there."""
        if not task.started:
            self.lines[task.pipeline.index].cancel(task, now)

    def finish(self, task: Task, now: float) -> bool:
        """Take a request out wherever it is; return whether it waited for its turn."""
        if task.started:
            self.started -= 1
        elif self._parked and task in self._parked:
            self._parked.discard(task)
            return True
        else:
            self.lines[task.pipeline.index].cancel(task, now)
        return False

    def tasks(self) -> list[Task]:
        """Return all that wait here."""
        found = [task for line in self.lines for task in line.owners()]
        return [*found, *self._parked, *self._handed]

    def leftovers(self) -> dict[str, int]:
        """Return how many are not answered that have begun, and how many wait."""
        return {
            "requests started": self.started,
            "requests that wait to begin": sum(self._strands.opened),
            "requests in line": sum(line.waiting for line in self.lines),
            "requests that wait for their turn": len(self._parked),
        }

    def _opens(self, pipeline: int) -> bool:
        """Whether a request that has come to its first stage by itself may wait there: where that
        is the only one to wait for, or else in its turn, and while few have begun."""
        if self._only_one[pipeline]:
            return True
        return self.may_start_more() and not any(line.waiting for line in self.lines)

    def _open(self, task: Task, now: float) -> None:
        task.started = True
        self.started += 1
        self._strands.open(task, now)

    def _hand(self, task: Task) -> None:
        self._handed.append(task)
        task.started = True
        self.started += 1

    def _waiting(self, pipeline: int) -> int:
        waiting = self.lines[pipeline].waiting + self._strands.opened[pipeline]
        for task in self._handed:
            waiting += task.pipeline.index == pipeline
        return waiting

    def _any_waits(self) -> bool:
        return any(self._strands.opened) or any(line.waiting for line in self.lines)


def _begin(task: Task, now: float) -> None:
    task.waited = now - task.admitted
    if task.begun is not None:
        task.begun[START] = now
