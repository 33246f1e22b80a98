"""The requests of one sequence at a server, for a pipeline that keeps state between them."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..runtime.record import Record
from ..runtime.request import Code, Fault
from .calls import Promise, left
from .turns import Line, Turn
from .wire import Cancellation, Failed, late

if TYPE_CHECKING:
    from .pipeline import Call, RemotePipeline


class RemoteSequence:
    """Calls run in the order in which they are made, each when the one before was answered; the
    first begins with the initial state. They take what a pipeline's do.

    Leaving the `with` lets go of it; the server forgets it when it has been silent for the
    pipeline's `idle`, or at once after `last`.
    """

    def __init__(self, pipeline: "RemotePipeline", id: int | str) -> None:
        self.id = id
        self._pipeline = pipeline
        self._line = Line(id)

    def __call__(self, /, **said: Any) -> Record:  # Any: inputs and options
        """Answer, once earlier calls are done; raises Fault."""
        return self._run(self._pipeline.call_of(said), self._line.take(), None)

    def last(self, /, **said: Any) -> Record:  # Any: as in a call
        """Answer as a call, for the last time: then nothing is kept, and the next begins anew."""
        return self._run(self._pipeline.call_of(said), self._line.take(last=True), None)

    def submit(self, /, **said: Any) -> "Promise[Record]":  # Any: as in a call
        """Answer in another thread, once earlier calls are done. One whose time is up is told so
        when its turn has come."""
        call = self._pipeline.call_of(said)
        promise, turn = Promise[Record](), self._line.take()

        def work() -> None:
            promise.keep(lambda: self._run(call, turn, promise.cancellation))
            turn.end(failed=True)  # of one that was cancelled before; nothing of others

        def begin() -> None:
            try:
                self._pipeline.threads.start(work)
            except Fault as fault:  # the client was closed
                promise.refuse(fault)
                turn.end(failed=True)

        turn.then(begin)
        return promise

    async def aio(self, /, **said: Any) -> Record:  # Any: as in a call
        """As `submit`, awaited; cancelling the awaiting task cancels the request."""
        return await asyncio.wrap_future(self.submit(**said))

    def stream(self, /, **said: Any) -> Iterator[Record]:  # Any: as in a call
        """Answer with one record for each `emit`. Its turn is from the first that is asked for to
        the end; what is left earlier changes no state."""
        call = self._pipeline.call_of(said, stream=True)
        return self._records(call, Cancellation())

    def aio_stream(self, /, **said: Any) -> AsyncGenerator[Record]:  # Any: as in a call
        """As `stream`, for `async for`."""
        call = self._pipeline.call_of(said, stream=True)
        cancellation = Cancellation()
        records = self._records(call, cancellation)
        return self._pipeline.threads.read(records, cancellation)

    def restart(self) -> None:
        """Let the next call begin with the initial state."""
        self._line.restart()

    end = restart

    def __enter__(self) -> "RemoteSequence":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _run(self, call: "Call", turn: Turn, cancellation: Cancellation | None) -> Record:
        with self._in_turn(call, turn):
            return self._pipeline.answer(call.of(turn.point), cancellation)

    def _records(self, call: "Call", cancellation: Cancellation) -> Iterator[Record]:
        turn = self._line.take()
        with self._in_turn(call, turn):
            yield from self._pipeline.records(call.of(turn.point), cancellation)

    @contextmanager
    def _in_turn(self, call: "Call", turn: Turn) -> Generator[None]:
        failed = True
        try:
            address, timing = self._pipeline.address, self._pipeline.timing
            if not turn.wait(left(address, call.due, timing)):
                raise late(address).fault
            if turn.life.over and not turn.point.start:
                raise self._not_begun()
            yield
            failed = False
        except Failed as error:
            raise error.fault from None
        finally:
            turn.end(failed=failed)

    def _not_begun(self) -> Fault:
        return Fault(
            Code.INVALID,
            f"nothing is kept of sequence {self.id!a}: it was not started, has ended, or was "
            f"silent for {self._pipeline.plan.idle:g} s; `restart()` lets its next call begin it "
            "anew, as does another `sequence()`",
            pipeline=self._pipeline.__name__,
        )
