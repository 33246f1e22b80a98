"""The queues in front of an engine's stages, and which of them is served next.

A batch that is ready runs when an instance of its stage and the units that it needs are free; the
most urgent first. When none is ready, those whose company nobody can join any more do not wait for
it. Nothing here waits or locks; `now` is always an argument.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ..compiler.policies import Batching
from .batcher import Batch, Batcher
from .company import Company
from .line import Rank
from .queue_policy import level_of
from .stage import Policy, Stage
from .task import Task, Ticket
from .units import Needs, Turn, Units, totals

_WHOLE: Final = Batching(2**31)
"""No bound on the rows of one run, and no waiting."""


class StageQueue:
    """A stage that can be waited for, its batcher, and how many of its batches run.

    One without a policy is waited for under a time limit only, which need not wait for its end.
    """

    __slots__ = ("_instances", "_priorities", "batcher", "needs", "running", "stage", "waits")

    def __init__(self, stage: Stage, policy: Policy | None) -> None:
        self.stage, self.running = stage, 0
        queueing = policy.queueing if policy is not None else None
        batching = policy.batching if policy is not None else _WHOLE
        self.batcher: Batcher[Ticket] = Batcher(batching, queueing)
        self.waits = batching.wait > 0
        self.needs: Needs = policy.resources if policy is not None else ()
        self._instances = policy.instances if policy is not None else None
        self._priorities = policy.priorities if policy is not None else None

    @property
    def free(self) -> bool:
        """Whether one more batch may run, as far as instances go."""
        return self._instances is None or self.running < self._instances

    def level(self, task: Task) -> int:
        """Return the priority level of a request here, by what its caller asked for."""
        return task.level if self._priorities is None else level_of(task.asked, self._priorities)


class StageQueues:
    """All of them. `limited` are stages without a policy that can be waited for all the same."""

    def __init__(
        self,
        stages: Sequence[Stage],
        limited: Iterable[int],
        company: Company,
        resources: Needs = (),
    ) -> None:
        self._company = company
        self._queues: dict[int, StageQueue] = {}
        for stage in stages:
            if stage.policy is not None:
                self._queues[stage.index] = StageQueue(stage, stage.policy)
        for index in sorted(limited):
            if index not in self._queues:
                self._queues[index] = StageQueue(stages[index], None)
        self._all = tuple(self._queues.values())
        self._waiting = tuple(queue for queue in self._all if queue.waits)
        self._units = Units(totals(resources, (queue.needs for queue in self._all)))
        self._scarce = any(queue.needs for queue in self._all)

    def __iter__(self) -> Iterator[StageQueue]:
        return iter(self._all)

    def of(self, stage: Stage) -> StageQueue:
        """Return the queue of a stage that can be waited for."""
        return self._queues[stage.index]

    def is_open(self, queue: StageQueue) -> bool:
        """Whether one more batch of a stage could run at this moment."""
        return queue.free and self._units.fit(queue.needs)

    def ready(self, now: float) -> StageQueue | None:
        """Return the queue from which a batch may be taken now; None when there is none."""
        found = self._first(now)
        if found is not None:
            return found
        for queue in self._waiting:
            if queue.batcher.waiting and not self._company.expected(queue.stage.index):
                queue.batcher.hurry(now)
                found = queue
        return None if found is None else self._first(now)

    def any_rows(self) -> bool:
        """Whether rows wait in front of a stage."""
        return any(queue.batcher.rows for queue in self._all)

    def take(self, queue: StageQueue, now: float) -> Batch[Ticket] | None:
        """Take the batch of a queue that is ready; `leave` follows when it has run."""
        batch = queue.batcher.take(now)
        if batch is not None:
            self._begin(queue)
        return batch

    def enter(self, stage: Stage, count: int, now: float, *, alone: bool) -> bool:
        """Whether so many rows may run at once, as a batch of their own, while none is ready.
        `alone` says that nobody else can come, for whom they would wait."""
        queue = self._queues[stage.index]
        if not (queue.free and queue.batcher.immediate(count, alone=alone)):
            return False
        if queue.needs:
            turn = Turn(self._units)
            for other in self._by_urgency(now):
                turn.comes(other.needs)
            if not turn.comes(queue.needs):
                return False
        self._begin(queue)
        return True

    def leave(self, queue: StageQueue) -> None:
        """Note that a batch has run."""
        queue.running -= 1
        self._units.give(queue.needs)

    def waiting(self, stage: int) -> int:
        """Return how many rows wait for a stage, by its number."""
        queue = self._queues.get(stage)
        return 0 if queue is None else queue.batcher.rows

    def next_due(self, now: float) -> float | None:
        """Return when a batch will be ready that is not ready yet; None when none waits."""
        times = [
            due
            for queue in self._waiting
            if queue.free and (due := queue.batcher.next_due()) is not None and due > now
        ]
        return min(times, default=None)

    def leftovers(self) -> dict[str, int]:
        """Return how much waits, runs and is taken."""
        return {
            "works in queues": sum(queue.batcher.waiting for queue in self._all),
            "rows in queues": sum(queue.batcher.rows for queue in self._all),
            "batches that run": sum(queue.running for queue in self._all),
            "units taken": self._units.taken,
        }

    def _begin(self, queue: StageQueue) -> None:
        queue.running += 1
        self._units.take(queue.needs)

    def _first(self, now: float) -> StageQueue | None:
        if self._scarce:
            turn = Turn(self._units)
            ready = self._by_urgency(now)
            return next((queue for queue in ready if turn.comes(queue.needs)), None)
        found: StageQueue | None = None
        first: tuple[Rank, float] | None = None
        for queue in self._all:
            head = queue.batcher.head(now)
            if head is not None and queue.free and (first is None or head < first):
                found, first = queue, head
        return found

    def _by_urgency(self, now: float) -> list[StageQueue]:
        """Return those that have a batch ready and a free instance, the most urgent first."""
        heads = [
            (head, queue.stage.index)
            for queue in self._all
            if queue.free and (head := queue.batcher.head(now)) is not None
        ]
        heads.sort()
        return [self._queues[index] for _, index in heads]
