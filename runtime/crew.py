"""The workers of an engine, which are started at the first use, and stay behind when their process
forks."""

import os
import threading
from collections.abc import Callable

from .jobs import RunBatch, run_batch
from .request import Code, Fault
from .threads import Workers


class Crew:
    """Those of one engine, in the process that has made it."""

    def __init__(self, start: Callable[[RunBatch], Workers]) -> None:
        """`start` makes them; what they run batches with may be changed later."""
        self._workers: Workers | None = None
        self._start, self._process = start, os.getpid()
        self._starting = threading.Lock()
        self._run_batch: RunBatch = run_batch

    @property
    def workers(self) -> Workers | None:
        """Those who are there: once somebody has asked for them, until it is closed."""
        return self._workers if os.getpid() == self._process else None

    def started(self) -> Workers:
        """Return the workers; raises Fault in a fork of the process, where there are none."""
        if os.getpid() != self._process:
            raise Fault(
                Code.UNAVAILABLE,
                "the threads that run what is submitted did not come along when this process was "
                "forked; load the plan in this process, or start it by `spawn` or `forkserver`",
            )
        workers = self._workers
        if workers is None:
            with self._starting:
                if self._workers is None:
                    self._workers = self._start(self._run_batch)
                workers = self._workers
        return workers

    def run_with(self, run: RunBatch) -> None:
        """Let batches be run with this from now on."""
        with self._starting:
            self._run_batch = run
            if self._workers is not None:
                self._workers.run_batch = run

    def close(self) -> None:
        """Fail what waits, and end the threads."""
        with self._starting:
            workers, self._workers = self.workers, None
        if workers is not None:
            workers.close()
