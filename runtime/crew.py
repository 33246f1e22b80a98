"""The workers of an engine, which are started at the first use."""

import threading
from collections.abc import Callable

from .jobs import RunBatch, run_batch
from .threads import Workers


class Crew:
    """`workers` are there once somebody has asked for them, and until it is closed."""

    def __init__(self, start: Callable[[RunBatch], Workers]) -> None:
        """`start` makes them; what they run batches with may be changed later."""
        self.workers: Workers | None = None
        self._start = start
        self._starting = threading.Lock()
        self._run_batch: RunBatch = run_batch

    def started(self) -> Workers:
        """Return the workers."""
        workers = self.workers
        if workers is None:
            with self._starting:
                if self.workers is None:
                    self.workers = self._start(self._run_batch)
                workers = self.workers
        return workers

    @property
    def in_stage(self) -> bool:
        """Whether this thread is at a request, as a worker or in the place of one."""
        return self.workers is not None and self.workers.in_stage

    def run_with(self, run: RunBatch) -> None:
        """Let batches be run with this from now on."""
        with self._starting:
            self._run_batch = run
            if self.workers is not None:
                self.workers.run_batch = run

    def close(self) -> None:
        """Fail what waits, and end the threads."""
        with self._starting:
            workers, self.workers = self.workers, None
        if workers is not None:
            workers.close()
