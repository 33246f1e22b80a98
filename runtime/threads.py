"""The threaded driver: workers around one lock and one scheduler.

Every wait is exact. A free worker waits for a notification or until the next batch is due; one
more thread, started with the first time limit, waits for the next limit, so that what waits too
long is told so while all workers are busy. Stages run without the lock. The worker that finishes
a batch goes on with one of its requests itself and leaves the others to whoever is free.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Final

from ..stdlib.op import Item
from .jobs import Reached, RunBatch, advance, conclude, go_on, run_batch
from .metrics import Metrics, Tally
from .request import Code, Fault
from .scheduler import Answer, GoOn, Job, Run, Scheduler, Start
from .stage import Stage
from .strands import open_walk, opens
from .streams import Stream, unread
from .task import Strand, Task, Ticket
from .turns import Sequences
from .until import seconds_until

LENT_SECONDS: Final = 1e-3
"""Requests that compute no longer than this may run in the thread that waits for them: it cannot be
told meanwhile that another has cancelled."""


class Workers:
    """`count` threads. `clock` is the engine's."""

    def __init__(
        self,
        scheduler: Scheduler,
        metrics: Metrics,
        clock: Callable[[], float],
        count: int,
        sequences: Sequence[Sequences] = (),
        run_batch: RunBatch = run_batch,
    ) -> None:
        self._scheduler, self._metrics, self._clock = scheduler, metrics, clock
        self._sequences, self.run_batch = sequences, run_batch
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._limit = threading.Condition(self._lock)
        self._empty = threading.Condition(self._lock)
        self._idle, self._lent = count, 0
        self._keeping = False
        self._watched: float | None = None
        self._alarm: float | None = None
        self._keeper: threading.Thread | None = None
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"headrace-{i}", daemon=True)
            for i in range(count)
        ]
        for thread in self._threads:
            thread.start()
        for one in sequences:
            one.watch(self._look_at_limits)

    @property
    def quiet(self) -> bool:
        """Whether no request is under way; a hint, read without the lock."""
        return self._scheduler.in_flight == 0

    def pending(self) -> list[int]:
        """Return how many requests of each pipeline wait to be started."""
        with self._lock:
            return self._scheduler.pending()

    def by_level(self) -> list[dict[int, int]]:
        """Return how many requests of each pipeline, by priority level, have no outcome yet."""
        with self._lock:
            return self._scheduler.by_level()

    def queued(self) -> list[int]:
        """Return how many rows wait for each stage."""
        with self._lock:
            return self._scheduler.queued()

    def admit(self, task: Task, opening: Stage | None = None) -> None:
        """Take in a request; raises Fault when there is no room or no service. `opening` is the
        stage at which its walk begins.

        One whose turn in its sequence has not come is parked until it has.
        """
        sequences, turn = task.pipeline.sequences, task.turn
        if sequences is not None and turn is not None and not sequences.may_begin(turn):
            self._park(task)
            if sequences.ready(turn, partial(self._unpark, task)):
                self._unpark(task)
            return
        task.opens = opens(task, opening)
        if task.opens and not self._scheduler.spare(self._idle):
            open_walk(task)  # what it gives is not needed where a worker goes all the way at once
        with self._lock:
            if self._stopping:
                raise Fault(Code.UNAVAILABLE, "the engine is closed")
            refusal = self._scheduler.admit(task, self._clock(), self._idle)
            if refusal is not None:
                raise refusal
            if task.deadline is not None or task.pipeline.plan.queueing is not None:
                self._watch_limits()
            if self._idle:
                self._work.notify()

    def lend(self, task: Task, tally: Tally) -> None:
        """Let the thread that waits for a request's answer begin it, in the place of a worker that
        is free for it: so it need not be handed to another thread and its answer back.

        Only where nothing could be told on time that the thread had to hear of: no deadline, no
        stream, and requests that are known to be short.
        """
        mean = task.pipeline.average
        if task.deadline is not None or mean is None or mean > LENT_SECONDS:
            return
        with self._lock:
            if self._stopping or not self._idle:
                return
            job = self._scheduler.begin(task, self._clock())
            if job is None:
                return
            self._idle -= 1
            self._lent += 1
        answered = 0
        try:
            answered = self._do(job, tally)
        except BaseException:  # as when the user presses ^C
            self._end(task, Fault(Code.CANCELLED, "the thread that ran it was interrupted"))
            raise
        finally:
            with self._lock:
                self._answered(answered)
                self._lent -= 1
                self._rest()
                self._wake_another(self._clock())

    def _park(self, task: Task) -> None:
        with self._lock:
            if self._stopping:
                raise Fault(Code.UNAVAILABLE, "the engine is closed")
            refusal = self._scheduler.park(task, self._clock())
            if refusal is not None:
                raise refusal
            self._watch_limits()  # the silence of another sequence may be what it waits for

    def _unpark(self, task: Task) -> None:
        """Start a request whose turn has come."""
        with self._lock:
            if not task.done and not self._stopping:
                self._scheduler.unpark(task)
                self._work.notify()

    def enter(self, strand: Strand, stage: Stage, count: int) -> bool:
        """Whether this worker may run a stage at once instead of queueing for it."""
        if stage.policy is None:
            return True
        with self._lock:
            return self._scheduler.enter(strand, stage, count, self._clock())

    def leave(self, stage: Stage) -> None:
        """Note that the worker has run it, which may let another run what waits there."""
        if stage.policy is None:
            return
        with self._lock:
            self._scheduler.strands.leave(stage)
            if self._idle and self._scheduler.any_queued():
                self._wake_another(self._clock())

    def resume(self, task: Task) -> None:
        """Let a stream go on whose reader has made room."""
        with self._lock:
            self._scheduler.strands.resume(task)
            self._work.notify()

    def drop(self, task: Task) -> bool:
        """Take out a request whose caller has cancelled it; what runs of it is not used. False
        when it is answered, or is about to be."""
        with self._lock:
            if not self._scheduler.finish(task, self._clock()):
                return False
        # before it is no more in flight, so that an engine that is drained has counted all
        self._metrics.tally().pipelines[task.pipeline.index].fail(Code.CANCELLED.value)
        task.pipeline.failed(None)
        task.leave(False)
        task.answer.take_back()
        with self._lock:
            self._answered(1)
        return True

    def drain(self, timeout: float | None) -> bool:
        """Wait until every request is answered; False when `timeout` seconds were not enough."""
        with self._lock:
            return self._empty.wait_for(lambda: self._scheduler.in_flight == 0, timeout)

    def settle(self, timeout: float | None) -> bool:
        """Wait until every request is answered and no thread here holds on to anyone's values;
        False when `timeout` seconds were not enough."""
        with self._lock:
            return self._empty.wait_for(self._holds_nothing, timeout)

    def _holds_nothing(self) -> bool:
        all_wait = self._idle == len(self._threads) and not self._keeping
        return all_wait and self._scheduler.in_flight == 0

    def close(self) -> None:
        """Fail what waits, let what runs come to its next wait, and end the threads."""
        with self._lock:
            self._stopping = True
            self._work.notify_all()
            self._limit.notify_all()
        self._fail_waiting()
        with self._lock:
            self._empty.wait_for(lambda: not self._lent)
        for thread in self._threads:
            thread.join()
        if self._keeper is not None:
            self._keeper.join()
        self._fail_waiting()

    @property
    def here(self) -> bool:
        """Whether this thread is one of theirs."""
        return threading.current_thread() in (*self._threads, self._keeper)

    def end_streams(self) -> None:
        """Wait no more for the readers of streams, who may never come: neither now nor later."""
        with self._lock:
            streams = self._scheduler.streams()
        for task in streams:
            if isinstance(task.answer, Stream) and task.answer.wait_no_more():
                self._end(task, unread())

    def _fail_waiting(self) -> None:
        with self._lock:
            waiting = self._scheduler.tasks()
        for task in waiting:
            self._end(task, Fault(Code.UNAVAILABLE, "the engine was closed"))

    def _serve(self) -> None:
        tally = self._metrics.tally()
        with self._lock:
            self._idle -= 1
        answered = 0
        while (job := self._next(answered)) is not None:
            answered = self._do(job, tally)
            del job  # a worker that waits holds on to no one's values

    def _next(self, answered: int) -> Job | None:
        """Return this worker's next job, waiting for one; None to end. It has `answered` so many
        requests since."""
        with self._lock:
            if answered:
                self._answered(answered)
            now = self._clock()
            job = self._scheduler.next_job(now)
            if job is None:
                self._rest()
                while job is None:
                    if self._stopping:
                        return None
                    # one whose place is lent leaves what there is to do to who has it
                    due = self._watched = self._scheduler.next_due(now) if self._idle else None
                    self._work.wait(seconds_until(due, now))
                    self._watched = None
                    now = self._clock()
                    job = self._scheduler.next_job(now) if self._idle else None
                self._idle -= 1
            if self._idle:
                self._wake_another(now)
            return job

    def _rest(self) -> None:
        """Note that one more is free. The lock is held."""
        self._idle += 1
        if self._idle == len(self._threads):
            self._empty.notify_all()

    def _wake_another(self, now: float) -> None:
        """Let an idle worker look, when there is work for it or a batch due before it wakes."""
        due = self._scheduler.next_due(now)
        sooner = due is not None and (self._watched is None or due < self._watched)
        if sooner or self._scheduler.has_job(now):
            self._work.notify()

    def _do(self, job: Job, tally: Tally) -> int:
        """Do a job; return how many requests have got their answers."""
        if isinstance(job, Run):
            deliveries = self.run_batch(job.queue.stage, job.batch, tally, self._clock())
            ended, others = conclude(deliveries)
            with self._lock:
                now = self._clock()
                self._scheduler.ran(job, others, now)
                answers = self._scheduler.concluded(ended, now)
            self._answer(answers, tally, now)
            return len(answers)
        if isinstance(job, GoOn):
            return self._advanced(go_on(job.resumes, tally, self._clock, self), tally)
        if isinstance(job, Start):
            reached = advance(job.task, None, tally, self._clock, self)
            return self._advanced([Reached(job.task, reached)], tally)
        return self._advanced([Reached(job.task, job.fault)], tally)

    def _advanced(self, steps: Sequence[Reached], tally: Tally) -> int:
        """Hand back what strands have come to, and answer the requests that are done by that."""
        with self._lock:
            now = self._clock()
            # this worker is free in a moment: what it can serve does not count as waiting
            answers = self._scheduler.advanced(steps, now, self._idle + 1)
            for _, outcome, _ in steps:
                if isinstance(outcome, Ticket) and _is_limited(outcome):
                    self._watch_limits()
        self._answer(answers, tally, now)
        return len(answers)

    def _answer(self, answers: Sequence[Answer], tally: Tally, now: float) -> None:
        """Tell those who wait; others have seen to it that no one else does."""
        for task, outcome in answers:
            count_outcome(tally, task, outcome, now)
            if task.turn is not None:
                task.leave(not isinstance(outcome, Fault))
            if isinstance(outcome, Fault):
                task.answer.fail(outcome)
            else:
                task.answer.give(outcome)
            if task.turn is not None:
                self._look_at_limits()

    def _end(self, task: Task, fault: Fault) -> None:
        """Answer a request with a fault, unless someone has answered it already."""
        answered = self._advanced([Reached(task, fault)], self._metrics.tally())
        with self._lock:
            self._answered(answered)

    def _answered(self, count: int) -> None:
        """Note that so many callers have their answers. The lock is held."""
        self._scheduler.in_flight -= count
        if self._scheduler.in_flight == 0:
            self._empty.notify_all()

    def _look_at_limits(self) -> None:
        """Watch a sequence that a caller's own thread has left, as others wait for its place."""
        with self._lock:
            self._watch_limits()

    def _watch_limits(self) -> None:
        """See to it that someone wakes when the next time limit is reached."""
        expiry = self._next_limit()
        if expiry is None or self._stopping:
            return
        if self._keeper is None:
            self._keeper = threading.Thread(
                target=self._keep_limits, name="headrace-limits", daemon=True
            )
            self._keeper.start()
        elif self._alarm is None or expiry < self._alarm:
            self._limit.notify()

    def _next_limit(self) -> float | None:
        """Return when a request is too late or a sequence has been silent for too long."""
        times = [self._scheduler.next_expiry(), *(one.next_expiry() for one in self._sequences)]
        return min((time for time in times if time is not None), default=None)

    def _keep_limits(self) -> None:
        while (over := self._next_expired()) is not None:
            while over:  # a thread that waits holds on to no one's values
                self._end(*over.pop(0))
            for sequences in self._sequences:
                sequences.expire()  # without the lock, as it may let others go

    def _next_expired(self) -> "list[tuple[Task, Fault]] | None":
        with self._lock:
            while not self._stopping:
                self._keeping = True
                now = self._clock()
                over = self._scheduler.expire(now)
                if self._scheduler.has_job(now):
                    self._work.notify()  # what a `try` has given up goes on
                silent = [one.next_expiry() for one in self._sequences]
                if over or any(at is not None and at <= now for at in silent):
                    return over
                self._alarm, self._keeping = self._next_limit(), False
                self._empty.notify_all()
                self._limit.wait(seconds_until(self._alarm, now))
            self._keeping = False
            return None


def _is_limited(ticket: Ticket) -> bool:
    """Tell whether there is a time after which a work is not to wait any more."""
    policy, guard = ticket.work.stage.policy, ticket.work.group.guard
    timed = policy is not None and policy.queueing is not None
    return timed or (guard is not None and guard.at is not None)


def count_outcome(tally: Tally, task: Task, outcome: "dict[str, Item] | Fault", now: float) -> None:
    """Count a finished request, and take its time into its pipeline's mean."""
    cell = tally.pipelines[task.pipeline.index]
    if isinstance(outcome, Fault):
        cell.end(outcome)
        task.pipeline.failed(outcome)
        return
    cell.successes += 1
    cell.duration += now - task.admitted
    cell.queue += task.waited
    cell.last = perf_counter()
    if task.rows != 1:
        cell.count_rows(task.rows, now - task.admitted)
    # of one that has waited for others it is not known how long it computes
    task.pipeline.measured(None if task.reached_queue else task.busy)
