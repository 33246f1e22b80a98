"""The threaded driver: what others ask of the workers, around one lock and one scheduler.

Requests are taken in, taken back and waited for here, by any thread; `shift.py` is what the threads
do that answer them.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final, NamedTuple

from .bell import COMES
from .jobs import RunBatch, run_batch
from .metrics import Metrics, Tally
from .places import State
from .request import Code, Fault
from .rounds import Rounds
from .scheduler import Answer, Scheduler, Start
from .shift import Shift
from .strands import open_walk
from .streams import Stream, unread
from .task import Task
from .turns import Sequences

LENT_SECONDS: Final = 1e-3
"""Requests that compute no longer than this may run in the thread that waits for them: it cannot be
told meanwhile that another has cancelled."""


class _Lent(NamedTuple):
    """A job of a thread that is no worker, and what it was in before that."""

    job: Start
    before: State | None


class Workers(Shift):
    """Those of one engine: `count` threads."""

    def __init__(
        self,
        scheduler: Scheduler,
        metrics: Metrics,
        clock: Callable[[], float],
        count: int,
        sequences: Sequence[Sequences] = (),
        run_batch: RunBatch = run_batch,
    ) -> None:
        super().__init__(scheduler, metrics, clock, count, sequences, run_batch)
        scheduler.wake_with(self.look)

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

    def admit(self, task: Task, tally: Tally | None = None, rounds: Rounds | None = None) -> None:
        """Take in a request; raises Fault when there is no room or no service. With a `tally` this
        thread has nothing else to do: it runs the request where a worker would begin it now. With
        `rounds` workers may be woken for it when this thread's is over.

        One whose turn in its sequence has not come is parked until it has.
        """
        sequences, turn = task.pipeline.sequences, task.turn
        if turn is not None and sequences is not None and not sequences.may_begin(turn):
            self._park(task)
            if sequences.ready(turn, partial(self._unpark, task)):
                self._unpark(task)
            return
        places, lent, wakes = self._places, None, False
        nested = places.in_stage
        if nested:
            self.step_aside()
        elif task.opens and not (places.free and self._scheduler.spare(places.free)):
            open_walk(task)  # what it gives is not needed where a worker goes all the way at once
        with self._lock:
            if self._stopping:
                raise Fault(Code.UNAVAILABLE, "the engine is closed")
            now = self._clock()
            refusal = self._scheduler.admit(task, now, places.free, nested=nested)
            if refusal is not None:
                raise refusal
            if task.deadline is not None or task.pipeline.plan.queueing is not None:
                self._limits.watch()
            if tally is not None:
                lent = self._begin(task, now)
            if lent is None and places.free and not self._comes_himself(task, now):
                wakes = rounds is not None and rounds.attended
                if not wakes:
                    self._ring()
        if wakes and rounds is not None:
            rounds.owe(self.look)
        if lent is not None and tally is not None:
            self._run_lent(task, lent, tally)

    def look(self) -> None:
        """Wake a worker, if there is something to do and one is free for it."""
        with self._lock:
            if self._places.free and not self._stopping:
                self._wake_another(self._clock())

    def _comes_himself(self, task: Task, now: float) -> bool:
        """Whether nobody need be woken for a request that has come, as its caller is expected to
        run it, and no other is under way. The lock is held."""
        if task.came < COMES:
            return False
        alone = self._scheduler.in_flight == 1
        return alone and may_lend(task) and self._bell.is_needless(now)

    def hurry(self) -> None:
        """Hear that somebody waits for an answer, or will be told of it, who does not run the
        request himself: wake a worker for it, if none was woken."""
        if self._bell.owed:
            with self._lock:
                if self._bell.owed:
                    self._ring()

    def lend(self, task: Task, tally: Tally) -> None:
        """Let the thread that waits for a request's answer begin it, in the place of a worker that
        is free for it: so it need not be handed to another thread and its answer back.

        Only where nothing could be told on time that the thread had to hear of: no deadline, no
        stream, and requests that are known to be short.
        """
        self.step_aside()
        if not may_lend(task):
            return
        with self._lock:
            lent = None if self._stopping else self._begin(task, self._clock())
        if lent is not None:
            tally.came = task.came + 1
            self._run_lent(task, lent, tally)

    def _begin(self, task: Task, now: float) -> _Lent | None:
        """Take a request to be begun by this thread, in the place of a worker that is free for it;
        None where none is. `_run_lent` follows. The lock is held."""
        if not self._places.free or task.deadline is not None:
            return None
        job = self._scheduler.begin(task, now)
        if job is None:
            return None
        self._bell.begin()
        return _Lent(job, self._places.lend())

    def _run_lent(self, task: Task, lent: _Lent, tally: Tally) -> None:
        answers: Sequence[Answer] = ()
        waits = task.answer
        try:
            answers, now = self._do(lent.job, tally)
            self._answer(answers, tally, now)
        except BaseException:  # as when the user presses ^C, at any moment
            fault = Fault(Code.CANCELLED, "the thread that ran it was interrupted")
            self._end(task, fault)
            if isinstance(waits, Future) and not waits.done():
                answers = answers or ((task, fault),)  # it was done, and is to be answered still
                waits.fail(fault)
            raise
        finally:
            answered, before = len(answers), lent.before
            del lent, answers, waits  # see _do
            with self._lock:
                self._answered(answered)
                self._places.give_back(before)
                if self._places.empty or self._stopping:
                    self._tell_empty()
                self._wake_another(self._clock())

    def step_aside(self) -> None:
        """Give back the place of this thread, if it is in a stage, for the rest of that: it asks
        for another request, or waits for one, which may need it."""
        if not self._places.held:
            return
        with self._lock:
            self._places.give()
            if self._places.parked < self._places.free and not self._stopping:
                self._hire()
            self._wake_another(self._clock())

    def _park(self, task: Task) -> None:
        with self._lock:
            if self._stopping:
                raise Fault(Code.UNAVAILABLE, "the engine is closed")
            refusal = self._scheduler.park(task, self._clock())
            if refusal is not None:
                raise refusal
            self._limits.watch()  # the silence of another sequence may be what it waits for

    def _unpark(self, task: Task) -> None:
        """Start a request whose turn has come."""
        with self._lock:
            if not task.done and not self._stopping:
                self._scheduler.unpark(task)
                self._ring()

    def resume(self, task: Task) -> None:
        """Let a stream go on whose reader has made room."""
        with self._lock:
            self._scheduler.strands.resume(task)
            self._ring()

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
            return self._await(lambda: self._scheduler.in_flight == 0, timeout)

    def settle(self, timeout: float | None) -> bool:
        """Wait until every request is answered and no thread here holds on to anyone's values;
        False when `timeout` seconds were not enough."""
        with self._lock:
            return self._await(self._holds_nothing, timeout)

    def _holds_nothing(self) -> bool:
        all_wait = self._places.empty and self._limits.idle
        return all_wait and self._scheduler.in_flight == 0

    def close(self) -> None:
        """Fail what waits, let what runs come to its next wait, and end the threads."""
        with self._lock:
            self._stopping = True
            self._work.notify_all()
            self._limits.stop()
        self._fail_waiting()
        with self._lock:
            self._await(lambda: not self._places.lent)
            threads = list(self._threads)
        self._fail_waiting()
        for thread in threads:
            thread.join()
        self._limits.join()
        self._fail_waiting()
        self._scheduler.close()

    @property
    def answers(self) -> bool:
        """Whether this thread hands out answers."""
        return self._places.answers

    @property
    def in_stage(self) -> bool:
        """Whether this thread is at a request, as a worker or in the place of one."""
        return self._places.in_stage

    def end_streams(self) -> None:
        """Wait no more for the readers of streams, who may never come: neither now nor later."""
        with self._lock:
            streams = self._scheduler.streams()
        for task in streams:
            if isinstance(task.answer, Stream) and task.answer.wait_no_more():
                self._end(task, unread())


def may_lend(task: Task) -> bool:
    """Whether the thread that waits for a request may run it."""
    mean = task.pipeline.average
    return task.deadline is None and mean is not None and mean <= LENT_SECONDS
