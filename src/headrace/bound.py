"""A pipeline of one plan that is loaded, as `Pipeline` calls it."""

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

from .asked import OPTIONS, request_timeout
from .loaded import Loaded
from .runtime.engine import Engine
from .runtime.observe.recording import Recording
from .runtime.observe.trace import Trace
from .runtime.prepared import Prepared
from .runtime.record import Record, record_type
from .runtime.request import InSequence
from .stdlib.op import Item

Traced: TypeAlias = tuple[Record, Trace]

_KEPT = 32  # types of results for different `outputs`


class Bound:
    """A pipeline of a plan that is loaded; `own` are its inputs that are called as an option is."""

    __slots__ = ("_narrowed", "engine", "loaded", "make_whole", "own", "prepared", "record")

    def __init__(self, name: str, loaded: Loaded) -> None:
        self.loaded, self.engine = loaded, loaded.engine
        self.prepared = self.engine.pipeline(name)
        plan = self.prepared.plan
        self.record = record_type(name, [field.name for field in plan.results])
        self.own = {parameter.field.name for parameter in plan.parameters}.intersection(OPTIONS)
        self.make_whole = partial(_whole, self.record)
        self._narrowed: dict[tuple[str, ...], type[Record]] = {}

    def deadline(self, timeout: Any) -> float | None:  # Any: as in a call
        """Return when a time limit that begins now is over; raises TypeError where it is none."""
        seconds = request_timeout(timeout)
        return None if seconds is None else self.engine.config.clock() + seconds

    def make(self, wanted: tuple[str, ...] | None, answer: Mapping[str, Item]) -> Record:
        """Return an answer as callers see it."""
        if wanted is None:
            return self.make_whole(answer)
        made = self._narrowed.get(wanted) or record_type(self.prepared.plan.name, wanted)
        if len(self._narrowed) < _KEPT:
            self._narrowed[wanted] = made
        return made(answer.values())

    def recording(self) -> Recording:
        """Return what a request that begins now is written down in."""
        return Recording(self.prepared.plan, self.engine.config.clock, values=True)

    def ready(self, engine: Engine, recording: Recording | None) -> Prepared:
        """Return the pipeline as an engine runs it, written down where that is asked for."""
        if recording is not None:
            return engine.watched(self.prepared.plan.name, recording)
        return self.prepared if engine is self.engine else engine.pipeline(self.prepared.plan.name)

    def traced(
        self, wanted: tuple[str, ...] | None, trace: Trace, answer: Mapping[str, Item]
    ) -> Traced:
        """Return an answer and the trace of its request as callers see them."""
        return self.make(wanted, answer), trace

    def keeps(self, sequence: InSequence) -> bool:
        """Whether that sequence lives here."""
        kept = self.prepared.sequences
        return kept is not None and kept.knows(sequence.id)


def _whole(record: type[Record], answer: Mapping[str, Item]) -> Record:
    """Return an answer with all results as callers see it."""
    return record(answer.values())
