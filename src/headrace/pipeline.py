"""One pipeline as a function: called here, submitted, awaited, streamed, in sequences."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, cast
from uuid import uuid4

from .loaded import Loaded
from .runtime.accept import show_signature
from .runtime.record import Record, record_type
from .runtime.request import EngineClosed, InSequence, RequestError
from .runtime.streams import Stream
from .sequence import Sequence
from .stdlib.op import Item

OPTIONS = ("timeout", "outputs", "priority")
Started = TypeVar("Started")

_KEPT = 32  # types of results for different `outputs`


class Bound:
    """A pipeline of a plan that is loaded; `own` are its inputs that are called as an option is."""

    __slots__ = ("_narrowed", "engine", "loaded", "own", "prepared", "record")

    def __init__(self, name: str, loaded: Loaded) -> None:
        self.loaded, self.engine = loaded, loaded.engine
        self.prepared = self.engine.pipeline(name)
        plan = self.prepared.plan
        self.record = record_type(name, [field.name for field in plan.results])
        self.own = {parameter.field.name for parameter in plan.parameters}.intersection(OPTIONS)
        self._narrowed: dict[tuple[str, ...], type[Record]] = {}

    def deadline(self, timeout: Any) -> float | None:  # Any: as in a call
        """Return when a time limit that begins now is over."""
        return None if timeout is None else self.engine.config.clock() + timeout

    def make(self, wanted: tuple[str, ...] | None, answer: Mapping[str, Item]) -> Record:
        """Return an answer as callers see it."""
        if wanted is None:
            return self.record(answer.values())
        made = self._narrowed.get(wanted) or record_type(self.prepared.plan.name, wanted)
        if len(self._narrowed) < _KEPT:
            self._narrowed[wanted] = made
        return made(answer.values())

    def keeps(self, sequence: InSequence) -> bool:
        """Whether that sequence lives here."""
        kept = self.prepared.sequences
        return kept is not None and kept.knows(sequence.id)


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

    def __call__(
        self,
        *,
        timeout: Any = None,  # Any: an input of that name may be of any type
        outputs: Any = None,  # Any: likewise
        **inputs: Any,  # Any: values that the signature checks
    ) -> Record:
        """Answer in this thread; raises Fault, and RequestError when the inputs do not fit.

        `timeout` in seconds from now; `outputs` names the results that are wanted, so that what
        feeds only others does not run. An input that has the name of an option is the input.
        """
        if timeout is None and outputs is None:
            bound = self._bound
            try:
                return bound.record(bound.engine.run(bound.prepared, inputs).values())
            except EngineClosed:
                if bound is self._bound:
                    raise
        return self.call_in(None, inputs, timeout, outputs)

    def submit(
        self,
        *,
        timeout: Any = None,  # Any: as in a call
        outputs: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> "Future[Record]":
        """Answer in a worker thread; rows of different requests meet where the schedule says so.

        `priority` 1 is the highest and the default. Raises at once what a call would raise before
        it runs, and Fault OVERLOADED when too many wait.
        """
        return self.submit_in(None, inputs, timeout, outputs, priority)

    async def aio(
        self,
        *,
        timeout: Any = None,  # Any: as in a call
        outputs: Any = None,  # Any: likewise
        priority: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> Record:
        """As `submit`, awaited; cancelling the awaiting task cancels the request."""
        return await asyncio.wrap_future(
            self.submit(timeout=timeout, outputs=outputs, priority=priority, **inputs)
        )

    def stream(
        self,
        *,
        timeout: Any = None,  # Any: as in a call
        **inputs: Any,  # Any: likewise
    ) -> Iterator[Record]:
        """Answer in this thread, with one record for each `emit`, made when it is asked for.

        Raises RequestError at once, and Fault where it happens. To stop early is to stop asking.
        """
        return self.stream_in(None, inputs, timeout)

    def stream_in(
        self,
        sequence: InSequence | None,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
    ) -> Iterator[Record]:
        """Answer a request, of a sequence or of none, one record after the other."""
        timeout, _, _ = self._options(inputs, timeout, None, None)

        def start(bound: Bound) -> Iterator[Record]:
            deadline = bound.deadline(timeout)
            emitted = bound.engine.stream(bound.prepared, inputs, deadline, sequence)
            return (bound.record(one.values()) for one in emitted)

        return self._started(sequence, start)

    def aio_stream(
        self,
        *,
        timeout: Any = None,  # Any: as in a call
        priority: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> AsyncGenerator[Record]:
        """As `stream`, in worker threads, for `async for`.

        Few records wait for a reader that is slower; leaving the loop drops the request once the
        iterator is closed.
        """
        return self.aio_stream_in(None, inputs, timeout, priority)

    async def aio_stream_in(
        self,
        sequence: InSequence | None,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        priority: Any,  # Any: likewise
    ) -> AsyncGenerator[Record]:
        """Answer a request, of a sequence or of none, in worker threads, for `async for`."""
        timeout, _, priority = self._options(inputs, timeout, None, priority)
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def start(bound: Bound) -> Stream[Record]:
            engine = bound.loaded.workers()
            return engine.open_stream(
                engine.pipeline(self.__name__),
                inputs,
                partial(bound.make, None),
                partial(loop.call_soon_threadsafe, ready.set),
                deadline=bound.deadline(timeout),
                priority=priority or 0,
                sequence=sequence,
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
        strange: object = id  # 1.0 and True would be the sequence 1
        if isinstance(strange, bool) or not isinstance(strange, int | str | None):
            raise TypeError(f"the id of a sequence is a number or a text, not {id!r}")
        if id is None:
            unique = uuid4()
            id = unique.int % (1 << 64) if kept.numbered else unique.hex
        return Sequence(self, id)

    def call_in(
        self,
        sequence: InSequence | None,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        outputs: Any,  # Any: likewise
    ) -> Record:
        """Answer a request, of a sequence or of none, in this thread."""
        timeout, outputs, _ = self._options(inputs, timeout, outputs, None)
        wanted = None if outputs is None else _names(outputs)

        def start(bound: Bound) -> Record:
            deadline = bound.deadline(timeout)
            answer = bound.engine.run(bound.prepared, inputs, wanted, deadline, sequence)
            return bound.make(wanted, answer)

        return self._started(sequence, start)

    def submit_in(
        self,
        sequence: InSequence | None,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        outputs: Any,  # Any: likewise
        priority: Any,  # Any: likewise
    ) -> "Future[Record]":
        """Answer a request, of a sequence or of none, in a worker thread."""
        timeout, outputs, priority = self._options(inputs, timeout, outputs, priority)
        wanted = None if outputs is None else _names(outputs)

        def start(bound: Bound) -> "Future[Record]":
            engine = bound.loaded.workers()
            return engine.dispatch(
                engine.pipeline(self.__name__),
                inputs,
                partial(bound.make, wanted),
                outputs=wanted,
                deadline=bound.deadline(timeout),
                priority=priority or 0,
                sequence=sequence,
            )

        return self._started(sequence, start)

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
    ) -> tuple[Any, Any, Any]:  # Any: likewise
        """Give back to the inputs what has the name of one."""
        own = self._bound.own
        if not own:
            return timeout, outputs, priority
        given = {"timeout": timeout, "outputs": outputs, "priority": priority}
        for name in own:
            if given[name] is not None:
                inputs[name] = given[name]
                given[name] = None
        return given["timeout"], given["outputs"], given["priority"]


def _names(outputs: object) -> tuple[str, ...]:
    """Return the names of results that a caller wants; one name stands for itself."""
    if isinstance(outputs, str):
        return (outputs,)
    names = tuple(cast("Iterable[object]", outputs)) if isinstance(outputs, Iterable) else ()
    if not isinstance(outputs, Iterable) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"outputs are names of results, as in ['text'], not {outputs!r}")
    return cast("tuple[str, ...]", names)
