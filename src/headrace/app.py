"""Pipelines as functions: compile a source, load a plan, call it.

A call runs in the caller's thread, on an engine whose models may use all cores. `submit` and
`aio` hand requests to workers, one a core, that use one core each; as the two want different
sessions they are two engines, and the second is made at the first `submit`.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from .compiler import plan_file
from .compiler.plan import Plan
from .dsl.diagnostic import Diagnostic
from .dsl.read import read_source
from .dsl.source import Source
from .runtime.accept import show_signature
from .runtime.engine import Engine, EngineConfig
from .runtime.load import Progress
from .runtime.metrics import Snapshot
from .runtime.record import Record, record_type
from .runtime.request import InSequence, RequestError
from .sequence import Sequence
from .stdlib.op import Item

OPTIONS = ("timeout", "outputs", "priority")
_KEPT = 32  # types of results for different `outputs`


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """A plan, and what is worth saying about its source although it could be made."""

    plan: Plan
    warnings: tuple[Diagnostic, ...] = ()

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the plan file: everything needed to run, without the sources."""
        plan_file.write(self.plan, path)


def compile(source: "str | os.PathLike[str]", schedule: str | None = None) -> CompiledPlan:
    """Compile a `.pipe` file, or the text of one (a str with a line break in it).

    `schedule` names the one that holds. Raises CompileError with all mistakes.
    """
    from .compiler import compile_with_warnings

    made = compile_with_warnings(_source(source), schedule=schedule)
    return CompiledPlan(made.plan, made.warnings)


def load(
    source: "str | os.PathLike[str] | bytes | Plan | CompiledPlan",
    *,
    workers: int | None = None,
    intra_op_threads: int | None = None,
    progress: Progress | None = None,
) -> "App":
    """Load a plan (its file, its bytes, or as `compile` returns it) or a `.pipe` file.

    `workers` threads run what is submitted (None: one a core). `intra_op_threads` are those of
    one model run (None: all cores in a call, one core when submitted).
    """
    return App(_plan(source), workers, intra_op_threads, progress)


def _source(source: "str | os.PathLike[str]") -> Source:
    if isinstance(source, str) and "\n" in source:
        return Source("<text>", source)
    return read_source(Path(source))


def _plan(source: "str | os.PathLike[str] | bytes | Plan | CompiledPlan") -> Plan:
    if isinstance(source, Plan):
        return source
    if isinstance(source, CompiledPlan):
        return source.plan
    if isinstance(source, bytes):
        return plan_file.read(source)
    if (isinstance(source, str) and "\n" in source) or Path(source).suffix == ".pipe":
        return compile(source).plan
    return plan_file.read(source)


