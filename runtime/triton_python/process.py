"""A worker that has loaded a model: what it is asked, and what it says, at any time."""

import itertools
import json
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast

from ..isolation import ending
from ..isolation.channel import NotAsked
from ..isolation.output import shown
from ..isolation.process import Process
from ..request import Code
from ..stage import StageError, StageGone
from .asked import CODES, Asked, Run
from .calls import Calls
from .program import ModelProgram
from .worker.triton_python_backend_utils.link import Link, Malformed, Unpacking, pack

_LOG: Final = logging.getLogger(__name__)
_END: Final = 0.5  # seconds in which a killed process has ended
_LEVELS: Final = (logging.INFO, logging.WARNING, logging.ERROR, logging.DEBUG)

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
        self._calls = calls
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._open: dict[int, Asked] = {}
        self._run: tuple[int, Run] | None = None
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
        header, chunks = self._order(run)
        with self._lock:
            self._asking = True
        try:
            with self._talking:
                try:
                    self._link.send(header, chunks)
                except OSError as error:
                    self._close(run, None)
                    raise NotAsked from error
                self._listen_for(run)
        finally:
            with self._lock:
                self._asking, missed, self._missed = False, self._missed, False
            if missed:
                self._drain()
        run.done.wait()  # it is done, or the thread that keeps the process says how that has ended
        self.answers += 1
        return None

    def _listen_for(self, run: Run) -> None:
        """Take what is said until a run is done; raises StageGone when that takes too long."""
        limit = self._model.timeout
        due = None if limit is None else time.monotonic() + limit
        while not run.done.is_set():
            if due is not None and not _readable(self._socket, due - time.monotonic()):
                self.kill()
                self.ended.wait(_END)
                gone = StageGone(Code.DEADLINE, ending.late(limit))
                self._close(run, gone)
                raise gone
            if not self._listen():
                return

    def _drain(self) -> None:
        """Take all that has been said, unless who asks, or drains already, takes it."""
        while True:
            with self._lock:
                if self._asking or self._draining:
                    self._missed = True
                    return
                self._draining, self._missed = True, False
            with self._talking:  # which nobody holds for long who does not ask
                while _readable(self._socket, 0) and self._listen():
                    pass
            with self._lock:
                self._draining = False
                if not self._missed:
                    return

    def _order(self, run: Run) -> tuple[Header, list[Any]]:  # Any: bytes of tensors
        chunks: list[Any] = []
        outputs = self._calls.outputs
        with self._lock:
            number = next(self._numbers)
            self._run = number, run
            for one in run.requests:
                one.number, one.again = next(self._numbers), False
                self._open[one.number] = one
        requests = [
            {**told(one), "outputs": outputs, "inputs": pack(one.inputs, chunks)}
            for one in run.requests
        ]
        return {"do": "execute", "batch": number, "requests": requests}, chunks

    def hear(self) -> bool:
        if not self._watching:
            return self._listen()
        os.eventfd_read(self._late)
        self._drain()
        return self._lost is None

    def _listen(self) -> bool:
        """Take one message; False when what was ordered is done, or it has ended."""
        try:
            header, content = self._link.receive()
            return self._take(header, Unpacking(content))
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
        gone = StageGone(Code.FAILED, message, last)
        with self._lock:
            left, self._open = list(self._open.values()), {}
            run, self._run = self._run, None
        for one in left:
            one.responses.end(gone)
        if run is not None:
            run[1].error = gone
            run[1].done.set()
        self._calls.end(self)

    def close(self) -> None:
        super().close()
        os.close(self._late)

    def finish(self) -> None:
        try:
            self._link.send({"do": "finalize"})
        except OSError:
            self.kill()

    def answer(self, call: int, header: Header, chunks: Sequence[Any] = ()) -> None:
        """Answer what the worker has asked; nothing where it has gone. Any: bytes of tensors."""
        try:
            self._link.send({"do": "answer", "call": call, **header}, chunks)
        except OSError:
            return

    def asked(self, number: int | None) -> list[Asked]:
        """Return a request that is not over, or those that the model is executing."""
        with self._lock:
            if number is not None and number in self._open:
                return [self._open[number]]
            return list(self._run[1].requests) if self._run is not None else []

    def _take(self, header: Header, unpacking: Unpacking) -> bool:
        """Do what a message says; False when something that was ordered is done."""
        match header["do"]:
            case "done" | "failed":
                self._loading = header
                return False
            case "executed":
                self._executed(header, unpacking)
            case "response":
                with self._lock:
                    one = self._open.get(header["request"])
                if one is not None:
                    self._respond(one, header, unpacking, final=bool(header["final"]))
            case "log":
                level = _LEVELS[header["level"]]
                if _LOG.isEnabledFor(level):
                    _LOG.log(level, "%s: %s", self._model.model, ascii(header["text"])[1:-1])
            case "cancelled":
                found = self.asked(header["request"])
                open = self._open.get(header["request"])
                gone = found[0].context.cancelled if open is not None else False
                self.answer(header["call"], {"cancelled": gone})
            case _:
                self._calls.take(self, header, unpacking)
        return True

    def _executed(self, header: Header, unpacking: Unpacking) -> None:
        with self._lock:
            if self._run is None or self._run[0] != header["batch"]:
                raise Malformed("a batch that was not asked for")
            run, self._run = self._run[1], None
        if "error" in header:
            name = self._model.arguments["model_instance_name"]
            text = f"Failed to process the request(s) for model '{name}', message: "
            self._close(run, StageError(text + header["error"], detail=header["trace"]))
        else:
            again = set(header["again"])
            for index, (one, said) in enumerate(
                zip(run.requests, header["responses"], strict=True)
            ):
                if said is not None:
                    self._respond(one, said, unpacking, final=True)
                elif index in again:
                    self._forget(one)
                    one.again = True
        run.done.set()

    def _respond(self, one: Asked, said: Header, unpacking: Unpacking, *, final: bool) -> None:
        if "error" in said:
            message, code = said["error"]
            kind = CODES.get(code, Code.FAILED)
            error = StageError(str(message), code=kind, detail="the model has answered so")
            one.responses.end(error)
        elif said["outputs"] is not None:
            found = unpacking.tensors(said["outputs"])
            one.responses.put({name: (kind, values) for name, kind, values in found})
        if final:
            one.responses.end()
        if final or "error" in said:
            self._forget(one)

    def _forget(self, one: Asked) -> None:
        with self._lock:
            self._open.pop(one.number, None)

    def _close(self, run: Run, error: StageError | StageGone | None) -> None:
        """End all requests of a run."""
        with self._lock:
            if self._run is not None and self._run[1] is run:
                self._run = None
            for one in run.requests:
                self._open.pop(one.number, None)
        if error is None:  # it is going to be run again, elsewhere
            return
        for one in run.requests:
            one.responses.end(error)
        run.error = error
        run.done.set()


def _readable(end: socket.socket, seconds: float) -> bool:
    """Whether there is something to read, or the end, within so many seconds."""
    waiting = select.poll()
    waiting.register(end, select.POLLIN)
    return seconds >= 0 and bool(waiting.poll(seconds * 1000))


def told(one: Asked) -> Header:
    """Return what a model is told of a request."""
    context, sequence = one.context, one.sequence or one.context.sequence
    left = context.remaining()
    flags = 0 if sequence is None else sequence.start | sequence.end << 1
    parameters = dict(context.parameters)
    trace = {name: parameters[name] for name in ("traceparent",) if name in parameters}
    return {
        "id": context.id,
        "number": one.number,
        "correlation": 0 if sequence is None else sequence.id,
        "flags": flags,
        "timeout": 0 if left is None else max(1, round(left * 1e6)),
        "priority": context.priority,
        "parameters": json.dumps(parameters) if parameters else "",
        "trace": json.dumps(trace) if trace else "",
    }
