"""Compile a source, load a plan: an app is its pipelines as functions.

A call runs in the caller's thread, on an engine whose models may use all cores; `submit` and `aio`
hand requests to workers (`loaded.py`). `update` puts another plan in the place of the one that
answers, while it does.
"""

import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .compiler import plan_file
from .compiler.plan import Plan
from .compiler.precision.report import Rewritten
from .dsl.diagnostic import Diagnostic
from .dsl.read import read_source
from .dsl.source import Source
from .loaded import Loaded
from .pipeline import Pipeline
from .runtime.accept import show_signature
from .runtime.engine import Engine, EngineConfig
from .runtime.load import Progress
from .runtime.metrics import Snapshot
from .runtime.repository.counts import NOTHING, Counted, Totals, total
from .runtime.request import RequestError
from .runtime.shared import Shared

if TYPE_CHECKING:
    from .calibrate import Given


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """A plan, and what is worth saying about its source although it could be made; `rewritten` are
    the models in another precision."""

    plan: Plan
    warnings: tuple[Diagnostic, ...] = ()
    rewritten: tuple[Rewritten, ...] = ()

    def __repr__(self) -> str:
        return _listed("CompiledPlan", map(show_signature, self.plan.pipelines))

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write the plan file: everything needed to run, without the sources."""
        plan_file.write(self.plan, path)


def compile(
    source: "str | os.PathLike[str]",
    schedule: str | None = None,
    *,
    calibrate: "Given" = None,
    tolerance: float | None = None,
) -> CompiledPlan:
    """Compile a `.pipe` file, or the text of one (a str with a line break in it).

    `schedule` names the one that holds. Where it asks for another precision, models are calibrated
    with `calibrate`: a file or folder of samples, samples as values, or an earlier calibration; by
    default with what the tests of the source give. With `tolerance` no result may be off by more
    than that share of the largest. Raises CompileError with all mistakes.
    """
    from .calibrate import calibrating_of
    from .compiler import compile_with_warnings

    text = _source(source)
    calibrating = calibrating_of(text, calibrate, tolerance)
    made = compile_with_warnings(text, schedule=schedule, calibrating=calibrating)
    return CompiledPlan(made.plan, made.warnings, made.rewritten)


def load(
    source: "str | os.PathLike[str] | bytes | Plan | CompiledPlan",
    *,
    workers: int | None = None,
    intra_op_threads: int | None = None,
    tensorrt: bool = False,
    engines: "str | os.PathLike[str] | None" = None,
    progress: Progress | None = None,
) -> "App":
    """Load a plan (its file, its bytes, or as `compile` returns it) or a `.pipe` file.

    `workers` threads run what is submitted (None: one a core). `intra_op_threads` are those of
    one model run (None: all cores in a call, one core when submitted). `tensorrt` lets TensorRT
    run what the plan puts on a GPU; where it is missing that is an error. `engines` is a folder in
    which engines are kept, of stages whose `backend` is TensorRT.
    """
    kept = None if engines is None else Path(engines)
    plan = _plan(source)
    return App(plan, workers, intra_op_threads, progress, tensorrt=tensorrt, engines=kept)


def _listed(name: str, signatures: Iterable[str]) -> str:
    return "\n".join([f"{name}(", *(f"    {signature}" for signature in signatures), ")"])


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
        engines: Path | None = None,
    ) -> None:
        cores = len(os.sched_getaffinity(0))
        count = workers if workers is not None else cores
        threads = intra_op_threads or max(1, cores // count)
        self._together = EngineConfig(count, threads, tensorrt=tensorrt, engines=engines)
        alone = intra_op_threads or cores
        self._alone = replace(self._together, workers=1, intra_op_threads=alone)
        self._shared = Shared()
        self._updating = threading.Lock()
        self._finishing: dict[Loaded, threading.Thread] = {}
        self._before: Totals | None = None
        self._pipelines: dict[str, Pipeline] = {}
        self._loaded = self._load(plan, progress)
        self._bind()

    @property
    def plan(self) -> Plan:
        return self._loaded.plan

    @property
    def metrics(self) -> tuple[Snapshot, ...]:
        """What the engines have counted: of calls, and of what was submitted if that is apart;
        after an update then what those before have, which are closed."""
        before = self._before
        gone = () if before is None else (before.snapshot(),)
        return (*self._loaded.metrics, *gone)

    def __getitem__(self, name: str) -> Pipeline:
        if name not in self._pipelines:
            raise KeyError(self._unknown(name))
        return self._pipelines[name]

    def __getattr__(self, name: str) -> Pipeline:
        raise AttributeError(self._unknown(name))

    # Any: values that the signature checks, and what `Pipeline` gives for them
    def __call__(self, /, **inputs: Any) -> Any:
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
        return _listed("App", (pipeline.signature for pipeline in self._pipelines.values()))

    def update(
        self,
        source: "str | os.PathLike[str] | bytes | Plan | CompiledPlan",
        progress: Progress | None = None,
    ) -> None:
        """Let another plan answer, given as to `load`. Returns when calls go to it.

        No call fails: those under way, and sequences that live, end on the plan before, which is
        closed then. What cannot be loaded raises, and changes nothing. Pipelines that the new plan
        lacks answer no more (Fault UNAVAILABLE).
        """
        plan = _plan(source)
        with self._updating:
            loaded, before = self._load(plan, progress), self._loaded
            if before.has_workers:
                loaded.workers()
            self._loaded = loaded
            self._bind()
            thread = threading.Thread(
                target=self._finish, args=(before,), name="headrace-finish", daemon=True
            )
            self._finishing[before] = thread
            thread.start()

    def close(self) -> None:
        """Take no more requests, wait for those under way, give everything back.

        Streams that are read in threads of their own are not waited for between two responses, nor
        others while they have no room for the next: who reads on finds them ended (Fault
        UNAVAILABLE).
        """
        with self._updating:
            self._loaded.refuse()
            self._loaded.drain()
            self._loaded.close()
            finishing = dict(self._finishing)
        for loaded, thread in finishing.items():
            loaded.refuse()
            for sequences in loaded.engine.sequences.values():
                sequences.close()
            thread.join()

    def workers_engine(self) -> Engine:
        """Return the engine that submitted requests run on."""
        return self._loaded.workers()

    def _load(self, plan: Plan, progress: Progress | None) -> Loaded:
        return Loaded(plan, self._alone, self._together, self._shared, progress)

    def _bind(self) -> None:
        """Let the pipelines of the plan answer."""
        names = [pipeline.name for pipeline in self.plan.pipelines]
        known = self._pipelines
        for name in names:
            if name in known:
                known[name].bind(self._loaded)
        self._pipelines = {
            name: known[name] if name in known else Pipeline(name, self._loaded) for name in names
        }
        for name in known:
            if name not in self._pipelines:
                self.__dict__.pop(name, None)
        for name, pipeline in self._pipelines.items():
            if not hasattr(type(self), name):
                setattr(self, name, pipeline)  # found without a detour at every call

    def _finish(self, loaded: Loaded) -> None:
        """Close a plan that was replaced, when nothing is under way on it."""
        loaded.finish()
        for pipeline in self._pipelines.values():
            pipeline.forget(loaded)
        with self._updating:
            self._before = total(map(Counted, loaded.metrics), self._before or NOTHING)
            del self._finishing[loaded]
        loaded.close()

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name, self._pipelines, 1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        known = ", ".join(f"`{one}`" for one in self._pipelines)
        return f"the plan has no pipeline `{name}`{hint} (it has {known})"
