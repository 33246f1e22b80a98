"""One pipeline as a function: called here, submitted, awaited, streamed, in sequences."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Literal, TypeVar, overload

from .asked import names_of, request_id, request_parameters, request_priority, sequence_id
from .bound import Bound, Traced
from .loaded import Loaded
from .runtime.accept import show_signature
from .runtime.observe.recording import Recording
from .runtime.observe.trace import Trace
from .runtime.record import Record
from .runtime.request import EngineClosed, InSequence, Request, RequestError
from .runtime.streams import Stream
from .sequence import Sequence
from .stdlib.op import Item

Started = TypeVar("Started")


class Pipeline:
    """One pipeline as a function of its inputs."""

    def __init__(self, name: str, loaded: Loaded) -> None:
        self.__name__ = name
        self._finishing: tuple[Bound, ...] = ()
        self._bound = Bound(name, loaded)
        self.__doc__ = self.signature = show_signature(self._bound.prepared.plan)

    def bind(self, loaded: Loaded) -> None:
        """Let another plan answer from now on; sequences that live end on the one before."""
        before, bound = self._bound, Bound(self.__name__, loaded)
        if before.prepared.sequences is not None:
            self._finishing = (before, *self._finishing)
        self._bound = bound
        self.__doc__ = self.signature = show_signature(bound.prepared.plan)

    def forget(self, loaded: Loaded) -> None:
        """Let nothing more go to a plan on which nothing lives any more."""
        self._finishing = tuple(one for one in self._finishing if one.loaded is not loaded)

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
            engine = bound.loaded.workers()
            try:
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

    def stream_in(
        self,
        sequence: InSequence | None,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        recording: Recording | None,
        priority: Any = None,  # Any: likewise
        request: Request | None = None,
    ) -> Iterator[Record]:
        """Answer a request, of a sequence or of none, one record after the other."""
        timeout, _, priority, _ = self._options(inputs, timeout, None, priority, None)

        def start(bound: Bound) -> Iterator[Record]:
            deadline, engine = bound.deadline(timeout), bound.engine
            emitted = engine.stream(
                bound.ready(engine, recording), inputs, deadline, sequence, request, priority
            )
            return (bound.record(one.values()) for one in emitted)

        return self._started(sequence, start)

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

    async def aio_stream_in(
        self,
        sequence: InSequence | None,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        priority: Any,  # Any: likewise
        recording: Recording | None,
        request: Request | None = None,
    ) -> AsyncGenerator[Record]:
        """Answer a request, of a sequence or of none, in worker threads, for `async for`."""
        timeout, _, priority, _ = self._options(inputs, timeout, None, priority, None)
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def start(bound: Bound) -> Stream[Record]:
            engine = bound.loaded.workers()
            return engine.open_stream(
                bound.ready(engine, recording),
                inputs,
                partial(bound.make, None),
                partial(loop.call_soon_threadsafe, ready.set),
                deadline=bound.deadline(timeout),
                priority=priority,
                sequence=sequence,
                request=request,
            )

        opened = self._started(sequence, start)
        try:
            while not opened.over:
                for record in opened.take():
                    yield record
                if not opened.over:
                    await ready.wait()
                    ready.clear()
        finally:
            opened.cancel()

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

    def call_in(
        self,
        sequence: InSequence | None,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        outputs: Any,  # Any: likewise
        trace: Any,  # Any: likewise
        priority: Any = None,  # Any: likewise
        request: Request | None = None,
    ) -> Record | Traced:
        """Answer a request, of a sequence or of none, in this thread."""
        timeout, outputs, priority, trace = self._options(inputs, timeout, outputs, priority, trace)
        wanted = None if outputs is None else names_of(outputs)

        def start(bound: Bound) -> Record | Traced:
            deadline, engine = bound.deadline(timeout), bound.engine
            recording = bound.recording() if trace else None
            prepared = bound.ready(engine, recording)
            answer = engine.run(prepared, inputs, wanted, deadline, sequence, request, priority)
            if recording is None:
                return bound.make(wanted, answer)
            return bound.traced(wanted, Trace(recording), answer)

        return self._started(sequence, start)

    def submit_in(
        self,
        sequence: InSequence | None,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        outputs: Any,  # Any: likewise
        priority: Any,  # Any: likewise
        trace: Any,  # Any: likewise
        request: Request | None = None,
    ) -> "Future[Any]":  # Any: a Record, or with `trace` a pair of it and a Trace
        """Answer a request, of a sequence or of none, in a worker thread."""
        timeout, outputs, priority, trace = self._options(inputs, timeout, outputs, priority, trace)
        wanted = None if outputs is None else names_of(outputs)

        def start(bound: Bound) -> "Future[Any]":  # Any: either
            engine = bound.loaded.workers()
            recording = bound.recording() if trace else None
            make: Callable[[Mapping[str, Item]], Any] = (  # Any: either
                partial(bound.make, wanted)
                if recording is None
                else partial(bound.traced, wanted, Trace(recording))
            )
            return engine.dispatch(
                bound.ready(engine, recording),
                inputs,
                make,
                outputs=wanted,
                deadline=bound.deadline(timeout),
                priority=priority,
                sequence=sequence,
                request=request,
            )

        return self._started(sequence, start)

    def told(
        self,
        inputs: dict[str, Any],  # Any: values that the signature checks
        parameters: Any,  # Any: as in a call
        id: Any,  # Any: likewise
    ) -> Request | None:
        """Return what Python stages are told of a request; None where nothing was said."""
        if parameters is None and id is None:
            return None
        own = self._bound.own
        if "parameters" in own and parameters is not None:
            inputs["parameters"], parameters = parameters, None
        if "id" in own and id is not None:
            inputs["id"], id = id, None
        return Request(self.__name__, {}, request_id(id), parameters=request_parameters(parameters))

    def recording(
        self,
        inputs: dict[str, Any],  # Any: values that the signature checks
        trace: Any,  # Any: as in a call
    ) -> Recording | None:
        """Return what a stream is written down in, where that is asked for."""
        _, _, _, asked = self._options(inputs, None, None, None, trace)
        return self._bound.recording() if asked else None

    def end_sequence(self, id: int | str) -> None:
        """Forget what is kept for a sequence."""
        for bound in (self._bound, *self._finishing):
            if bound.prepared.sequences is not None:
                bound.prepared.sequences.end(id)

    def __repr__(self) -> str:
        return f"<pipeline {self.signature}>"

    def _started(self, sequence: InSequence | None, start: Callable[[Bound], Started]) -> Started:
        """Start a request where it belongs; anew when that has been replaced in between."""
        tried: Bound | None = None
        while True:
            bound = self._bound
            if sequence is not None and self._finishing:
                bound = self._of_sequence(sequence)
            try:
                return start(bound)
            except EngineClosed:
                if bound is tried or bound is self._bound:
                    raise
                tried = bound

    def _of_sequence(self, sequence: InSequence) -> Bound:
        """Return where a sequence lives; one that is started anew lives with the newest plan."""
        for bound in self._finishing:
            if bound.keeps(sequence):
                if not sequence.start:
                    return bound
                if bound.prepared.sequences is not None:
                    bound.prepared.sequences.end(sequence.id)
        return self._bound

    def _options(
        self,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        outputs: Any,  # Any: likewise
        priority: Any,  # Any: likewise
        trace: Any,  # Any: likewise
    ) -> tuple[Any, Any, int, bool]:  # Any: likewise
        """Give back to the inputs what has the name of one."""
        own = self._bound.own
        if not own:
            return timeout, outputs, request_priority(priority), _flag(trace)
        given = {"timeout": timeout, "outputs": outputs, "priority": priority, "trace": trace}
        for name in own:
            if given.get(name) is not None:
                inputs[name] = given[name]
                given[name] = None
        priority = request_priority(given["priority"])
        return given["timeout"], given["outputs"], priority, _flag(given["trace"])


def _flag(trace: object) -> bool:
    if trace is not None and not isinstance(trace, bool):
        raise TypeError(f"trace is True or False, not {trace!r}")
    return bool(trace)
