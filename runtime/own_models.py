"""The models that a plan's own stages may ask for where nobody serves others: those of its
engine, which is not held by them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from weakref import ref

from ..compiler.plan import Plan
from .custom_metrics import CustomMetrics
from .nested_models import Answers, NestedModels
from .prepared import Prepared
from .protocols.models import Model, model_of
from .request import EngineClosed, Request


class Engine(Answers, Protocol):
    @property
    def plan(self) -> Plan: ...

    def pipeline(self, name: str) -> Prepared: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Own:
    """A pipeline of an engine."""

    model: Model
    engine: Engine
    prepared: Prepared


def own_models(engine: Engine, clock: Callable[[], float]) -> NestedModels:
    """Return what answers nested requests with an engine's own pipelines."""
    reference = ref(engine)
    models: dict[str, Model] = {}

    def find(name: str, version: str, request: Request | None = None) -> _Own:
        del version, request  # there is one of each
        held = reference()
        if held is None:
            raise EngineClosed
        prepared = held.pipeline(name)
        if name not in models:
            models[name] = model_of(held.plan, prepared.plan, "1")
        return _Own(models[name], held, prepared)

    return NestedModels(find, CustomMetrics(), clock)
