"""One pipeline as a function: called here, submitted, awaited, streamed, in sequences."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, cast
from uuid import uuid4

from .runtime.accept import show_signature
from .runtime.engine import Engine
from .runtime.record import Record, record_type
from .runtime.request import InSequence, RequestError
from .sequence import Sequence
from .stdlib.op import Item

OPTIONS = ("timeout", "outputs", "priority")
_KEPT = 32  # types of results for different `outputs`


class Pipeline:
    """One pipeline as a function of its inputs."""

    def __init__(self, name: str, engine: Engine, workers: Callable[[], Engine]) -> None:
        """`engine` answers calls, that of `workers` what is submitted."""
        self._engine, self._workers = engine, workers
        self._prepared = engine.pipeline(name)
        plan = self._prepared.plan
        self.__name__ = name
        self.__doc__ = self.signature = show_signature(plan)
        self._record = record_type(name, [field.name for field in plan.results])
        self._narrowed: dict[tuple[str, ...], type[Record]] = {}
        inputs = {parameter.field.name for parameter in plan.parameters}
        self._own = inputs.intersection(OPTIONS)

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
            answer = self._engine.run(self._prepared, inputs)
            return self._record(answer.values())
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
        if "timeout" in self._own and timeout is not None:
            inputs["timeout"], timeout = timeout, None
        clock = self._engine.config.clock
        deadline = None if timeout is None else clock() + timeout
        emitted = self._engine.stream(self._prepared, inputs, deadline, sequence)
        return (self._record(one.values()) for one in emitted)

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
        engine, loop, ready = self._workers(), asyncio.get_running_loop(), asyncio.Event()
        opened = engine.open_stream(
            engine.pipeline(self.__name__),
            inputs,
            partial(self._make, None),
            partial(loop.call_soon_threadsafe, ready.set),
            deadline=None if timeout is None else engine.config.clock() + timeout,
            priority=priority or 0,
            sequence=sequence,
        )
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
        if self._prepared.sequences is None:
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
            numbered = self._prepared.sequences.numbered
            id = unique.int % (1 << 64) if numbered else unique.hex
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
        deadline = None if timeout is None else self._engine.config.clock() + timeout
        answer = self._engine.run(self._prepared, inputs, wanted, deadline, sequence)
        return self._make(wanted, answer)

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
        engine = self._workers()
        return engine.dispatch(
            engine.pipeline(self.__name__),
            inputs,
            partial(self._make, wanted),
            outputs=wanted,
            deadline=None if timeout is None else engine.config.clock() + timeout,
            priority=priority or 0,
            sequence=sequence,
        )

    def end_sequence(self, id: int | str) -> None:
        """Forget what is kept for a sequence."""
        if self._prepared.sequences is not None:
            self._prepared.sequences.end(id)

    def __repr__(self) -> str:
        return f"<pipeline {self.signature}>"

    def _make(self, wanted: tuple[str, ...] | None, answer: Mapping[str, Item]) -> Record:
        if wanted is None:
            return self._record(answer.values())
        made = self._narrowed.get(wanted) or record_type(self.__name__, wanted)
        if len(self._narrowed) < _KEPT:
            self._narrowed[wanted] = made
        return made(answer.values())

    def _options(
        self,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        outputs: Any,  # Any: likewise
        priority: Any,  # Any: likewise
    ) -> tuple[Any, Any, Any]:  # Any: likewise
        """Give back to the inputs what has the name of one."""
        if not self._own:
            return timeout, outputs, priority
        given = {"timeout": timeout, "outputs": outputs, "priority": priority}
        for name in self._own:
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
