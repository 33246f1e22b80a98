"""The engine's side of one worker process: starting it, asking it, seeing it end.

One thread keeps a process: it has made it, and is in `load` or `watch` until it has ended. Whoever
asks it may be any thread, one at a time. All waits are for the process, its pipes or its socket.
"""

import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

from ..request import Code
from ..stage import StageGone
from . import ending
from .channel import NotAsked
from .frame import Frame, Kind, send
from .output import Printed, shown
from .program import Runs

_LOG: Final = logging.getLogger(__name__)

_DRAINED: Final = 64  # reads of what a dead process has left in its pipes
_READ: Final = 1 << 16


class Process:
    """A worker, and how many `answers` it has given. `ended` is set once it has ended and nothing
    is left of it; one that is `killed` is about to."""

    def __init__(self, program: Runs) -> None:
        """Start the interpreter, from the thread that is going to keep it; raises OSError."""
        self._program = program
        self._printed = Printed(), Printed()
        self._killing = threading.Lock()
        self.killed, self.ended = False, threading.Event()
        self.answers = 0
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = program.start(theirs.fileno())
            except BaseException:
                self._socket.close()
                raise
        self._descriptor = os.pidfd_open(self._process.pid)

    @property
    def number(self) -> int:
        """The system's number of the process."""
        return self._process.pid

    def load(self) -> None:
        """Let it load what it serves; raises StageError where that fails, StageGone when it
        ends."""
        raise NotImplementedError

    def call(self, arguments: Sequence[object], /) -> object:
        """Return what it answers. Raises NotAsked when it has ended before, StageGone when it ends
        meanwhile."""
        raise NotImplementedError

    def hear(self) -> bool:
        """Take a message that has come; False when no more is wanted for now."""
        return False

    def watch(self) -> None:
        """Return when it has ended; until then log what it prints."""
        self._wait(None)

    def kill(self) -> None:
        """End it at once, unless it has ended."""
        with self._killing:
            self.killed = True
            if not self.ended.is_set():
                with suppress(ProcessLookupError):  # it is being reaped
                    signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def finish(self) -> None:
        """Let it close what it serves and end; nobody is asking it."""
        try:
            send(self._socket, Frame(Kind.CLOSE))
        except OSError:
            self.kill()  # it has gone, or is about to

    def close(self) -> None:
        """Give back what belongs to a process that has ended and that nobody is asking."""
        self._socket.close()

    def _wait(self, hears: int | None) -> None:
        """Log what it prints until it has ended, or what it says by a descriptor, which `hear` is
        called for, is heard no more."""
        if self.ended.is_set():
            return
        process, waiting = self._process, select.poll()
        pipes = {one.fileno(): i for i, one in enumerate((process.stdout, process.stderr)) if one}
        for descriptor in (*pipes, self._descriptor):
            waiting.register(descriptor, select.POLLIN)
        if hears is not None:
            waiting.register(hears, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            for descriptor in ready & pipes.keys():
                content = os.read(descriptor, _READ)
                self._log(pipes[descriptor], content)
                if not content:
                    waiting.unregister(descriptor)
                    del pipes[descriptor]
            if hears in ready and not self.hear():
                return
            if self._descriptor in ready:
                self._reap(pipes)
                return

    def _reap(self, pipes: dict[int, int]) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # what it has started and left
        for descriptor, number in pipes.items():
            os.set_blocking(descriptor, False)
            with suppress(BlockingIOError):  # one that it has left may hold it open
                for _ in range(_DRAINED):
                    content = os.read(descriptor, _READ)
                    self._log(number, content)
                    if not content:
                        break
        self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        with self._killing:
            self.ended.set()
            os.close(self._descriptor)
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # as above, and someone may be reading

    def _log(self, number: int, content: bytes) -> None:
        level = logging.WARNING if number else logging.INFO
        for line in self._printed[number].take(content, time.monotonic()):
            _LOG.log(level, "stage `%s`, worker %d: %s", self._program.stage, self.number, line)

    def _lose(self, error: Exception, doing: str) -> NoReturn:
        """Say how it has ended; it is known to have, or to be about to."""
        error = error.with_traceback(None)  # which holds memory, as long as the fault is kept
        last = "\n".join(shown(line) for line in self._printed[1].last.splitlines())
        detail = f"{type(error).__name__}: {error}\n{last}"
        if isinstance(error, TimeoutError):
            raise StageGone(Code.DEADLINE, ending.late(self._program.timeout), detail) from error
        if isinstance(error, EOFError | OSError | NotAsked):
            message = ending.died(self._process.returncode, doing)
        else:
            message = ending.wrong(doing)
        raise StageGone(Code.FAILED, message, detail) from error
