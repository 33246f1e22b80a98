"""A worker that has loaded a model: what it is asked, and what it says, at any time."""

import json
import logging
import os
import select
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from ..context import Context
from ..isolation import ending
from ..isolation.channel import NotAsked
from ..isolation.output import shown
from ..isolation.process import Process
from ..request import Code
from ..stage import StageError, StageGone
from .asked import Run, told_of
from .calls import Calls
from .heard import Heard
from .open_requests import OpenRequests
from .program import ModelProgram
from .worker.triton_python_backend_utils.batches import Reading, Writing, execution, read_header
from .worker.triton_python_backend_utils.contents import Malformed
from .worker.triton_python_backend_utils.link import Answered, Link

_LOG: Final = logging.getLogger(__name__)
_END: Final = 0.5  # seconds in which a killed process has ended

Header = dict[str, Any]  # Any: JSON


class ModelProcess(Process):
    """One `execute` at a time; what it answers may come later. Who asks takes what is said until
    `execute` has returned, which saves a hop between threads; the thread that keeps the process
    takes what is said while nobody asks, of which the worker tells it (`late`)."""

    def __init__(self, program: ModelProgram, calls: Calls) -> None:
        self._late = os.eventfd(0, os.EFD_CLOEXEC)
        try:
            super().__init__(replace(program, late=self._late))
        except BaseException:
            os.close(self._late)
            raise
        self._model, self._keeper = program, threading.get_ident()
        self._talking = threading.Lock()  # whoever reads
        self._asking = self._draining = self._missed = self._watching = False
        self._link = Link(self._socket)
        self._writing, self._reading = Writing(), Reading()
        self._calls = calls
        self._lock = threading.Lock()
        self._open = OpenRequests()
        self._heard = Heard(program.model, self, calls, self._open)
        self._over = threading.Event()
        """Whether what is open is over, as the process is."""
        self._loading: Header | None = None
        self._lost: Exception | None = None

    def load(self) -> None:
        program, arguments = self._model, dict(self._model.arguments)
        named = {"model": program.model, "file": program.file}
        if program.completes:
            said = self._said({"do": "complete", "config": arguments["model_config"], **named})
            arguments["model_config"] = json.dumps(said["config"])
        self._said(
            {
                "do": "initialize",
                **named,
                "arguments": arguments,
                "outputs": self._calls.outputs,
                "decoupled": program.decoupled,
                "memory": program.memory,
            }
        )

    def complete(self) -> Header:
        """Return the configuration that the model completes; raises as `load` does."""
        program = self._model
        config = program.arguments["model_config"]
        order = {"do": "complete", "model": program.model, "file": program.file, "config": config}
        return self._said(order)["config"]

    def _said(self, order: Header) -> Header:
        """Give an order and return what it comes to; from the thread that keeps the process."""
        self._loading = None
        try:
            self._link.send(order)
            self._wait(self._socket.fileno())
        except OSError as error:
            self._lost = error
        said = self._loading
        if said is None:
            self.kill()
            self._wait(None)
            self._lose(self._lost or EOFError("the socket has ended"), ending.LOADED)
        if said["do"] == "failed":
            raise StageError(said["error"], detail=said["trace"])
        return said

    def call(self, arguments: Sequence[object], /) -> object:
        """Let the model `execute` a run, and return when it has; what it has not answered then, it
        answers later."""
        run = cast("Run", arguments[0])
        if run.over:  # it is run once more, by a worker that was started anew
            if run.asked:  # of a model that has answered it by itself
                return None
            run = Run(run.contexts, run.groups, run.sequences)
        chunks: list[Any] = []  # Any: bytes of tensors
        first = self._open.begin(run)
        for index, one in run.asked.items():
            one.responses.attend(partial(self._make_room, first + index))
        groups = self._writing.pack(run.groups, chunks)
        header = execution(first, told_of(run), groups)
        with self._lock:
            self._asking = True
        try:
            with self._talking:
                try:
                    self._link.send(header, chunks)
                except OSError as error:
                    self._open.drop(run)
                    raise NotAsked from error
                except ValueError as error:  # it is too large
                    self._writing.forget()
                    self._open.drop(run)
                    raise StageError(str(error)) from error
                self._listen_for(run)
        finally:
            with self._lock:
                self._asking, missed, self._missed = False, self._missed, False
            if missed:
                self._drain()
        if not run.over:
            self._over.wait()  # the thread that keeps the process says how that has ended
            if not run.over:  # it had said so before this run was open
                self._open.drop(run)
                raise NotAsked
        self.answers += 1
        return None

    def _listen_for(self, run: Run) -> None:
        """Take what is said until a run is over; raises StageGone when that takes too long."""
        limit = self._model.timeout
        due = None if limit is None else time.monotonic() + limit
        while not run.over:
            if due is not None and not self._says(due - time.monotonic()):
                self.kill()
                self.ended.wait(_END)
                gone = StageGone(Code.DEADLINE, ending.late(limit))
                self._open.fail(run, gone)
                raise gone
            if not self._listen():
                return

    def _says(self, seconds: float) -> bool:
        """Whether there is something to take, or the end, within so many seconds."""
        if self._link.has_read:
            return True
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return seconds >= 0 and bool(waiting.poll(seconds * 1000))

    def _drain(self) -> None:
        """Take all that has been said, unless who asks, or drains already, takes it."""
        while True:
            with self._lock:
                if self._asking or self._draining:
                    self._missed = True
                    return
                self._draining, self._missed = True, False
            with self._talking:  # which nobody holds for long who does not ask
                while self._says(0) and self._listen():
                    pass
            with self._lock:
                self._draining = False
                if not self._missed:
                    return

    def hear(self) -> bool:
        if self._watching:
            os.eventfd_read(self._late)
            self._drain()
            return self._lost is None
        while self._listen():
            if not self._link.has_read:
                return True
        return False

    def _listen(self) -> bool:
        """Take one message; False when what was ordered is done, or it has ended."""
        try:
            header, content, number = self._link.receive()
            if isinstance(header, bytes):
                self._executed(header, content)
                return True
            return self._take(header, content, number)
        except (EOFError, OSError):
            return self._lost_with(EOFError("the socket has ended"))
        except (Malformed, KeyError, TypeError, ValueError, AttributeError) as error:
            return self._lost_with(error)

    def _lost_with(self, error: Exception) -> bool:
        """Hear it no more, which has ended or does not keep to the rules."""
        self._lost = error
        if not isinstance(error, EOFError):
            _LOG.error("stage `%s`: what a worker says is wrong", self._model.stage, exc_info=error)
        elif threading.get_ident() == self._keeper:
            select.select([self._descriptor], [], [], _END)  # it ends, and says why
        else:
            self.ended.wait(_END)
        self.kill()
        return False

    def watch(self) -> None:
        self._watching = True
        self._wait(self._late)
        self._wait(None)
        message = ending.died(self._process.returncode, ending.RAN)
        last = "\n".join(shown(line) for line in self._printed[1].last.splitlines())
        self._open.fail_all(StageGone(Code.FAILED, message, last))
        self._over.set()
        self._calls.end(self)

    def close(self) -> None:
        super().close()
        self._link.close()
        os.close(self._late)

    def finish(self) -> None:
        try:
            self._link.send({"do": "finalize"})
        except OSError:
            self.kill()

    def answer(
        self,
        call: int,
        answer: Header | Answered,
        chunks: Sequence[Any] = (),  # Any: bytes of tensors
    ) -> None:
        """Answer what the worker has asked; nothing where it has gone."""
        header = {"do": "answer", **answer} if isinstance(answer, dict) else answer
        self._tell(header, chunks, call)

    @property
    def patient(self) -> bool:
        """Whether nothing else need be heard of it while it waits for an answer: no time limit."""
        return self._model.timeout is None and threading.get_ident() != self._keeper

    def lends(self, call: int) -> None:
        """Whoever waits is not here."""

    def contexts(self, number: int | None) -> list[Context]:
        """Return whose a request is that is not over, or those that the model is executing."""
        return self._open.contexts(number)

    def _make_room(self, number: int, count: int | None) -> None:
        self._tell({"do": "room", "count": count}, (), number)

    def _tell(self, header: Header | Answered, chunks: Sequence[Any], number: int) -> None:
        try:
            self._link.send(header, chunks, number)
        except OSError:  # it has gone, which whoever waits for it is told
            return

    def _take(self, header: Header, content: Any, number: int) -> bool:  # Any: bytes
        """Do what a message says; False when something that was ordered is done."""
        match header["do"]:
            case "done" | "failed":
                self._loading = header
                return False
            case _:
                self._heard.take(number, header, content)
        return True

    def _executed(self, header: bytes, content: Any) -> None:  # Any: bytes
        first, _, more, at = read_header(header)
        groups = self._reading.unpack(header, at, content)
        name = self._model.arguments["model_instance_name"]
        self._open.end(first, groups, more, name)
