"""Compile a source, load a plan: an app is its pipelines as functions.

A call runs in the caller's thread, on an engine whose models may use all cores. `submit` and
`aio` hand requests to workers, one a core, that use one core each; as the two want different
sessions they are two engines, and the second is made at the first `submit`.
"""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from .compiler import plan_file
from .compiler.plan import Plan
from .dsl.diagnostic import Diagnostic
from .dsl.read import read_source
from .dsl.source import Source
from .pipeline import Pipeline
from .runtime.engine import Engine, EngineConfig
from .runtime.load import Progress
from .runtime.metrics import Snapshot
from .runtime.record import Record
from .runtime.request import RequestError


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
    tensorrt: bool = False,
    progress: Progress | None = None,
) -> "App":
    """Load a plan (its file, its bytes, or as `compile` returns it) or a `.pipe` file.

    `workers` threads run what is submitted (None: one a core). `intra_op_threads` are those of
    one model run (None: all cores in a call, one core when submitted). `tensorrt` lets TensorRT
    run what the plan puts on a GPU; where it is missing that is an error.
    """
    return App(_plan(source), workers, intra_op_threads, progress, tensorrt=tensorrt)


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
        *,
        tensorrt: bool = False,
    ) -> None:
        cores = len(os.sched_getaffinity(0))
        count = workers if workers is not None else cores
        threads = intra_op_threads or max(1, cores // count)
        self._shared = EngineConfig(count, threads, tensorrt=tensorrt)
        alone = EngineConfig(1, intra_op_threads or cores, tensorrt=tensorrt)
        self._same = alone.intra_op_threads == self._shared.intra_op_threads
        self._engine = Engine(plan, self._shared if self._same else alone, progress=progress)
        self._workers = self._engine if self._same else None
        self._starting = threading.Lock()
        self._pipelines = {
            pipeline.name: Pipeline(pipeline.name, self._engine, self.workers_engine)
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
