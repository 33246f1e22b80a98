"""Work that is done later: a queue that runs nothing before somebody waits for it.

Then it runs what may come next, chosen by a seed, until what is waited for is done: in any order
that streams and events allow. Each device has one; what waits for another device's work lets that
device's queue run it first. An operation that fails takes with it those that read what it made,
and no others; who waits for one of them gets its error.
"""

import random
import threading
from collections.abc import Callable, Iterable, Sequence

from ..device import DeviceError


class Operation:
    """Something a stream was asked for. `after` is what it must come behind, `needs` what made its
    inputs."""

    __slots__ = ("after", "done", "error", "needs", "queue", "run", "stage")

    def __init__(
        self,
        stage: str,
        run: Callable[[], None],
        after: "Iterable[Operation]" = (),
        needs: "Iterable[Operation]" = (),
    ) -> None:
        self.stage, self.run = stage, run
        self.after, self.needs = frozenset(after), tuple(needs)
        self.done = False
        self.queue: Queue | None = None
        self.error: DeviceError | None = None

    def finish(self) -> None:
        """Be done, and keep nothing alive."""
        self.done = True
        self.run, self.after, self.needs = _nothing, frozenset(), ()


class Queue:
    """What was asked for and is not done yet."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._waiting: list[Operation] = []

    def add(self, operation: Operation) -> None:
        operation.queue = self
        with self._lock:
            self._waiting.append(operation)

    def run_until(self, operations: Iterable[Operation]) -> None:
        """Run until some operations are done."""
        wanted = list(operations)
        while not all(one.done for one in wanted):
            self._advance(wanted)

    def drain(self) -> None:
        """Run all that is left."""
        while self._waiting:
            self._advance(())

    def _advance(self, wanted: Sequence[Operation]) -> None:
        """Run one operation, or let another device do what all here are waiting for."""
        with self._lock:
            ready = [one for one in self._waiting if all(other.done for other in one.after)]
            if ready:
                operation = self._random.choice(ready)
                self._waiting.remove(operation)
                perform(operation)
                return
            blocked = next((one for one in (*wanted, *self._waiting) if not one.done), None)
        if blocked is not None and (queue := _first_of(blocked).queue) is not None:
            queue._advance(())  # which has something that may come next


def _first_of(operation: Operation) -> Operation:
    """Return something that is behind nothing, and that an operation is behind."""
    while (before := next((one for one in operation.after if not one.done), None)) is not None:
        operation = before
    return operation


def perform(operation: Operation) -> None:
    """Run an operation, unless what it needs has failed; keep its error."""
    failed = next((one.error for one in operation.needs if one.error is not None), None)
    if failed is not None:
        operation.error = failed
    else:
        try:
            operation.run()
        except Exception as error:
            told = DeviceError(f"`{operation.stage}` has failed on its device: {error}")
            told.__cause__ = error
            operation.error = told
    operation.finish()


def _nothing() -> None:
    """What an operation runs that is done."""
