"""The future that `submit` returns.

A Future of the standard library makes a lock and a condition for whoever may wait for it. Of many
requests under way few are waited for: most are answered by then. So the condition is made when
somebody asks for it, and none is once the answer is there, nor for the first who wants to be told.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Condition
from typing import Any, Final, Generic, Protocol, TypeVar

from ..stdlib.op import Item
from .request import Fault
from .streams import gathered
from .task import Task

Result = TypeVar("Result")

_LOG = logging.getLogger("concurrent.futures")
_PENDING: Final = "PENDING"
_FINISHED: Final = "FINISHED"  # states as `concurrent.futures` calls them, which looks for them


class Server(Protocol):
    """Who answers."""

    def drop(self, task: Task) -> bool:
        """Take a request out that its caller has cancelled; False when it is answered."""
        ...

    def wait(self, task: Task, timeout: float | None) -> None:
        """Hear that a caller waits now, for so long at most: he may run his request himself."""
        ...

    def hurry(self) -> None:
        """Hear that somebody waits, or is to be told, who does not."""
        ...


class Pending(Future[Result], Generic[Result]):
    """Cancelling works until the answer is there: queued work is dropped, and what runs at that
    moment is not used."""

    _names: Sequence[str] | None = None
    task: Task | None = None

    def __init__(self, make: Callable[[dict[str, Item]], Result], server: Server) -> None:
        """`make` turns the results by name into what the caller waits for."""
        # as the base class begins, whose __init__ would make what most need not
        self._state, self._result, self._exception = _PENDING, None, None
        self._make, self._server = make, server

    def __getattr__(self, name: str) -> list[Any]:  # Any: as the base class has them
        """Return who waits, or is to be told: lists of the base class, made when it asks."""
        if name in ("_waiters", "_done_callbacks"):
            return self.__dict__.setdefault(name, [])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def gather(self, names: Sequence[str]) -> None:
        """Take what a stream emits: each of these results is the list of that."""
        self._names, self._emitted = names, list[dict[str, Item]]()

    @property
    def _condition(self) -> Condition:  # pyright: ignore[reportIncompatibleVariableOverride] made late
        made = self.__dict__.get("_made") or self._make_condition()
        if isinstance(made, Condition):
            return made
        self._state = _FINISHED  # as who answers is about to say; the answer is there
        return self.__dict__.setdefault("_made_late", Condition())

    def _make_condition(self) -> Condition | str:
        """Return a condition for who asks for one: he waits, or looks whether it is done."""
        made = self._claim(Condition())
        self._hurry()
        return made

    def _hurry(self) -> None:
        """Say that somebody waits, or is to be told, who does not run the request."""
        if self.task is not None:
            self._server.hurry()

    def _claim(self, made: Condition | str) -> Condition | str:
        """Return what whoever came first has put here: a condition to be told, or that the answer
        is there without one."""
        return self.__dict__.setdefault("_made", made)

    def result(self, timeout: float | None = None) -> Result:
        if self._state == _FINISHED and self._exception is None:
            return self._result  # pyright: ignore[reportReturnType] it is there
        try:
            self._waits(timeout)
            if self._state == _FINISHED and self._exception is None:
                return self._result  # pyright: ignore[reportReturnType] likewise
            return super().result(timeout)
        finally:
            del self  # or the fault would hold itself, whose traceback leads to this frame

    def exception(self, timeout: float | None = None) -> BaseException | None:
        try:
            self._waits(timeout)
            return super().exception(timeout)
        finally:
            del self  # likewise

    def _waits(self, timeout: float | None) -> None:
        task, server = self.task, self._server
        del self  # likewise
        if task is not None:
            server.wait(task, timeout)

    def add_done_callback(self, fn: Callable[[Future[Result]], object]) -> None:
        told = [fn]
        # in this order, for who answers says so before he looks whom to tell
        if self.__dict__.setdefault("_told", told) is not told:
            super().add_done_callback(fn)
        elif self._state != _PENDING:
            self._tell_first()
        else:
            self._hurry()

    def _invoke_callbacks(self) -> None:
        self._tell_first()
        super()._invoke_callbacks()  # pyright: ignore[reportAttributeAccessIssue] it is there

    def _tell_first(self) -> None:
        """Tell who was the first to want it, unless he has been told."""
        told = self.__dict__.pop("_told", None)
        if told is not None:
            try:
                told[0](self)
            except Exception:
                _LOG.exception("exception calling callback for %r", self)

    def cancel(self) -> bool:
        task = self.task  # none any more once it is answered
        return (task is not None and self._server.drop(task)) or self.cancelled()

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
        self._result = self._make(outputs)
        if self._claim(_FINISHED) is _FINISHED:
            self._state = _FINISHED
            self._tell_first()
        else:
            self.set_result(self._result)

    def fail(self, fault: Fault) -> None:
        """Resolve the future with a fault."""
        self.task = None
        self.set_exception(fault)
