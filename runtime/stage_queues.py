"""The queues in front of an engine's stages, and which of them is served next.

A batch that is ready runs when an instance of its stage and the units that it needs are free
(`units.py`, which engines may share); the most urgent first. When none is ready, those whose
company nobody can join any more do not wait for it. Nothing here waits; `now` is always an
argument.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ..compiler.policies import Batching
from .batcher import Batch, Batcher
from .company import Company
from .line import Rank
from .queue_policy import level_of
from .stage import Policy, Stage
from .task import Task, Ticket
from .units import NO_NEEDS, Claim, Head, Holding, Units

_WHOLE: Final = Batching(2**31)
"""No bound on the rows of one run, and no waiting."""


LAST: Final[Rank] = (True, 2**31)
"""The rank of what is run when nothing waits that is in its way."""


def _nobody() -> None:
    """There is nobody yet to be woken."""


class _Nobody:
    def __init__(self) -> None:
        self.wake: Callable[[], None] = _nobody


class StageQueue:
    """A stage that can be waited for, its batcher, and how many of its batches run.

    One without a policy is waited for under a time limit only, which need not wait for its end. It
    has a `claim` where its runs take units.
    """

    __slots__ = (
        "_instances",
        "_priorities",
        "again",
        "batcher",
        "claim",
        "running",
        "stage",
        "waits",
    )

    def __init__(self, stage: Stage, policy: Policy | None) -> None:
        self.stage, self.running = stage, 0
        queueing = policy.queueing if policy is not None else None
        batching = policy.batching if policy is not None else _WHOLE
        self.batcher: Batcher[Ticket] = Batcher(batching, queueing)
        self.waits = batching.wait > 0
        self.again = policy is not None and policy.again
        self.claim: Claim | None = None
        self._instances = policy.instances if policy is not None else None
        self._priorities = policy.priorities if policy is not None else None

    @property
    def free(self) -> bool:
        """Whether one more batch may run, as far as instances go."""
        return self._instances is None or self.running < self._instances

    @property
    def share(self) -> float:
        """What a run weighs: less where there are more instances, each of which has its turns."""
        weight = 0 if self.stage.policy is None else self.stage.policy.weight
        return weight / (self._instances or 1)

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
        units: Units,
    ) -> None:
        self._company, self._units = company, units
        self.wake: Callable[[], None] = _nobody
        self._queues: dict[int, StageQueue] = {}
        for stage in stages:
            if stage.policy is not None:
                self._queues[stage.index] = StageQueue(stage, stage.policy)
        for index in sorted(limited):
            if index not in self._queues:
                self._queues[index] = StageQueue(stages[index], None)
        self._all = tuple(self._queues.values())
        self._waiting = tuple(queue for queue in self._all if queue.waits)
        for queue in self._all:
            policy = queue.stage.policy
            if policy is not None and policy.resources:
                queue.claim = Claim(self, queue.stage.name, policy.resources, queue.share)
        self._claims = [queue.claim for queue in self._all if queue.claim is not None]

    def __iter__(self) -> Iterator[StageQueue]:
        return iter(self._all)

    def of(self, stage: Stage) -> StageQueue:
        """Return the queue of a stage that can be waited for."""
        return self._queues[stage.index]

    def is_open(self, queue: StageQueue) -> bool:
        """Whether one more batch of a stage could run at this moment."""
        return queue.free and (queue.claim is None or self._units.fit(queue.claim.needs))

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

    def claim(self, queue: StageQueue, now: float) -> Holding | None:
        """Take what a queue that is ready needs to run its batch; None where another engine has
        taken it since."""
        if queue.claim is None:
            return NOTHING
        head = queue.batcher.head(now)
        return None if head is None else self._units.take(queue.claim, head)

    def take(self, queue: StageQueue, now: float, holding: Holding) -> Batch[Ticket] | None:
        """Take the batch of a queue that is ready; `leave` follows when it has run."""
        batch = queue.batcher.take(now)
        if batch is not None:
            queue.running += 1
        elif holding is not NOTHING:
            self._units.give(holding)
        return batch

    def enter(self, stage: Stage, count: int, now: float, *, alone: bool) -> Holding | None:
        """Take what so many rows need to run at once, as a batch of their own, while none is ready;
        None where they may not. `alone` says that nobody else can come, for whom they would
        wait."""
        queue = self._queues[stage.index]
        if queue.again or not (queue.free and queue.batcher.immediate(count, alone=alone)):
            return None
        holding = NOTHING
        if queue.claim is not None:
            found = self._units.take(queue.claim, (LAST, now))
            if found is None:
                return None
            holding = found
        queue.running += 1
        return holding

    def leave(self, queue: StageQueue, holding: Holding) -> None:
        """Note that a batch has run."""
        queue.running -= 1
        if holding is not NOTHING:
            self._units.give(holding)

    def wait(self, queue: StageQueue, ticket: Ticket) -> str:
        """Note that a nested request has come to a queue; return why it would wait for ever ("":
        it would not). `go` follows."""
        if queue.claim is None or self._units.wait(queue.claim, ticket, ticket.task.behind):
            return ""
        names = ", ".join(f"`{name}`" for name, _ in queue.claim.needs)
        holders = ", ".join(f"`{name}`" for name in self._units.holders(queue.claim))
        return f"it takes {names}, held by {holders}, which waits for it"

    def go(self, queue: StageQueue, ticket: Ticket) -> None:
        """Note that it has left the queue."""
        if queue.claim is not None:
            self._units.go(queue.claim, ticket)

    def close(self) -> None:
        """Claim nothing any more."""
        if self._claims:
            self._units.ask(self, {})

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
            "units taken": self._units.taken(self) if self._claims else 0,
        }

    def _first(self, now: float) -> StageQueue | None:
        if self._claims:
            return self._first_able(now)
        found: StageQueue | None = None
        first: tuple[Rank, float] | None = None
        for queue in self._all:
            head = queue.batcher.head(now)
            if head is not None and queue.free and (first is None or head < first):
                found, first = queue, head
        return found

    def _first_able(self, now: float) -> StageQueue | None:
        """Return the most urgent of those that have a batch ready, a free instance and their turn
        to take what they need. All that are ready claim it, and no other."""
        heads = [
            (head, queue)
            for queue in self._all
            if queue.free and (head := queue.batcher.head(now)) is not None
        ]
        wanted = {queue.claim: head for head, queue in heads if queue.claim is not None}
        able = self._units.ask(self, wanted)
        heads.sort(key=_urgency)
        served = (queue for _, queue in heads if queue.claim is None or queue.claim in able)
        return next(served, None)


NOTHING: Final = Holding(Claim(_Nobody(), "", NO_NEEDS))
"""What runs hold that take no units."""


def _urgency(found: tuple[Head, StageQueue]) -> Head:
    return found[0]
