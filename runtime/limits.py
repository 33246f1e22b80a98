"""The thread that tells those whose time is up, so that they hear of it while all workers are busy.

It starts with the first time limit, and waits for the next. The lock is the workers'.
"""

import threading
from collections.abc import Callable, Sequence

from .request import Fault
from .scheduler import Scheduler
from .task import Task, Ticket
from .turns import Sequences
from .until import seconds_until


class Limits:
    """`end` answers a request with a fault; `wake` lets a worker look what there is to do, and
    `tell_idle` is called before it waits: both with the lock held."""

    def __init__(
        self,
        lock: threading.Lock,
        scheduler: Scheduler,
        sequences: Sequence[Sequences],
        clock: Callable[[], float],
        end: Callable[[Task, Fault], None],
        wake: Callable[[], None],
        tell_idle: Callable[[], None],
    ) -> None:
        self.idle = True
        self.thread: threading.Thread | None = None
        self._lock, self._limit = lock, threading.Condition(lock)
        self._scheduler, self._sequences, self._clock = scheduler, sequences, clock
        self._end, self._wake, self._tell_idle = end, wake, tell_idle
        self._alarm: float | None = None
        self._stopping = False
        for one in sequences:
            one.watch(self.look)

    def look(self) -> None:
        """Watch a sequence that a caller's own thread has left, as others wait for its place."""
        with self._lock:
            self.watch()

    def watch(self) -> None:
        """See to it that someone wakes when the next time limit is reached. The lock is held."""
        expiry = self._next()
        if expiry is None or self._stopping:
            return
        if self.thread is None:
            self.thread = threading.Thread(target=self._keep, name="headrace-limits", daemon=True)
            self.thread.start()
        elif self._alarm is None or expiry < self._alarm:
            self._limit.notify()

    def stop(self) -> None:
        """Let the thread end. The lock is held."""
        self._stopping = True
        self._limit.notify_all()

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self.thread is not None:
            self.thread.join()

    def _next(self) -> float | None:
        """Return when a request is too late or a sequence has been silent for too long."""
        times = [self._scheduler.next_expiry(), *(one.next_expiry() for one in self._sequences)]
        return min((time for time in times if time is not None), default=None)

    def _keep(self) -> None:
        while (over := self._next_expired()) is not None:
            while over:  # a thread that waits holds on to no one's values
                self._end(*over.pop(0))
            for sequences in self._sequences:
                sequences.expire()  # without the lock, as it may let others go

    def _next_expired(self) -> "list[tuple[Task, Fault]] | None":
        with self._lock:
            while not self._stopping:
                self.idle = False
                now = self._clock()
                over = self._scheduler.expire(now)
                if self._scheduler.has_job(now):
                    self._wake()  # what a `try` has given up goes on
                silent = [one.next_expiry() for one in self._sequences]
                if over or any(at is not None and at <= now for at in silent):
                    return over
                self._alarm, self.idle = self._next(), True
                self._tell_idle()
                self._limit.wait(seconds_until(self._alarm, now))
            self.idle = True
            return None


def is_limited(ticket: Ticket) -> bool:
    """Tell whether there is a time after which a work is not to wait any more."""
    policy, guard = ticket.work.stage.policy, ticket.work.group.guard
    timed = policy is not None and policy.queueing is not None
    return timed or (guard is not None and guard.at is not None)
