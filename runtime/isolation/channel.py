"""Asking a worker and taking its answer: the engine's end of the socket, and the memory.

Memory for what is asked is one arena, and one that is free takes the answer. A caller may keep
parts of an answer, which is not copied; its memory is free again when they are collected. Whoever
keeps those of many answers gets copies instead. In a steady state nothing is allocated.
"""

import os
import socket
import time
from collections.abc import Sequence
from typing import Final, NoReturn

from .frame import Frame, FrameError, Kind, receive, send
from .haste import Haste
from .memory import LIMIT, Arena, Loan, MemoryRefused, make
from .message import Forms, Message
from .reading import Known, Malformed, read

_LENT: Final = 4  # answers that callers keep parts of before they get copies
_SPARE: Final = 2  # memory for answers that is kept while not in use

BROKEN: Final = (OSError, FrameError, Malformed, MemoryRefused, EOFError)
"""What comes of a worker that has ended, is late (TimeoutError) or does not keep to the rules."""


class WorkerError(Exception):
    """Stands for what a function has raised in a worker; its class has the name of that."""


class Traced(Exception):
    """The traceback of a worker."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class NotAsked(Exception):
    """A worker had ended before it was asked."""


class Channel:
    """One call at a time. After anything of `BROKEN` the worker is to be killed."""

    def __init__(self, worker: socket.socket) -> None:
        self._worker, self._haste = worker, Haste(worker)
        self._calls = self._numbers = 0
        self._forms: Forms = {}
        self._known: Known = {}
        self._request: Arena | None = None
        self._replies: list[Arena] = []
        self._lent: list[tuple[Arena, Loan]] = []

    def message(self, values: Sequence[object]) -> Message:
        """Return values as the function is called with them; raises Unsendable."""
        return Message(values, self._forms)

    def ask(self, kind: Kind, message: Message) -> Arena:
        """Ask, and return the memory that the answer is to be in; raises NotAsked."""
        self._calls += 1
        try:
            request = self._request
            if request is None or request.size < message.size:
                self._forget(request)
                request = self._request = self._make(message.size, reply=False)
            reply = self._reply()
            message.write(request.view)
            tree, size = message.tree, message.size
            send(self._worker, Frame(kind, self._calls, request.number, reply.number, tree, size))
        except OSError as error:
            raise NotAsked from error
        return reply

    def answer(self, reply: Arena, due: float | None) -> object:
        """Return the answer, in time for `due`; raises what was raised as a WorkerError."""
        self._haste.look()
        frame = self._receive(due)
        self._haste.found()
        if frame.kind is Kind.GROW:
            if not reply.size < frame.size <= LIMIT:
                raise FrameError(f"{frame} for an answer in {reply.size} bytes")
            small, reply = reply, self._make(frame.size, reply=True)
            self._forget(small)
            self._replies.remove(small)
            self._replies.append(reply)
            frame = self._receive(due)
        if frame.kind not in (Kind.RESULT, Kind.RAISED) or frame.arena != reply.number:
            raise FrameError(f"{frame} is no answer in {reply.number}")
        if frame.reply:
            self._forget(self._request)
            self._request = None
        values = self._read(reply, frame)
        if frame.kind is Kind.RAISED:
            _raise(values)
        if len(values) != 1:
            raise Malformed(f"{len(values)} values for one")
        return values[0]

    def close(self) -> None:
        """Give back the memory, but for what callers keep of it."""
        self._request = None
        self._replies.clear()
        self._lent.clear()

    def _receive(self, due: float | None) -> Frame:
        frame = receive(self._worker, None if due is None else lambda: due - time.monotonic())
        if frame is None:
            raise EOFError("the socket has ended")
        if frame.call != self._calls:
            raise FrameError(f"{frame} is for another call than {self._calls}")
        return frame

    def _read(self, reply: Arena, frame: Frame) -> list[object]:
        loan, borrow = reply.lend(), len(self._lent) < _LENT
        values = read(
            loan.bytes, frame.tree, frame.size, borrow=borrow, writable=True, known=self._known
        )
        if not loan.end():
            self._replies.remove(reply)
            self._lent.append((reply, loan))
        return values

    def _reply(self) -> Arena:
        """Return memory for an answer that no caller keeps a part of."""
        still: list[tuple[Arena, Loan]] = []
        for arena, loan in self._lent:
            if loan.end():
                self._replies.append(arena)
            else:
                still.append((arena, loan))
        self._lent = still
        self._replies.sort(key=lambda one: one.size)
        while len(self._replies) > _SPARE:
            self._forget(self._replies.pop(0))
        if not self._replies:
            size = max((arena.size for arena, _ in still), default=1)
            self._replies.append(self._make(size, reply=True))
        return self._replies[-1]

    def _make(self, size: int, *, reply: bool) -> Arena:
        self._numbers += 1
        arena, descriptor = make(self._numbers, size)
        try:
            frame = Frame(Kind.ARENA, 0, arena.number, int(reply), 0, arena.size)
            send(self._worker, frame, descriptor)
        finally:
            os.close(descriptor)
        return arena

    def _forget(self, arena: Arena | None) -> None:
        if arena is not None:
            send(self._worker, Frame(Kind.FORGET, arena=arena.number))


def _raise(values: list[object]) -> NoReturn:
    """Raise what was raised in a worker."""
    texts = [one for one in values if isinstance(one, str)]
    if len(values) != 3 or len(texts) != 3:
        raise Malformed("an exception without its name, text or traceback")
    name, text, trace = texts
    if not name.isidentifier():
        name = "Exception"
    kind = type(name, (WorkerError,), {"__module__": "builtins"})  # as it was called there
    raise kind(text) from Traced(trace)
