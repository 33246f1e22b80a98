"""Asking one pipeline: each request goes to the plan that it belongs to, and what is said beside
its inputs is told from them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from .asked import names_of, request_id, request_parameters, request_priority
from .bound import Bound, Traced
from .loaded import Loaded
from .runtime.accept import show_signature
from .runtime.observe.recording import Recording
from .runtime.observe.trace import Trace
from .runtime.record import Record
from .runtime.request import EngineClosed, InSequence, Request
from .runtime.streams import Stream
from .stdlib.op import Item

Started = TypeVar("Started")


class Asking:
    """What all ways to ask a pipeline have in common. Of a sequence that lives on a plan which was
    replaced the requests go there."""

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
