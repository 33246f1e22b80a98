"""The future that `submit` returns."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

from ..stdlib.op import Item
from .request import Fault
from .streams import gathered
from .task import Task

Result = TypeVar("Result")


class Pending(Future[Result], Generic[Result]):
    """Cancelling works until the answer is there: queued work is dropped, and what runs at that
    moment is not used."""

    def __init__(
        self,
        make: Callable[[dict[str, Item]], Result],
        drop: Callable[[Task], bool],
        wait: Callable[[Task, float | None], None],
    ) -> None:
        """`make` turns the results by name into what the caller waits for; `wait` is told that he
        waits now, for so long at most, and may let him run it himself."""
        super().__init__()
        self._make, self._drop, self._wait = make, drop, wait
        self._names: Sequence[str] | None = None
        self._emitted: list[dict[str, Item]] = []
        self.task: Task | None = None

    def gather(self, names: Sequence[str]) -> None:
        """Take what a stream emits: each of these results is the list of that."""
        self._names = names

    def result(self, timeout: float | None = None) -> Result:
        if (task := self.task) is not None:
            self._wait(task, timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if (task := self.task) is not None:
            self._wait(task, timeout)
        return super().exception(timeout)

    def cancel(self) -> bool:
        task = self.task  # none any more once it is answered
        return (task is not None and self._drop(task)) or self.cancelled()

    def take_back(self) -> None:
        """Resolve the future: its caller has cancelled, before any answer."""
        self.task = None
        super().cancel()
        self.set_running_or_notify_cancel()  # for who waits for several futures

    def emit(self, outputs: dict[str, Item]) -> bool:
        """Keep one response of a stream until all are there."""
        self._emitted.append(outputs)
        return True

    def give(self, outputs: dict[str, Item]) -> None:
        """Resolve the future."""
        self.task = None
        if self._names is not None:
            outputs = gathered(self._names, self._emitted)
        self.set_result(self._make(outputs))

    def fail(self, fault: Fault) -> None:
        """Resolve the future with a fault."""
        self.task = None
        self.set_exception(fault)
