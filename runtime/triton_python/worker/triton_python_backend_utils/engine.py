"""The engine at the other end: what a worker asks it, from any thread, and what it answers.

Messages are read by whoever waits for one: the first who waits reads for all, and wakes the one
whose it is. So a model that asks nothing costs no thread, and the thread that runs the model reads
its requests itself.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .contents import Places, padded
from .link import ROOM, ROOM_BYTES, Ask, Link, Responded
from .tensor import Tensor, TritonModelException

_ONE = (1).to_bytes(8, "little")


class Engine:
    """What the functions of the module talk to; there is one in a worker."""

    def __init__(self, link: Link, late: int) -> None:
        self._link, self._late = link, late
        self._sending = threading.Lock()
        self._asked = True
        self._lock = threading.RLock()  # entered as such, which no function of Python's does
        self._changed = threading.Condition(self._lock)
        self._reading, self._waiting = False, 0
        self._gone: Exception | None = None
        self._calls = itertools.count(1)
        self._answers: dict[int, Any] = {}
        self._orders: deque[tuple[Any, Any]] = deque()
        self.rooms: dict[int, Room] = {}
        self._futures: dict[int, asyncio.Future[Any]] = {}
        self._listener: threading.Thread | None = None
        self._main = threading.get_ident()

    def send(
        self,
        header: dict[str, Any] | Ask | Responded | bytes,
        chunks: Sequence[Any] = (),
        number: int = 0,
        last: bool = False,
    ) -> None:
        """Tell the engine something; `last` when it has what it has asked for, and listens no more
        unless it is told that there is something to hear."""
        with self._sending:
            self._link.send(header, chunks, number)
            if not self._asked:
                os.write(self._late, _ONE)
            elif last:
                self._asked = False

    @property
    def is_main(self) -> bool:
        """Whether this thread is the one that the model is executed in."""
        return threading.get_ident() == self._main

    def order(self) -> tuple[Any, Any]:
        """Return the next thing to do and its bytes, which the main thread asks for; raises
        EOFError."""
        self._wait(self._orders.__len__)
        self._asked = True  # before anything is sent of it, by whichever thread
        return self._orders.popleft()

    def ask(
        self, header: dict[str, Any] | Ask, chunks: Sequence[Any] = ()
    ) -> tuple[dict[str, Any], list[Tensor]]:
        """Ask, and return the answer and its tensors."""
        call = next(self._calls)
        self.send(header, chunks, call)
        self._wait(partial(self._answers.__contains__, call))
        return self._answers.pop(call)

    def ask_later(
        self, header: Ask, chunks: list[Any], loop: asyncio.AbstractEventLoop
    ) -> asyncio.Future[tuple[dict[str, Any], list[Tensor]]]:
        """Ask, and return a future of an event loop."""
        call, future = next(self._calls), loop.create_future()
        with self._lock:
            self._futures[call] = future
            if self._listener is None:
                self._listener = threading.Thread(target=self._listen, daemon=True)
                self._listener.start()
        self.send(header, chunks, call)
        return future

    def respond(
        self, number: int, header: dict[str, Any] | Responded, chunks: Sequence[Any]
    ) -> None:
        """Send a response to a request that may have many, once there is room for it."""
        with self._lock:
            room = self.rooms.setdefault(number, Room())
        self._wait(room.is_there)
        with self._lock:
            room.sizes.append(sum(padded(len(one)) for one in chunks))
        self.send(header, chunks, number)

    def forget(self, number: int) -> None:
        """Note that a request has had its last response."""
        with self._lock:
            self.rooms.pop(number, None)

    def _listen(self) -> None:
        try:
            self._wait(lambda: False)
        except EOFError:
            return

    def _wait(self, done: Callable[[], object]) -> None:
        """Read until there is what `done` asks for, or let another read."""
        with self._lock:
            while not done():
                if self._gone is not None:
                    raise EOFError("the engine has gone") from self._gone
                if self._reading:
                    self._waiting += 1
                    self._changed.wait()
                    self._waiting -= 1
                    continue
                self._reading = True
                self._lock.release()
                try:
                    message = self._link.receive()
                except Exception as error:  # whoever waits is to hear of it
                    self._lock.acquire()
                    self._gone = error
                else:
                    self._lock.acquire()
                    self._take(*message)
                self._reading = False
                if self._waiting:
                    self._changed.notify_all()

    def _take(self, header: dict[str, Any] | bytes, content: Any, number: int) -> None:
        if isinstance(header, bytes) or header["do"] not in ("answer", "room"):
            self._orders.append((header, content))
            return
        if header["do"] == "room":
            room = self.rooms.get(number)
            if room is not None:
                room.make(header["count"])
            return
        answer = header, _tensors(header.get("tensors"), content)
        future = self._futures.pop(number, None) if self._futures else None
        if future is None:
            self._answers[number] = answer
        else:
            future.get_loop().call_soon_threadsafe(_resolve, future, answer)


class Room:
    """The sizes of responses to a request that nobody has taken yet; None when all are let go."""

    def __init__(self) -> None:
        self.sizes: deque[int] = deque()
        self._free = False

    def is_there(self) -> bool:
        full = len(self.sizes) >= ROOM or sum(self.sizes) >= ROOM_BYTES
        return self._free or not full

    def make(self, count: int | None) -> None:
        """Note that so many have been taken, or that all that comes is let go (None)."""
        self._free = self._free or count is None
        for _ in range(min(count or 0, len(self.sizes))):
            self.sizes.popleft()


def _resolve(future: Any, answer: Any) -> None:
    if not future.done():  # it may have been cancelled
        future.set_result(answer)


def _tensors(places: Places | None, content: Any) -> list[Tensor]:
    """Return the tensors of a message."""
    return [] if places is None else [Tensor.received(*one) for one in places.arrays(content)]


class Worker:
    """What the module's functions know of where they run. `engine` is None while a module is only
    asked for its configuration; `model` is the model's name."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.model = self.folder = ""
        self.outputs: frozenset[str] = frozenset()
        self.decoupled = self.executing = False

    def required(self, what: str) -> Engine:
        """Return the engine; raises where there is none to ask."""
        if self.engine is None:
            raise TritonModelException(f"{what} is only there while a model is served.")
        return self.engine


WORKER = Worker()
"""A module of functions without an argument that says for whom must keep it: one a process."""
