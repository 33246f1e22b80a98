"""A pipeline of a server, called as one that is loaded here."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ..asked import (
    OPTIONS,
    names_of,
    request_id,
    request_parameters,
    request_priority,
    request_timeout,
    sequence_id,
)
from ..compiler.plan import PipelinePlan
from ..runtime.accept import require_results
from ..runtime.protocols.ext.sequence import named
from ..runtime.protocols.inputs import Given
from ..runtime.record import Record
from ..runtime.request import Code, Fault, InSequence, RequestError
from ..runtime.streams import require_stream
from .calls import attempted
from .known import Known
from .retry import Budget, Timing
from .sequence import RemoteSequence
from .threads import Threads
from .wire import Asked, Cancellation, Failed, Model, Wire, reading

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Link:
    """What the pipelines of a client share: how they ask, what they may, in which threads."""

    wire: Wire
    budget: Budget
    timing: Timing
    threads: Threads
    timeout: float | None


@dataclass(frozen=True, slots=True)
class Call:
    """One call, checked: what is asked, of how many rows, the results that are wanted, and until
    when."""

    known: Known
    asked: Asked
    rows: int
    wanted: tuple[str, ...]
    due: float | None

    def of(self, point: InSequence) -> "Call":
        """Return the call as one of a sequence."""
        parameters = {**self.asked.parameters, **named(point)}
        return replace(self, asked=replace(self.asked, parameters=parameters))


class RemotePipeline:
    """One pipeline as a function of its inputs.

    Every way to call takes the inputs by name, and the options of an embedded call: `timeout` in
    seconds, `outputs`, `priority`, `parameters` and `id`. An input that has the name of an option
    is the input.
    """

    def __init__(self, link: Link, model: Model) -> None:
        """Ask the server what the pipeline takes and gives; raises Fault."""
        self.__name__, self._link, self._model = model.name, link, model
        self.address, self.timing, self.threads = link.wire.address, link.timing, link.threads
        self._known = self._learned()
        self._outdated = False
        self.__doc__ = self.signature

    @property
    def plan(self) -> PipelinePlan:
        """What it takes and gives; its body is empty."""
        return self._known.plan

    @property
    def signature(self) -> str:
        return self._known.signature

    @property
    def served(self) -> str:
        """The version that the server has told of; empty where it does not tell."""
        return self._known.served

    def __call__(self, /, **said: Any) -> Record:  # Any: inputs and options
        """Ask the server; raises Fault, and RequestError when the inputs do not fit."""
        return self.answer(self.call_of(said), None)

    def submit(self, /, **said: Any) -> "Future[Record]":  # Any: as in a call
        """Ask in another thread. Raises at once what is known at once; cancelling the future
        cancels the request, at the server too."""
        call = self.call_of(said)
        return self.threads.submit(lambda cancellation: self.answer(call, cancellation))

    async def aio(self, /, **said: Any) -> Record:  # Any: as in a call
        """As `submit`, awaited; cancelling the awaiting task cancels the request."""
        return await asyncio.wrap_future(self.submit(**said))

    def stream(self, /, **said: Any) -> Iterator[Record]:  # Any: as in a call
        """Ask for one record for each `emit`, as they come. To stop early is to stop asking: when
        the iterator is closed, or collected, what is left is cancelled."""
        return self.records(self.call_of(said, stream=True), Cancellation())

    def aio_stream(self, /, **said: Any) -> AsyncGenerator[Record]:  # Any: as in a call
        """As `stream`, for `async for`."""
        call, cancellation = self.call_of(said, stream=True), Cancellation()
        return self.threads.read(self.records(call, cancellation), cancellation)

    def sequence(self, id: int | str | None = None) -> RemoteSequence:
        """Return a new sequence of requests; raises RequestError where nothing is kept for one.

        `id` is its name, None for one that no other sequence has.
        """
        plan = self.plan
        if plan.idle is None:
            raise RequestError(
                f"`{self.__name__}` keeps nothing from one request to the next: it is not "
                "`per sequence`",
                pipeline=self.__name__,
            )
        numbered = any(one.name == "number" for one in plan.controls)
        return RemoteSequence(self, sequence_id(id, numbered))

    def version(self, number: int | str) -> "RemotePipeline":
        """Return the pipeline in one version of those that are served."""
        return RemotePipeline(self._link, Model(self.__name__, str(number)))

    def call_of(self, said: dict[str, Any], *, stream: bool = False) -> Call:  # Any: as in a call
        """Return a call, checked as the engine would."""
        if self._outdated:
            self._known, self._outdated = self._learned(), False
        known = self._known
        plan, own = known.plan, known.own
        options = {one: said.pop(one, None) for one in OPTIONS if one not in own}
        if options.get("trace"):
            raise Fault(
                Code.UNSUPPORTED,
                "a trace is of a plan that is loaded here; a server records with --trace-file",
                pipeline=self.__name__,
            )
        if stream:
            require_stream(self.__name__, plan.stream)
        outputs = options.get("outputs")
        wanted = None if outputs is None else names_of(outputs)
        if wanted is not None:
            require_results(plan, wanted)
        timeout = options.get("timeout")
        seconds = self._link.timeout if timeout is None else request_timeout(timeout)
        parameters = dict(request_parameters(options.get("parameters")))
        if priority := request_priority(options.get("priority")):
            parameters["priority"] = priority
        tensors, rows = known.remote.tensors(said)
        asked = Asked(
            self._model,
            tensors,
            None if plan.stream else wanted,
            parameters,
            request_id(options.get("id")),
        )
        due = None if seconds is None else self.timing.now() + seconds
        return Call(known, asked, rows, known.names if wanted is None else wanted, due)

    def answer(self, call: Call, cancellation: Cancellation | None) -> Record:
        """Return the answer; all of a stream together."""
        known = call.known
        if known.plan.stream:
            ended = cancellation or Cancellation()
            found = [*self.records(call, ended)]
            whole = {name: [one[i] for one in found] for i, name in enumerate(known.names)}
            return known.record(call.wanted, whole)
        wire = self._link.wire
        with self._doubting():
            tensors = self._attempted(
                lambda seconds: wire.infer(call.asked, seconds, cancellation),
                call.due,
                cancellation,
            )
            return known.answer(call.wanted, tensors, call.rows)

    def records(self, call: Call, cancellation: Cancellation) -> Iterator[Record]:
        """Return the records of a stream, which begins when the first is asked for."""
        wire, known = self._link.wire, call.known
        try:
            with self._doubting():
                first, rest = self._attempted(
                    lambda seconds: _begun(wire.stream(call.asked, seconds, cancellation)),
                    call.due,
                    cancellation,
                )
                if first is None:
                    return
                yield known.answer(call.wanted, first, call.rows)
                for tensors in rest:
                    yield known.answer(call.wanted, tensors, call.rows)
        except Failed as failed:
            raise failed.fault from None
        finally:
            cancellation.cancel()

    @contextmanager
    def _doubting(self) -> Generator[None]:
        """Ask anew before the next call when the server refuses what has been checked, or answers
        what was not expected: it may serve another version by now."""
        try:
            yield
        except Fault as fault:
            self._outdated |= isinstance(fault, RequestError) or fault.code is Code.UNSUPPORTED
            raise

    def _learned(self) -> Known:
        link = self._link
        due = None if link.timeout is None else link.timing.now() + link.timeout
        config = self._attempted(lambda left: link.wire.config(self._model, left), due, None)
        with reading(self.address, f"the configuration of `{self.__name__}`"):
            return Known(self.__name__, config)

    def _attempted(
        self,
        attempt: Callable[[float | None], Result],
        due: float | None,
        cancellation: Cancellation | None,
    ) -> Result:
        return attempted(attempt, self.address, self._link.budget, self.timing, due, cancellation)

    def __repr__(self) -> str:
        return f"<pipeline {self.signature} of {self.address}>"


def _begun(
    responses: "Iterator[list[Given[bytes]]]",
) -> "tuple[list[Given[bytes]] | None, Iterator[list[Given[bytes]]]]":
    """Return the first response of a stream, and the rest."""
    return next(responses, None), responses
