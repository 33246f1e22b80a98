"""The future that `submit` returns."""

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Generic, TypeVar

from ..stdlib.op import Item
from .request import Fault
from .task import Task

Result = TypeVar("Result")


class Pending(Future[Result], Generic[Result]):
    """Cancelling works until the answer is there: queued work is dropped, and what runs at that
    moment is not used."""

    def __init__(
        self, make: Callable[[dict[str, Item]], Result], drop: Callable[[Task], None]
    ) -> None:
        """`make` turns the results by name into what the caller waits for."""
        super().__init__()
        self._make, self._drop = make, drop
        self.task: Task | None = None

    def cancel(self) -> bool:
        cancelled = super().cancel()
        task, self.task = self.task, None
        if cancelled and task is not None:
            self._drop(task)
        return cancelled

    def give(self, outputs: dict[str, Item]) -> None:
        """Resolve the future, unless it was cancelled at the last moment."""
        self.task = None
        try:
            self.set_result(self._make(outputs))
        except InvalidStateError:
            if not self.cancelled():
                raise

    def fail(self, fault: Fault) -> None:
        """Resolve the future with a fault, unless it was cancelled at the last moment."""
        self.task = None
        try:
            self.set_exception(fault)
        except InvalidStateError:
            if not self.cancelled():
                raise
