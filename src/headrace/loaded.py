"""A plan, loaded for an app: one engine for calls, and one for what is submitted.

A call may use all cores for one run of a model, workers one core each; as the two want different
sessions they are two engines, and the second is made at the first `submit`. Where stages keep
something of sequences themselves it is one.
"""

import threading

from .compiler.plan import ModelSegment, Plan
from .runtime.engine import Engine, EngineConfig
from .runtime.load import Progress
from .runtime.metrics import Snapshot
from .runtime.request import EngineClosed
from .runtime.shared import Shared
from .runtime.turns import keeps_inside


class Loaded:
    """`alone` is the configuration for calls, `together` that of what is submitted."""

    def __init__(
        self,
        plan: Plan,
        alone: EngineConfig,
        together: EngineConfig,
        shared: Shared,
        progress: Progress | None = None,
    ) -> None:
        self.plan = plan
        self._together, self._shared = together, shared
        same = alone.intra_op_threads == together.intra_op_threads or _keeps_itself(plan)
        self.engine = Engine(
            plan, together if same else alone, progress=progress, shared=self._shared
        )
        self._workers = self.engine if same else None
        self._refuses = self._closed = False
        self._starting = threading.Lock()

    def workers(self) -> Engine:
        """Return the engine that submitted requests run on; raises EngineClosed."""
        if self._workers is None:
            with self._starting:
                if self._workers is None:
                    if self._closed:
                        raise EngineClosed
                    made = Engine(
                        self.plan,
                        self._together,
                        sequences=self.engine.sequences,
                        shared=self._shared,
                    )
                    made.stand_beside(self.engine)
                    if self._refuses:  # but what a request under way asks for
                        made.refuse()
                    self._workers = made
        return self._workers

    @property
    def has_workers(self) -> bool:
        """Whether anything was submitted, or could be without loading."""
        return self._workers is not None

    @property
    def metrics(self) -> tuple[Snapshot, ...]:
        """What the engines have counted: of calls, and of what was submitted if that is apart."""
        return tuple(engine.metrics for engine in self._engines())

    def finish(self) -> None:
        """Let the sequences that live end, take nothing new, and close."""
        for sequences in self.engine.sequences.values():
            sequences.retire()
        for sequences in self.engine.sequences.values():
            sequences.wait_until_empty()
        self.drain()

    def drain(self) -> None:
        """Take nothing new, wait for what is under way."""
        for engine in self._engines(refuse=True):
            engine.refuse()
        for engine in self._engines():
            engine.drain()

    def refuse(self) -> None:
        """Take nothing new, and wait no more for who may never come: the readers of streams, and
        the next requests of sequences whose places others wait for."""
        for engine in self._engines():
            engine.require_outside()
        engines = self._engines(refuse=True)
        for engine in engines:
            engine.refuse()
        for engine in engines:
            engine.end_streams()
        for sequences in self.engine.sequences.values():
            sequences.forget_silent()

    def close(self) -> None:
        """Give everything back; `drain` first to finish what is under way."""
        for engine in self._engines(close=True):
            engine.close()

    def _engines(self, *, refuse: bool = False, close: bool = False) -> list[Engine]:
        with self._starting:
            self._refuses, self._closed = self._refuses or refuse, self._closed or close
            workers = self._workers
        if workers is None or workers is self.engine:
            return [self.engine]
        return [self.engine, workers]


def _keeps_itself(plan: Plan) -> bool:
    """Whether functions or models may keep something of a sequence themselves, or models of
    Triton's something of their own: those of another engine would know nothing of that."""
    models = (one for one in plan.segments if isinstance(one, ModelSegment))
    own = any(one.kind == "triton_python" for one in models)
    return own or any(keeps_inside(one) for one in plan.pipelines)
