"""The requests of one sequence, for a pipeline that keeps state from one to the next.

with app.vad.sequence() as s:
    for chunk in chunks:
        print(s(audio=chunk).prob)
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .runtime.observe.recording import Recording
from .runtime.observe.trace import Trace
from .runtime.record import Record
from .runtime.request import InSequence, Request

if TYPE_CHECKING:
    from .pipeline import Pipeline


class Sequence:
    """Calls run in the order in which they are made; the first begins with the initial state.

    Leaving the `with` forgets what is kept. So does a silence of the pipeline's `idle`, after which
    calls fail until `restart` says that the next begins anew.
    """

    def __init__(self, pipeline: "Pipeline", id: int | str) -> None:
        self.id = id
        self._pipeline = pipeline
        self._begun = False

    def __call__(
        self,
        /,
        *,
        timeout: Any = None,  # Any: an input of that name may be of any type
        outputs: Any = None,  # Any: likewise
        trace: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        parameters: Any = None,  # Any: likewise
        id: Any = None,  # Any: likewise
        **inputs: Any,  # Any: values that the signature checks
    ) -> Any:  # Any: a Record, or with `trace` True a pair of it and a Trace
        """Answer in this thread, once earlier calls are done; raises Fault.

        A call that fails leaves the state as it was.
        """
        request = self._pipeline.told(inputs, parameters, id)
        return self._call(self._next(), inputs, timeout, outputs, trace, priority, request)

    def last(
        self,
        /,
        *,
        timeout: Any = None,  # Any: as in a call
        outputs: Any = None,  # Any: likewise
        trace: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        parameters: Any = None,  # Any: likewise
        id: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> Any:  # Any: a Record, or with `trace` True a pair of it and a Trace
        """Answer as a call, for the last time: then nothing is kept, and the next begins anew."""
        request = self._pipeline.told(inputs, parameters, id)
        point = replace(self._next(), end=True)
        answer = self._call(point, inputs, timeout, outputs, trace, priority, request)
        self._begun = False
        return answer

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
    ) -> "Future[Any]":  # Any: as of a call
        """Answer in a worker thread, once earlier calls are done."""
        request = self._pipeline.told(inputs, parameters, id)
        point = self._next()
        try:
            pending = self._pipeline.submit_in(
                point, inputs, timeout, outputs, priority, trace, request
            )
        except Exception:
            self._begun &= not point.start
            raise
        if point.start:
            pending.add_done_callback(self._started)
        return pending

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
    ) -> Any:  # Any: as of a call
        """As `submit`, awaited; cancelling the awaiting task cancels the request."""
        pending = self.submit(
            timeout=timeout,
            outputs=outputs,
            priority=priority,
            trace=trace,
            parameters=parameters,
            id=id,
            **inputs,
        )
        return await asyncio.wrap_future(pending)

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
    ) -> Any:  # Any: records, or with `trace` True a pair of them and a Trace
        """Answer in this thread, with one record for each `emit`, made when it is asked for.

        Its turn is from the first that is asked for to the end; what is left earlier changes no
        state.
        """
        recording = self._pipeline.recording(inputs, trace)
        request = self._pipeline.told(inputs, parameters, id)
        records = self._stream(inputs, timeout, recording, priority, request)
        return records if recording is None else (records, Trace(recording))

    def _stream(
        self,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        recording: Recording | None,
        priority: Any,  # Any: likewise
        request: Request | None,
    ) -> Iterator[Record]:
        point = self._next()
        try:
            yield from self._pipeline.stream_in(
                point, inputs, timeout, recording, priority, request
            )
        except BaseException:
            self._begun &= not point.start
            raise

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
    ) -> Any:  # Any: as of `stream`
        """As `stream`, in worker threads, for `async for`."""
        recording = self._pipeline.recording(inputs, trace)
        request = self._pipeline.told(inputs, parameters, id)
        records = self._aio_stream(inputs, timeout, priority, recording, request)
        return records if recording is None else (records, Trace(recording))

    async def _aio_stream(
        self,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        priority: Any,  # Any: likewise
        recording: Recording | None,
        request: Request | None,
    ) -> AsyncIterator[Record]:
        point = self._next()
        records = self._pipeline.aio_stream_in(point, inputs, timeout, priority, recording, request)
        try:
            async with aclosing(records):
                async for record in records:
                    yield record
        except BaseException:
            self._begun &= not point.start
            raise

    def restart(self) -> None:
        """Let the next call begin with the initial state."""
        self._begun = False

    def end(self) -> None:
        """Forget what is kept, once the calls under way are done."""
        self._begun = False
        self._pipeline.end_sequence(self.id)

    def __enter__(self) -> "Sequence":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _call(
        self,
        point: InSequence,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        outputs: Any,  # Any: likewise
        trace: Any,  # Any: likewise
        priority: Any,  # Any: likewise
        request: Request | None,
    ) -> Any:  # Any: as of a call
        try:
            return self._pipeline.call_in(point, inputs, timeout, outputs, trace, priority, request)
        except Exception:
            self._begun &= not point.start
            raise

    def _next(self) -> InSequence:
        point = InSequence(self.id, start=not self._begun)
        self._begun = True
        return point

    def _started(self, pending: "Future[Any]") -> None:  # Any: whatever it gives
        if pending.cancelled() or pending.exception() is not None:
            self._begun = False
