"""The engine as a model in its own process has it: what `worker`'s `engine.py` is to others.

What the model says is taken at once, in the thread that says it; nothing is sent anywhere. Tensors
are copied either way, as a model may do with its own what it likes.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context as Variables
from functools import partial
from math import prod
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias

from ..context import Context
from ..meetings import Lend
from .calls import Calls
from .heard import Heard
from .open_requests import OpenRequests
from .worker.triton_python_backend_utils.contents import DTYPES, array_in
from .worker.triton_python_backend_utils.engine import Room
from .worker.triton_python_backend_utils.link import Answered, Ask, Responded

Header: TypeAlias = dict[str, Any]  # Any: JSON
Answer: TypeAlias = tuple[Header, list[Any]]  # Any: the model's Tensor
Work: TypeAlias = Callable[[], object]
Named: TypeAlias = tuple[str, str, Any]  # Any: an array


class Arrays(NamedTuple):
    """In the place of `Places`: tensors that are there, of so many bytes."""

    named: list[Named]
    end: int

    def arrays(self, _: object) -> list[Named]:
        return self.named


class DirectEngine:
    """For one instance of the model `name`, whose tensors are made by `received`. `thread` is the
    one that executes it."""

    def __init__(self, name: str, calls: Calls, received: Callable[..., Any]) -> None:
        self.open = OpenRequests()
        self.thread: int | None = None
        self._calls, self._received = calls, received
        self._heard = Heard(name, self, calls, self.open)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Callable[[Answer | Work | None], object]] = {}
        self._lending = threading.Lock()  # for what is put there before an answer
        self._changed = threading.Condition()
        self._rooms: dict[int, Room] = {}
        self._gone = False

    @property
    def is_main(self) -> bool:
        """Whether this thread is the one that the model is executed in, and runs no coroutine, in
        which another model could run none."""
        if threading.get_ident() != self.thread:
            return False
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            return False
        return True

    @property
    def patient(self) -> bool:
        return True

    def send(
        self,
        header: Header | Ask | Responded,
        chunks: Sequence[Any] = (),  # Any: bytes of tensors
        number: int = 0,
    ) -> None:
        """Take what the model says; what comes of it is not done with its context variables."""
        told = header
        if not isinstance(told, dict):
            told = {**told._asdict(), "tensors": _arrays(told.tensors, chunks)}
        Variables().run(self._heard.take, number, told, None)

    def ask(
        self, header: Header | Ask, chunks: Sequence[Any] = ()
    ) -> Answer:  # Any: bytes of tensors
        """Ask, and return the answer and its tensors."""
        told: SimpleQueue[Answer | Work | None] = SimpleQueue()
        self._ask(header, chunks, told.put)
        while callable(found := told.get()):
            Variables().run(found)
        if found is None:
            raise EOFError("the engine has gone")
        return found

    def ask_later(
        self,
        header: Ask,
        chunks: Sequence[Any],  # Any: bytes of tensors
        loop: asyncio.AbstractEventLoop,
    ) -> "asyncio.Future[Answer]":
        """Ask, and return a future of an event loop."""
        future: asyncio.Future[Answer] = loop.create_future()
        self._ask(header, chunks, partial(_settle, loop, future))
        return future

    def respond(
        self,
        number: int,
        header: Header | Responded,
        chunks: Sequence[Any],  # Any: bytes of tensors
    ) -> None:
        """Take a response to a request that may have many, once there is room for it."""
        with self._changed:
            room = self._rooms.setdefault(number, Room())
            self._changed.wait_for(lambda: self._gone or room.is_there())
            self._refuse_if_gone()
            room.sizes.append(sum(map(len, chunks)))
        self.send(header, chunks, number)

    def forget(self, number: int) -> None:
        """Note that a request has had its last response."""
        with self._changed:
            self._rooms.pop(number, None)

    def make_room(self, number: int, count: int | None) -> None:
        """Note that so many responses to a request have been taken; None: all are let go."""
        with self._changed:
            if (room := self._rooms.get(number)) is not None:
                room.make(count)
                self._changed.notify_all()

    def answer(
        self,
        call: int,
        answer: Header | Answered,
        chunks: Sequence[Any] = (),  # Any: bytes of tensors
    ) -> None:
        """Answer what the model has asked."""
        if isinstance(answer, dict):
            self._deliver(call, (answer, []))
        else:
            found = _arrays(answer.tensors, chunks).named
            self._deliver(call, ({}, [self._received(*one) for one in found]))

    def lends(self, call: int) -> Lend:
        """Return what lends the thread that waits for an answer."""

        def lend(work: Work) -> bool:
            with self._lending:
                deliver = self._waiting.get(call)
                if deliver is not None:
                    deliver(work)
                return deliver is not None

        return lend

    def _deliver(self, call: int, answer: Answer | None) -> None:
        with self._lending:
            deliver = self._waiting.pop(call, None)
            if deliver is not None:  # it has not been told that nobody answers
                deliver(answer)

    def contexts(self, number: int | None) -> list[Context]:
        """Return whose a request is that is not over, or those that the model is executing."""
        return self.open.contexts(number)

    def interrupt(self) -> None:
        """Let whatever the model waits for end: what it has asked, and room for responses."""
        for call in list(self._waiting):
            self._deliver(call, None)
        with self._changed:
            for room in self._rooms.values():
                room.make(None)
            self._changed.notify_all()
        self._calls.end(self)

    def end(self) -> None:
        """Be there no more."""
        with self._changed:
            self._gone = True
        self.interrupt()

    def _ask(
        self,
        header: Header | Ask,
        chunks: Sequence[Any],  # Any: bytes of tensors
        deliver: Callable[[Answer | Work | None], object],
    ) -> None:
        self._refuse_if_gone()
        call = next(self._numbers)
        self._waiting[call] = deliver
        try:
            self.send(header, chunks, call)
        except BaseException:
            self._waiting.pop(call, None)
            raise

    def _refuse_if_gone(self) -> None:
        if self._gone:
            raise EOFError("the engine has gone")


def _settle(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Answer]", answer: Answer | Work | None
) -> None:
    def settle() -> None:
        if future.done() or callable(answer):  # it may have been cancelled, and lends no thread
            return
        if answer is None:
            future.set_exception(EOFError("the engine has gone"))
        else:
            future.set_result(answer)

    with suppress(RuntimeError):  # the loop is closed: nobody waits
        loop.call_soon_threadsafe(settle)


def _arrays(told: Sequence[Any], chunks: Sequence[Any]) -> Arrays:  # Any: `Tensors`, and bytes
    """Return tensors of which a message tells, whose bytes are `chunks`."""
    named = [
        (name, datatype, _array(datatype, shape, chunk))
        for (name, datatype, shape, _), chunk in zip(told, chunks, strict=True)
    ]
    return Arrays(named, sum(map(len, chunks)))


def _array(datatype: str, shape: tuple[int, ...], chunk: Any) -> Any:  # Any: bytes, an array
    content = bytearray(chunk)
    return array_in(content, 0, len(content), DTYPES.get(datatype), shape, prod(shape))
