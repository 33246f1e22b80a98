"""What stages may ask of a repository: its models, and to load and unload them."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Protocol

from ...compiler.plan import Plan
from ..custom_metrics import CustomMetrics
from ..nested_models import NestedModels
from ..protocols.models import unknown_model
from ..protocols.overrides import read_override
from ..request import Code, Fault, Request
from .route import Route, Served
from .state import Unknown


class Holds(Protocol):
    """A repository."""

    @property
    def routes(self) -> Mapping[str, Route]: ...

    def app_of(self, name: str) -> str: ...

    def load_later(
        self,
        app: str,
        plan: Plan | None = None,
        version: int | None = None,
        change: Callable[[Plan], Plan] | None = None,
    ) -> "Future[None]": ...

    def unload(self, app: str) -> "Future[None]": ...


def nested_models(
    repository: Holds, clock: Callable[[], float], *, alone: bool = True
) -> NestedModels:
    """Return what answers nested requests with what a repository serves at the moment. One that is
    not `alone` is served by other processes too, and stays as it is."""

    def find(name: str, version: str, request: Request | None = None) -> Served:
        route = repository.routes.get(name)
        found = None
        if route is not None:
            found = route.known(version) if request is None else route.pick(version, request)
        if found is None:
            raise unknown_model(name, version)
        return found

    control = _Control(repository) if alone else None
    return NestedModels(find, CustomMetrics(), clock, control)


class _Control:
    """Loads and unloads apps by the names of their pipelines."""

    def __init__(self, repository: Holds) -> None:
        self._repository = repository

    def load(self, name: str, config: str) -> "Future[None]":
        change = read_override(name, config) if config else None
        try:
            app = self._repository.app_of(name)
        except Unknown:
            app = name  # one that has never been loaded is known by its own name
        return self._repository.load_later(app, change=change)

    def unload(self, name: str) -> "Future[None]":
        try:
            return self._repository.unload(self._repository.app_of(name))
        except Unknown as error:
            raise Fault(Code.NOT_FOUND, f"failed to unload '{name}': {error}") from None
