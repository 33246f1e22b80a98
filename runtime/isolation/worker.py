"""What runs in a worker process: it serves one function, one call at a time, until it is told to
end or the engine has gone."""

import ctypes
import faulthandler
import gc
import io
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from hashlib import sha256
from typing import Final, cast

from ...compiler.plan import Place, PythonSegment
from ...dsl.types import Signature
from ..backends.python import Sources
from ..context import unpacking
from ..python_model import Instances
from ..python_stage import said
from ..stage import StageError
from .frame import Frame, FrameError, Kind, receive_with_descriptor, send
from .haste import Haste
from .memory import Arena, Loan
from .message import Forms, Message
from .reading import Known, read

_PR_SET_PDEATHSIG: Final = 1
_TRACE: Final = 40_000  # characters of a traceback
_WORTH_COLLECTING: Final = 1 << 24


def main(descriptor: int, parent: int) -> None:
    """Serve the engine at the other end of a socket, which is in process `parent`."""
    _die_with(parent)
    os.set_inheritable(descriptor, False)
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what is printed is told before a crash
    # a crash is told when the process has gone; writing out its memory first would take long
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with socket.socket(fileno=descriptor) as engine:
        _Worker(engine).serve()


def _die_with(parent: int) -> None:
    """Let the system kill this process when the thread that started it ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it has gone before that held
        os._exit(1)


class _Worker:
    def __init__(self, engine: socket.socket) -> None:
        self._engine, self._haste = engine, Haste(engine)
        self._memory: dict[int, Arena] = {}
        self._function: Callable[..., object] = self._load
        self._close: Callable[[], None] = _nothing
        self._limit: int | None = None
        self._forms: Forms = {}
        self._known: Known = {}

    def serve(self) -> None:
        while True:
            self._haste.look()
            frame, descriptor = receive_with_descriptor(self._engine)
            self._haste.found()
            if frame is None:
                return
            match frame.kind:
                case Kind.LOAD | Kind.CALL:
                    self._answer(frame)
                case Kind.ARENA:
                    self._take(frame, descriptor)
                case Kind.FORGET:
                    self._memory.pop(frame.arena, None)
                case Kind.CLOSE:
                    self._close()
                    return
                case _:
                    raise FrameError(f"{frame} is not for a worker")

    def _take(self, frame: Frame, descriptor: int | None) -> None:
        if descriptor is None:
            raise FrameError(f"{frame} comes without its memory")
        try:
            arena = Arena(frame.arena, descriptor, frame.size, writable=frame.reply == 1)
        finally:
            os.close(descriptor)
        self._memory[frame.arena] = arena

    def _answer(self, frame: Frame) -> None:
        given = self._memory[frame.arena]
        loan = given.lend()
        kind, message = self._run(frame, loan)
        reply = self._memory[frame.reply]
        if message.size > reply.size:
            reply = self._grown(frame, message.size)
        message.write(reply.view)
        tree, size = message.tree, message.size
        del message  # it may hold parts of what was given
        kept = not loan.end()
        if kept and given.size >= _WORTH_COLLECTING:
            gc.collect()  # a cycle may be all that keeps it
            kept = not loan.end()
        send(self._engine, Frame(kind, frame.call, reply.number, int(kept), tree, size))

    def _run(self, frame: Frame, loan: Loan) -> tuple[Kind, Message]:
        try:
            values = read(
                loan.bytes,
                frame.tree,
                frame.size,
                borrow=True,
                writable=False,
                known=self._known,
            )
            return Kind.RESULT, Message([self._function(*values)], self._forms)
        except BaseException as error:  # whatever it is, the engine is told, and the worker goes on
            return Kind.RAISED, Message(self._raised(error))

    def _raised(self, error: BaseException) -> list[object]:
        """Return the name of an exception's type, its text and its traceback."""
        name = type(error).__name__
        text = said(error).removeprefix(name).removeprefix(": ")
        if isinstance(error, StageError):
            text, error = error.message, error.__cause__ or error
        if isinstance(error, MemoryError) and self._limit is not None:
            text += f" (`isolate` gives it {self._limit} bytes of memory)"
        trace = error.__traceback__
        if trace is not None and trace.tb_frame.f_code is self._run.__code__:
            error = error.with_traceback(trace.tb_next)
        shown = "".join(traceback.format_exception(error))
        return [name, text, shown.encode("utf-8", "backslashreplace").decode()[-_TRACE:]]

    def _grown(self, frame: Frame, size: int) -> Arena:
        """Return memory for an answer that is larger than what there is for it."""
        send(self._engine, Frame(Kind.GROW, frame.call, size=size))
        found, descriptor = receive_with_descriptor(self._engine)
        if found is None or found.kind is not Kind.ARENA:
            raise FrameError(f"{found} in place of memory")
        self._take(found, descriptor)
        return self._memory[found.arena]

    def _load(self, *values: object) -> None:
        """Take over the function or class to serve."""
        source, digest, file, attribute, made, device, limit, told = cast(
            "tuple[bytes, str, str, str, bool, str, int | None, bool]", values
        )
        if sha256(source).hexdigest() != digest:
            raise FrameError(f"the source of {file} is not what it is said to be")
        self._limit = limit
        if limit is not None:
            # what it takes itself; tensors that pass are in shared memory, which is not counted
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        segment = PythonSegment(
            attribute,
            digest,
            file,
            attribute,
            Signature((), ()),
            False,
            None,
            None,
            (),
            Place(file, 1, 1, ""),
            instances=1 if made else None,
        )
        function = Sources().function(segment, source)
        if made:
            instances = Instances(function, attribute, device, 1)
            self._function, self._close = instances, instances.close
        else:
            self._function = function
        if told:
            self._function = unpacking(self._function)


def _nothing() -> None:
    """Close what needs no closing."""
