"""A worker that serves one function: loading it, calling it."""

import select
import time
from collections.abc import Sequence
from typing import Final

from ..stage import StageError
from . import ending
from .channel import BROKEN, Channel, NotAsked, WorkerError
from .frame import Kind
from .message import Message
from .process import Process
from .program import Program

_EXITS: Final = 0.25  # seconds in which one whose socket has ended does so too, and says why
_END: Final = 0.5  # seconds in which a killed process has ended


class FunctionProcess(Process):
    """One call at a time, of any thread."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self._function = program
        self._channel = Channel(self._socket)

    def load(self) -> None:
        """Let it load its source; raises StageError where that fails, StageGone when it ends."""
        program = self._function
        values = (
            program.source,
            program.digest,
            program.file,
            program.attribute,
            program.made,
            program.device,
            program.memory,
            program.told,
        )
        try:
            reply = self._channel.ask(Kind.LOAD, Message(values))
            self._wait(self._socket.fileno())
            self._channel.answer(reply, None)
        except WorkerError as error:
            raise StageError(str(error)) from error.__cause__
        except (*BROKEN, NotAsked) as error:
            if not self.ended.is_set():
                select.select([self._descriptor], [], [], _EXITS)
            self.kill()
            self._wait(None)
            self._lose(error, ending.LOADED)

    def call(self, arguments: Sequence[object]) -> object:
        """Return what the function returns; what it raises is raised as a WorkerError.

        Raises NotAsked when it has ended before, StageGone when it ends meanwhile. After any other
        exception it has been killed.
        """
        message = self._channel.message(arguments)
        limit = self._function.timeout
        due = None if limit is None else time.monotonic() + limit
        try:
            answer = self._channel.answer(self._channel.ask(Kind.CALL, message), due)
            self.answers += 1
            return answer
        except WorkerError as error:
            self.answers += 1
            # without our part of its traceback, which holds memory
            raise error.with_traceback(None) from error.__cause__
        except BROKEN as error:
            if not isinstance(error, TimeoutError):
                self.ended.wait(_EXITS)
            self.kill()
            self.ended.wait(_END)
            self._lose(error, ending.RAN)
        except BaseException:
            self.kill()  # it had ended, or is at work on what nobody waits for
            raise

    def close(self) -> None:
        super().close()
        self._channel.close()
