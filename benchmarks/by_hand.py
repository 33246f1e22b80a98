"""Batching as one writes it by hand: a line of requests, threads that take what waits, and futures.

It is what Python permits: nothing is checked, counted, bounded, timed, cancelled or told apart, and
a row that fails fails all that it met.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

Feeds = dict[str, Any]  # Any: arrays


class Loop:
    """Threads that run one-row requests in batches of up to `size`. `stack` makes what the model
    is fed of the inputs of some requests, `run` runs it and gives results with rows in front."""

    def __init__(
        self,
        stack: Callable[[list[Feeds]], Feeds],
        run: Callable[[Feeds], list[Any]],  # Any: arrays
        size: int,
        threads: int,
    ) -> None:
        self._stack, self._run, self._size = stack, run, size
        self._waiting: deque[tuple[Future[Any], Feeds]] = deque()  # Any: results as a tuple
        self._comes = threading.Condition()
        self._idle, self._over = 0, False
        self._threads = [threading.Thread(target=self._serve) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, **inputs: Any) -> Future[Any]:  # Any: as above
        future: Future[Any] = Future()  # Any: as above
        with self._comes:
            self._waiting.append((future, inputs))
            if self._idle:
                self._comes.notify()
        return future

    def close(self) -> None:
        with self._comes:
            self._over = True
            self._comes.notify_all()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while batch := self._take():
            results = self._run(self._stack([inputs for _, inputs in batch]))
            for row, (future, _) in enumerate(batch):
                future.set_result(tuple(result[row] for result in results))

    def _take(self) -> list[tuple[Future[Any], Feeds]]:  # Any: as above
        with self._comes:
            while not self._waiting and not self._over:
                self._idle += 1
                self._comes.wait()
                self._idle -= 1
            count = min(self._size, len(self._waiting))
            return [self._waiting.popleft() for _ in range(count)]
