"""A function that worker processes serve: what a stage calls in place of it.

A thread a worker keeps it: starts it, waits for its end, starts it again when `supervisor` says so.
What it was called with while it `rehearses` is gone through with each that is started later, before
it serves anybody.
A call takes a worker that is free. While all are busy it waits, as for an instance in the engine's
own process; while none is up it waits for one that is expected within its `patience`, and fails
at once otherwise.
"""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, cast

from ..request import Code
from ..stage import StageError, StageGone
from .channel import NotAsked
from .function import FunctionProcess
from .process import Process
from .program import Program, Runs
from .supervisor import PATIENCE, Standing, died, expected, served, started

_LOG: Final = logging.getLogger(__name__)

GRACE: Final = 5.0
"""Seconds that workers have to end when they are asked to."""


class Holder(Protocol):
    """Who asks a pool that others ask too."""

    closing: bool
    """Whether it wants no worker any more."""


class Pool:
    """Calling it calls the function in a worker. `close` ends the workers."""

    def __init__(
        self,
        program: Program | Runs,
        count: int,
        clock: Callable[[], float] = time.monotonic,
        make: "Callable[[int], Process] | None" = None,
        patience: float = PATIENCE,
    ) -> None:
        """Start `count` workers, as `make` does by their numbers (None: of a function); raises
        StageError where one cannot be. A call waits for `patience` seconds at most while none is
        up."""
        self._program, self._clock, self._patience = program, clock, patience
        self._make = make or partial(_of_function, cast("Program", program))
        self._owner = os.getpid()
        self._lock = threading.RLock()  # entered as such, which no function of Python's does
        self._changed = threading.Condition(self._lock)
        self._waiting = 0  # how many
        self._closing = False
        self._failure: StageError | None = None
        self._standings = [Standing(due=clock()) for _ in range(count)]
        self._processes: dict[int, Process] = {}  # those that are not known to have ended
        self._free: list[Process] = []
        self._busy: dict[Process, object] = {}  # with who asks it
        self._warming: set[Process] = set()
        self._rehearsed: list[tuple[object, ...]] = []
        self._rehearsing: int | None = None
        if not sys.executable or not hasattr(os, "pidfd_open"):
            raise StageError("`isolate` wants Linux and a Python interpreter to start")
        self._keepers = [
            threading.Thread(
                target=self._keep, args=(i,), name=f"headrace-{program.stage}-{i}", daemon=True
            )
            for i in range(count)
        ]
        for keeper in self._keepers:
            keeper.start()
        try:
            self._await_first()
        except BaseException:
            self.close(0.0)
            raise

    def __call__(self, *arguments: object) -> object:
        return self.call(None, *arguments)

    def call(self, holder: "Holder | None", *arguments: object) -> object:
        """Call the function for a holder of the pool."""
        if self._rehearsing is not None and self.rehearses:
            with self._lock:
                self._rehearsed.append(arguments)
        while True:
            process = self._take(holder)
            try:
                return process.call(arguments)
            except NotAsked:
                process.kill()  # it has ended: another may do it, and it is asked no more
            finally:
                self._give(process)

    @property
    def rehearses(self) -> bool:
        """Whether what this thread calls is gone through with workers that are started later."""
        return self._rehearsing == threading.get_ident()

    @rehearses.setter
    def rehearses(self, rehearses: bool) -> None:
        self._rehearsing = threading.get_ident() if rehearses else None

    def wake(self) -> None:
        """Let whoever waits for a worker look whether he still wants one."""
        with self._lock:
            self._changed.notify_all()

    def kill(self, holder: "Holder") -> None:
        """Kill the workers that are at what a holder has asked; others are started."""
        with self._changed:
            busy = [process for process, asks in self._busy.items() if asks is holder]
        for process in busy:
            process.kill()

    @property
    def is_up(self) -> bool:
        """Whether there is a worker to ask."""
        with self._lock:
            return any(
                self._standings[index].due is None
                and not (process.killed or process.ended.is_set())
                for index, process in self._processes.items()
            )

    def close(self, grace: float = GRACE) -> None:
        """End the workers, after `grace` seconds whatever they do."""
        if os.getpid() != self._owner:
            return  # a fork of their owner; they are not its own
        with self._lock:
            self._closing = True
            free, self._free = self._free, []
            starting = set(self._processes.values()) - set(free) - self._busy.keys()
            starting |= self._warming
            self._changed.notify_all()
        for process in starting:
            process.kill()
        for process in free:
            process.finish()
        end = time.monotonic() + grace
        for keeper in self._keepers:
            keeper.join(max(0.0, end - time.monotonic()))
        with self._lock:
            late = list(self._processes.values())
        for process in late:
            _LOG.warning("stage `%s`: worker %d is killed", self._program.stage, process.number)
            process.kill()
        for keeper in self._keepers:
            keeper.join()

    def _await_first(self) -> None:
        """Wait until every worker is up; raises what one cannot be started for."""
        with self._lock:
            while not (self._failure or len(self._free) == len(self._keepers)):
                self._wait()
            if self._failure is not None:
                raise self._failure

    def _take(self, holder: "Holder | None") -> Process:
        if os.getpid() != self._owner:
            raise StageGone(
                Code.UNAVAILABLE,
                "its workers belong to the process that this one was forked from; load the plan "
                "after the fork",
            )
        give_up: float | None = None
        with self._lock:
            while True:
                if self._closing or (holder is not None and holder.closing):
                    raise StageGone(Code.UNAVAILABLE, "the engine was closed")
                if self._free:
                    # the last that was free has the most of it in the caches of a core; but in
                    # turn where as many runs are to warm up all
                    first = self._rehearsing is not None and self.rehearses
                    process = self._free.pop(0 if first else -1)
                    self._busy[process] = holder
                    return process
                now = self._clock()
                if self.is_up:
                    give_up = None
                elif give_up is None:
                    give_up = now + self._patience
                if give_up is not None:
                    soonest = min(expected(standing, now) for standing in self._standings)
                    if soonest >= give_up or now >= give_up:
                        raise self._down(soonest - now)
                self._wait(None if give_up is None else give_up - now)

    def _wait(self, seconds: float | None = None) -> None:
        """Wait until something has changed. The lock is held."""
        self._waiting += 1
        try:
            self._changed.wait(seconds)
        finally:
            self._waiting -= 1

    def _down(self, wait: float) -> StageGone:
        wait = max(wait, 0.1)
        why = f"; it ended last because {self._failure.message}" if self._failure else ""
        return StageGone(
            Code.UNAVAILABLE,
            f"its worker process is down and is started again; try again in {wait:.1f} s{why}",
            retry_after=wait,
        )

    def _give(self, process: Process) -> None:
        with self._lock:
            self._busy.pop(process, None)
            back = not process.killed and process in self._processes.values()
            if back and not self._closing:
                self._free.append(process)
            if self._waiting:
                self._changed.notify_all()
        if back and self._closing:
            process.finish()

    def _keep(self, index: int) -> None:
        """Keep one worker up until the pool is closed."""
        while (process := self._started(index)) is not None or not self._closing:
            if process is not None:
                process.watch()
                self._over(index, process)
            with self._lock:
                due = self._standings[index].due or 0.0
                while not self._closing:
                    left = due - self._clock()
                    if left <= 0:
                        break
                    self._wait(left)

    def _started(self, index: int) -> Process | None:
        """Return a worker that serves, None where that fails."""
        with self._lock:
            if self._closing:
                return None
            self._standings[index] = started(self._standings[index], self._clock())
        try:
            process = self._make(index)
        except OSError as error:
            self._died(index)
            self._fail(StageError(f"its worker process cannot be started: {error}"))
            return None
        with self._lock:
            self._processes[index] = process
            closing = self._closing
        try:
            if closing:
                process.kill()
            process.load()
        except (StageError, StageGone) as error:
            process.kill()
            process.watch()
            self._over(index, process)
            self._fail(error)
            return None
        with self._lock:
            rehearsed = list(self._rehearsed)
            if rehearsed:
                self._warming.add(process)
                self._busy[process] = None
        if rehearsed:  # while this thread keeps it: it may print, and may end
            threading.Thread(
                target=self._warm_up, args=(index, process, rehearsed), daemon=True
            ).start()
        else:
            self._serve(index, process)
        return process

    def _warm_up(
        self, index: int, process: Process, rehearsed: Sequence[tuple[object, ...]]
    ) -> None:
        """Let a worker do what all did before they served anybody."""
        try:
            for arguments in rehearsed:
                process.call(arguments)
        except Exception as error:  # the function's own, or that of a worker that has ended
            said = ascii(f"{type(error).__name__}: {error}")
            _LOG.error("stage `%s`: its run at loading fails now: %s", self._program.stage, said)
        finally:
            with self._lock:
                self._warming.discard(process)
                self._busy.pop(process, None)
            self._serve(index, process)

    def _serve(self, index: int, process: Process) -> None:
        """Let a worker be asked, unless it has ended."""
        with self._lock:
            here = self._processes.get(index) is process
            if not here or process.killed or process.ended.is_set():
                self._changed.notify_all()
                return
            self._standings[index] = served(self._standings[index], self._clock())
            self._failure = None
            closing = self._closing
            if not closing:
                self._free.append(process)
            self._changed.notify_all()
        if closing:
            process.finish()

    def _died(self, index: int, answers: int = 0) -> None:
        with self._lock:
            self._standings[index] = died(self._standings[index], self._clock(), answers)
            self._changed.notify_all()

    def _fail(self, error: StageError | StageGone) -> None:
        with self._lock:
            if not self._closing:
                _LOG.error("stage `%s`: %s", self._program.stage, ascii(error.message))
            # without its traceback, which holds what has been given back
            self._failure = StageError(error.message)
            self._failure.__cause__ = error.__cause__ if isinstance(error, StageError) else None
            self._changed.notify_all()

    def _over(self, index: int, process: Process) -> None:
        """Take out a worker that has ended, once nobody is asking it."""
        self._died(index, process.answers)
        with self._lock:
            if process in self._free:
                self._free.remove(process)
            if not self._closing:
                _LOG.warning("stage `%s`: worker %d ended", self._program.stage, process.number)
            while process in self._busy:
                self._wait()
            del self._processes[index]
        process.close()


def _of_function(program: Program, _: int) -> Process:
    return FunctionProcess(program)
