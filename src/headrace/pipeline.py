"""One pipeline as a function: called here, submitted, awaited, streamed, in sequences."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import Future
from typing import Any, Literal, overload

from .asked import sequence_id
from .asking import Asking
from .bound import Traced
from .runtime.observe.trace import Trace
from .runtime.record import Record
from .runtime.request import EngineClosed, RequestError
from .sequence import Sequence


class Pipeline(Asking):
    """One pipeline as a function of its inputs."""

    @overload
    def __call__(
        self,
        /,
        *,
        trace: Literal[True],
        timeout: Any = None,  # Any: an input of that name may be of any type
        outputs: Any = None,  # Any: likewise
        **inputs: Any,  # Any: values that the signature checks
    ) -> Traced: ...
    @overload
    def __call__(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as above
        outputs: Any = None,  # Any: likewise
        trace: Literal[False] | None = None,
        **inputs: Any,  # Any: likewise
    ) -> Record: ...
    @overload
    def __call__(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as above
        outputs: Any = None,  # Any: likewise
        trace: Any,  # Any: an input of that name
        **inputs: Any,  # Any: likewise
    ) -> Any: ...  # Any: as above
    def __call__(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as above
        outputs: Any = None,  # Any: likewise
        trace: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        parameters: Any = None,  # Any: likewise
        id: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> Record | Traced:
        """Answer in this thread; raises Fault, and RequestError when the inputs do not fit.

        `timeout` in seconds from now; `outputs` names the results that are wanted, so that what
        feeds only others does not run. `id`, `parameters` and `priority` are told to Python stages
        that ask for the `Context` of their request. With `trace` True the answer is a pair, of it
        and of a Trace with every value and its times; a Fault has it too. An input that has the
        name of an option is the input.
        """
        if (
            timeout is None
            and outputs is None
            and trace is None
            and priority is None
            and parameters is None
            and id is None
        ):
            bound = self._bound
            try:
                return bound.record(bound.engine.run(bound.prepared, inputs).values())
            except EngineClosed:
                if bound is self._bound:
                    raise
        request = self.told(inputs, parameters, id)
        return self.call_in(None, inputs, timeout, outputs, trace, priority, request)

    @overload
    def submit(
        self,
        /,
        *,
        trace: Literal[True],
        timeout: Any = None,  # Any: as in a call
        outputs: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> "Future[Traced]": ...
    @overload
    def submit(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        outputs: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        trace: Literal[False] | None = None,
        **inputs: Any,  # Any: likewise
    ) -> "Future[Record]": ...
    @overload
    def submit(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        outputs: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        trace: Any,  # Any: an input of that name
        **inputs: Any,  # Any: likewise
    ) -> Any: ...  # Any: as above
    def submit(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        outputs: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        trace: Any = None,  # Any: likewise
        parameters: Any = None,  # Any: likewise
        id: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> "Future[Any]":  # Any: a Record, or with `trace` a pair of it and a Trace
        """Answer in a worker thread; rows of different requests meet where the schedule says so.

        `priority` 1 is the highest and the default. Raises at once what a call would raise before
        it runs, and Fault OVERLOADED when too many wait.
        """
        if timeout is outputs is priority is trace is parameters is id is None:
            bound = self._bound
            try:
                engine = bound.loaded.workers()
                return engine.dispatch(bound.ready(engine, None), inputs, bound.make_whole)
            except EngineClosed:
                if bound is self._bound:
                    raise
        request = self.told(inputs, parameters, id)
        return self.submit_in(None, inputs, timeout, outputs, priority, trace, request)

    @overload
    async def aio(
        self,
        /,
        *,
        trace: Literal[True],
        timeout: Any = None,  # Any: as in a call
        outputs: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> Traced: ...
    @overload
    async def aio(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        outputs: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        trace: Literal[False] | None = None,
        **inputs: Any,  # Any: likewise
    ) -> Record: ...
    @overload
    async def aio(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        outputs: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        trace: Any,  # Any: an input of that name
        **inputs: Any,  # Any: likewise
    ) -> Any: ...  # Any: as above
    async def aio(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        outputs: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        trace: Any = None,  # Any: likewise
        parameters: Any = None,  # Any: likewise
        id: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> Record | Traced:
        """As `submit`, awaited; cancelling the awaiting task cancels the request."""
        request = self.told(inputs, parameters, id)
        pending = self.submit_in(None, inputs, timeout, outputs, priority, trace, request)
        return await asyncio.wrap_future(pending)

    @overload
    def stream(
        self,
        /,
        *,
        trace: Literal[True],
        timeout: Any = None,  # Any: as in a call
        **inputs: Any,  # Any: likewise
    ) -> tuple[Iterator[Record], Trace]: ...
    @overload
    def stream(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        trace: Literal[False] | None = None,
        **inputs: Any,  # Any: likewise
    ) -> Iterator[Record]: ...
    @overload
    def stream(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        trace: Any,  # Any: an input of that name
        **inputs: Any,  # Any: likewise
    ) -> Any: ...  # Any: as above
    def stream(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        trace: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        parameters: Any = None,  # Any: likewise
        id: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> Iterator[Record] | tuple[Iterator[Record], Trace]:
        """Answer in this thread, with one record for each `emit`, made when it is asked for.

        Raises RequestError at once, and Fault where it happens. To stop early is to stop asking.
        With `trace` True it is a pair, of the records and of a Trace that grows as they are read.
        """
        recording = self.recording(inputs, trace)
        request = self.told(inputs, parameters, id)
        records = self.stream_in(None, inputs, timeout, recording, priority, request)
        return records if recording is None else (records, Trace(recording))

    @overload
    def aio_stream(
        self,
        /,
        *,
        trace: Literal[True],
        timeout: Any = None,  # Any: as in a call
        priority: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> tuple[AsyncGenerator[Record], Trace]: ...
    @overload
    def aio_stream(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        priority: Any = None,  # Any: likewise
        trace: Literal[False] | None = None,
        **inputs: Any,  # Any: likewise
    ) -> AsyncGenerator[Record]: ...
    @overload
    def aio_stream(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        priority: Any = None,  # Any: likewise
        trace: Any,  # Any: an input of that name
        **inputs: Any,  # Any: likewise
    ) -> Any: ...  # Any: as above
    def aio_stream(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        priority: Any = None,  # Any: likewise
        trace: Any = None,  # Any: likewise
        parameters: Any = None,  # Any: likewise
        id: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> AsyncGenerator[Record] | tuple[AsyncGenerator[Record], Trace]:
        """As `stream`, in worker threads, for `async for`.

        Few records wait for a reader that is slower; leaving the loop drops the request once the
        iterator is closed.
        """
        recording = self.recording(inputs, trace)
        request = self.told(inputs, parameters, id)
        records = self.aio_stream_in(None, inputs, timeout, priority, recording, request)
        return records if recording is None else (records, Trace(recording))

    def sequence(self, id: int | str | None = None) -> Sequence:
        """Return a new sequence of requests; raises RequestError where nothing is kept for one.

        `id` is its name, None for one that no other sequence has.
        """
        kept = self._bound.prepared.sequences
        if kept is None:
            raise RequestError(
                f"`{self.__name__}` keeps nothing from one request to the next: it is not "
                "`per sequence`",
                pipeline=self.__name__,
            )
        return Sequence(self, sequence_id(id, kept.numbered))

    def __repr__(self) -> str:
        return f"<pipeline {self.signature}>"
