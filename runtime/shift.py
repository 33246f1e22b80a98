"""The threads of an engine at work: each waits for a job, does it, answers, and looks for the next.

Every wait is exact, but for the worker that watches over callers who run their own requests
(`bell.py`). A free worker waits for a notification or until the next batch is due; one more thread
(`limits.py`) waits for the next time limit. Stages run without the lock. The worker
that finishes a batch goes on with one of its requests itself and leaves the others to whoever is
free. As many run at once as there are places (`places.py`); a worker whose stage waits for another
request leaves its own to one of the others, of which there is one more then.
"""

import threading
from collections.abc import Callable, Sequence

from .bell import Bell
from .jobs import Given, Reached, RunBatch, advance, conclude, go_on
from .limits import Limits, is_limited
from .metrics import Metrics, Tally
from .outcomes import hand_out, report
from .places import Places
from .request import Code, Fault
from .scheduler import Answer, GoOn, Job, Run, Scheduler, Start
from .stage import Stage
from .task import Strand, Task, Ticket
from .turns import Sequences
from .until import seconds_until


class Shift:
    """`count` threads around one lock and one scheduler. `clock` is the engine's."""

    def __init__(
        self,
        scheduler: Scheduler,
        metrics: Metrics,
        clock: Callable[[], float],
        count: int,
        sequences: Sequence[Sequences],
        run_batch: RunBatch,
    ) -> None:
        self._scheduler, self._metrics, self._clock = scheduler, metrics, clock
        self.run_batch = run_batch
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._empty = threading.Condition(self._lock)
        self._awaited = 0  # how many wait for that
        self._places = Places(count)
        self._bell = Bell()
        self._watched: float | None = None
        self._stopping = False
        self._limits = Limits(
            self._lock,
            scheduler,
            sequences,
            clock,
            self._end,
            self._ring,
            self._tell_empty,
        )
        self._threads: list[threading.Thread] = []
        with self._lock:
            for _ in range(count):
                self._hire()

    @property
    def here(self) -> bool:
        """Whether this thread is one of theirs."""
        return threading.current_thread() in (*self._threads, self._limits.thread)

    def enter(self, strand: Strand, stage: Stage, count: int) -> bool:
        """Whether this worker may run a stage at once instead of queueing for it."""
        if stage.policy is None:
            return True
        with self._lock:
            return self._scheduler.enter(strand, stage, count, self._clock())

    def leave(self, strand: Strand, stage: Stage) -> None:
        """Note that the worker has run it, which may let another run what waits there."""
        if stage.policy is None:
            return
        with self._lock:
            self._scheduler.strands.leave(strand, stage)
            if self._places.free and self._scheduler.any_queued():
                self._wake_another(self._clock())

    def _hire(self) -> None:
        """Start one more thread that waits for something to do. The lock is held."""
        name = f"headrace-{len(self._threads)}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._threads.append(thread)
        self._places.parked += 1
        thread.start()

    def _serve(self) -> None:
        tally = self._metrics.tally()
        with self._lock:
            job = self._wait_for_job(self._clock())
        while job is not None:
            answers, now = self._do(job, tally)
            self._answer(answers, tally, now)
            answered = len(answers)
            del job, answers  # a worker that waits holds on to no one's values
            job = self._next(answered)
        if self._stopping:
            self._fail_waiting()  # a stage may wait for it, which nobody runs any more

    def _next(self, answered: int) -> Job | None:
        """Return this worker's next job, waiting for one; None to end. It has `answered` so many
        requests since."""
        with self._lock:
            if answered:
                self._answered(answered)
            now, places = self._clock(), self._places
            kept = places.keep()
            job = self._scheduler.next_job(now) if kept else None
            if job is None:
                if kept:
                    places.rest()
                if places.empty:
                    self._tell_empty()
                if places.parked >= 2 * places.count:
                    self._threads.remove(threading.current_thread())
                    places.leave()
                    return None
                places.parked += 1
                return self._wait_for_job(now)
            if places.free:
                self._wake_another(now)
            return job

    def _wait_for_job(self, now: float) -> Job | None:
        """Return the next job of this worker, which is parked; None to end. The lock is held."""
        places, job = self._places, None
        while job is None:
            # where no place is free others are at work, who look again when they have done it
            job = self._scheduler.next_job(now) if places.free else None
            if job is None:
                if self._stopping:
                    return None
                due = self._watched = self._scheduler.next_due(now) if places.free else None
                self._sleep(due, now)
                self._watched = None
                now = self._clock()
        places.parked -= 1
        places.take()
        if places.free:
            self._wake_another(now)
        return job

    def _sleep(self, due: float | None, now: float) -> None:
        """Wait until there may be something to do, at the latest when it is `due`. The lock is
        held."""
        if due is not None or not self._bell.watch(now):
            self._work.wait(seconds_until(due, now))
            return
        while not self._stopping and (look := self._bell.next_look(now)) is not None:
            self._work.wait(seconds_until(look, now))
            now = self._clock()

    def _ring(self) -> None:
        """Let an idle worker look what there is to do. The lock is held."""
        self._bell.ring()
        self._work.notify()

    def _wake_another(self, now: float) -> None:
        """Let an idle worker look, when there is work for it or a batch due before it wakes."""
        if not self._scheduler.in_flight:
            return
        due = self._scheduler.next_due(now)
        sooner = due is not None and (self._watched is None or due < self._watched)
        if sooner or self._scheduler.has_job(now):
            self._ring()

    def _do(self, job: Job, tally: Tally) -> tuple[Sequence[Answer], float]:
        """Do a job; return the requests that are to be answered, and when that was."""
        try:
            if isinstance(job, Run):
                at = self._clock()
                return self._ran(job, self.run_batch(job.queue.stage, job.batch, tally, at))
            if isinstance(job, GoOn):
                return self._advanced(go_on(job.resumes, tally, self._clock, self))
            if isinstance(job, Start):
                return self._advanced(
                    [Reached(job.task, advance(job.task, None, tally, self._clock, self))]
                )
            return self._advanced([Reached(job.task, job.fault)])
        finally:
            del job  # a fault's traceback leads to this frame: what names the fault would hold it

    def _ran(self, job: Run, deliveries: Sequence[Given]) -> tuple[Sequence[Answer], float]:
        """Hand back what a batch has given; return whom to answer, and when that was."""
        ended, others = conclude(deliveries)
        with self._lock:
            now = self._clock()
            self._scheduler.ran(job, others, now)
            return self._scheduler.concluded(ended, now), now

    def _advanced(self, steps: Sequence[Reached]) -> tuple[Sequence[Answer], float]:
        """Hand back what strands have come to; return whom to answer, and when that was."""
        with self._lock:
            now = self._clock()
            # this worker is free in a moment: what it can serve does not count as waiting
            answers = self._scheduler.advanced(steps, now, self._places.free + 1)
            for _, outcome, _ in steps:
                if isinstance(outcome, Ticket) and is_limited(outcome):
                    self._limits.watch()
        return answers, now

    def _answer(self, answers: Sequence[Answer], tally: Tally, now: float) -> None:
        """Tell those who wait."""
        self._places.answer()
        for task, outcome in answers:
            try:
                hand_out(task, outcome, tally, now)
            except BaseException as error:  # a callback's, of those that no future keeps
                if not self.here:
                    raise
                report(error)
            if task.turn is not None:
                self._limits.look()

    def _end(self, task: Task, fault: Fault) -> None:
        """Answer a request with a fault, unless someone has answered it already."""
        answers, now = self._advanced([Reached(task, fault)])
        self._answer(answers, self._metrics.tally(), now)
        with self._lock:
            self._answered(len(answers))

    def _answered(self, count: int) -> None:
        """Note that so many callers have their answers. The lock is held."""
        self._scheduler.in_flight -= count
        if self._scheduler.in_flight == 0:
            self._tell_empty()

    def _fail_waiting(self) -> None:
        with self._lock:
            waiting = self._scheduler.tasks()
        for task in waiting:
            self._end(task, Fault(Code.UNAVAILABLE, "the engine was closed"))

    def _tell_empty(self) -> None:
        """Let those look who wait until nobody is at anything. The lock is held."""
        if self._awaited:
            self._empty.notify_all()

    def _await(self, over: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until something is over; False when `timeout` seconds were not enough. The lock is
        held."""
        self._awaited += 1
        try:
            return self._empty.wait_for(over, timeout)
        finally:
            self._awaited -= 1