class Pipeline:
    """One pipeline as a function of its inputs."""

    def __init__(self, app: "App", name: str, engine: Engine) -> None:
        self._app, self._engine = app, engine
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
        if self._own:
            timeout, outputs, _ = self._options(inputs, timeout, outputs, None)
        wanted = None if outputs is None else _names(outputs)
        deadline = None if timeout is None else self._engine.config.clock() + timeout
        return self._make(wanted, self._engine.run(self._prepared, inputs, wanted, deadline))

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
        if self._own:
            timeout, outputs, priority = self._options(inputs, timeout, outputs, priority)
        wanted = None if outputs is None else _names(outputs)
        engine = self._app.workers_engine()
        return engine.dispatch(
            engine.pipeline(self.__name__),
            inputs,
            partial(self._make, wanted),
            outputs=wanted,
            deadline=None if timeout is None else engine.config.clock() + timeout,
            priority=priority or 0,
        )

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
        if "timeout" in self._own and timeout is not None:
            inputs["timeout"], timeout = timeout, None
        clock = self._engine.config.clock
        deadline = None if timeout is None else clock() + timeout
        emitted = self._engine.stream(self._prepared, inputs, deadline)
        return (self._record(one.values()) for one in emitted)

    async def aio_stream(
        self,
        *,
        timeout: Any = None,  # Any: as in a call
        priority: Any = None,  # Any: likewise
        **inputs: Any,  # Any: likewise
    ) -> AsyncIterator[Record]:
        """As `stream`, in worker threads, for `async for`.

        Few records wait for a reader that is slower; leaving the loop drops the request once the
        iterator is closed.
        """
        if self._own:
            timeout, _, priority = self._options(inputs, timeout, None, priority)
        engine, loop, ready = (
            self._app.workers_engine(),
            asyncio.get_running_loop(),
            asyncio.Event(),
        )
        opened = engine.open_stream(
            engine.pipeline(self.__name__),
            inputs,
            partial(self._make, None),
            partial(loop.call_soon_threadsafe, ready.set),
            deadline=None if timeout is None else engine.config.clock() + timeout,
            priority=priority or 0,
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
        return Sequence(self, uuid4().hex if id is None else id)

    def call_in(
        self,
        sequence: InSequence,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        outputs: Any,  # Any: likewise
    ) -> Record:
        """Answer a request of a sequence in this thread."""
        timeout, outputs, _ = self._options(inputs, timeout, outputs, None)
        wanted = None if outputs is None else _names(outputs)
        deadline = None if timeout is None else self._engine.config.clock() + timeout
        answer = self._engine.run(self._prepared, inputs, wanted, deadline, sequence)
        return self._make(wanted, answer)

    def submit_in(
        self,
        sequence: InSequence,
        inputs: dict[str, Any],  # Any: values that the signature checks
        timeout: Any,  # Any: as in a call
        outputs: Any,  # Any: likewise
        priority: Any,  # Any: likewise
    ) -> "Future[Record]":
        """Answer a request of a sequence in a worker thread."""
        timeout, outputs, priority = self._options(inputs, timeout, outputs, priority)
        wanted = None if outputs is None else _names(outputs)
        engine = self._app.workers_engine()
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


class App:
    """The pipelines of a plan: `app.ocr(photo=...)`, `app["ocr"]`, `app(...)` for an only one.

    A context manager; `close` waits for what was submitted.
    """

    def __init__(
        self,
        plan: Plan,
        workers: int | None = None,
        intra_op_threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        cores = len(os.sched_getaffinity(0))
        count = workers if workers is not None else cores
        self._shared = EngineConfig(count, intra_op_threads or max(1, cores // count))
        alone = EngineConfig(1, intra_op_threads or cores)
        self._same = alone.intra_op_threads == self._shared.intra_op_threads
        self._engine = Engine(plan, self._shared if self._same else alone, progress=progress)
        self._workers = self._engine if self._same else None
        self._starting = threading.Lock()
        self._pipelines = {
            pipeline.name: Pipeline(self, pipeline.name, self._engine)
            for pipeline in plan.pipelines
        }
        for name, pipeline in self._pipelines.items():
            if not hasattr(type(self), name):
                setattr(self, name, pipeline)  # found without a detour at every call

    @property
    def plan(self) -> Plan:
        return self._engine.plan

    @property
    def metrics(self) -> tuple[Snapshot, ...]:
        """What the engines have counted: of calls, and of what was submitted if that is apart."""
        return tuple(engine.metrics for engine in self._engines())

    def __getitem__(self, name: str) -> Pipeline:
        if name not in self._pipelines:
            raise KeyError(self._unknown(name))
        return self._pipelines[name]

    def __getattr__(self, name: str) -> Pipeline:
        raise AttributeError(self._unknown(name))

    def __call__(self, **inputs: Any) -> Record:  # Any: values that the signature checks
        if len(self._pipelines) != 1:
            known = ", ".join(self._pipelines)
            raise RequestError(f"the plan has several pipelines ({known}); say which")
        return next(iter(self._pipelines.values()))(**inputs)

    def __iter__(self) -> Iterator[Pipeline]:
        return iter(self._pipelines.values())

    def __enter__(self) -> "App":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        lines = [f"    {pipeline.signature}" for pipeline in self._pipelines.values()]
        return "\n".join(["App(", *lines, ")"])

    def close(self) -> None:
        """Take no more requests, wait for those under way, give everything back."""
        with self._starting:
            for engine in self._engines():
                engine.drain()
                engine.close()

    def workers_engine(self) -> Engine:
        """Return the engine that submitted requests run on."""
        if self._workers is None:
            with self._starting:
                if self._workers is None:
                    self._workers = Engine(
                        self.plan, self._shared, sequences=self._engine.sequences
                    )
        return self._workers

    def _engines(self) -> list[Engine]:
        workers = self._workers
        return [self._engine] if workers is None or self._same else [self._engine, workers]

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name, self._pipelines, 1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        known = ", ".join(f"`{one}`" for one in self._pipelines)
        return f"the plan has no pipeline `{name}`{hint} (it has {known})"
