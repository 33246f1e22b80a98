"""Nested requests, answered by engines of this process."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ..stdlib.op import Item
from .custom_metrics import CustomMetrics
from .prepared import Prepared
from .protocols.models import Model
from .request import Code, EngineClosed, Fault, InSequence, Request, Response
from .streams import Stream

Result = TypeVar("Result")


class Answers(Protocol):
    """An engine."""

    @property
    def unready(self) -> tuple[str, ...]: ...

    @property
    def quiet(self) -> bool: ...

    def call(self, request: Request, *, bounded: bool = False) -> Response: ...

    def submit(self, request: Request, *, runs: bool = False) -> Future[Response]: ...

    def open_stream(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        make: Callable[[dict[str, Item]], Result],
        notify: Callable[[], object],
        *,
        deadline: float | None = None,
        priority: int = 0,
        sequence: InSequence | None = None,
        request: Request | None = None,
    ) -> Stream[Result]: ...


class Found(Protocol):
    """A pipeline, ready to run, and how its values travel."""

    @property
    def model(self) -> Model: ...

    @property
    def engine(self) -> Answers: ...

    @property
    def prepared(self) -> Prepared: ...


class Find(Protocol):
    """Returns who answers a request; without one, whose model requests are to look like. Raises
    Fault NOT_FOUND."""

    def __call__(self, name: str, version: str, request: Request | None = None) -> Found: ...


class Control(Protocol):
    """Loads models and lets them go."""

    def load(self, name: str, config: str) -> "Future[None]": ...

    def unload(self, name: str) -> "Future[None]": ...


@dataclass(frozen=True, slots=True, eq=False)
class NestedModels:
    """`control` None: what is served stays as it is. Engines that are `running` a request here have
    it from a thread that has asked for it."""

    find: Find
    metrics: CustomMetrics
    now: Callable[[], float]
    control: Control | None = None
    running: set[Answers] = field(default_factory=set["Answers"])

    def model(self, name: str, version: str) -> Model:
        return self.find(name, version).model

    def submit(self, request: Request, version: str) -> Future[Response]:
        return self._sent(request, version, lambda found: found.engine.submit(request))

    def run(self, request: Request, version: str) -> Response | Future[Response]:
        """Ask where nothing can be told meanwhile that this thread had to hear of. An engine that
        has no other request, none from here either, has nothing for this one to wait for or meet;
        else it is handed to that, which may let this thread begin it."""

        def start(found: Found) -> Response | Future[Response]:
            engine = found.engine
            if not engine.quiet or engine in self.running or _waits(request, found.prepared):
                return engine.submit(request, runs=True)
            self.running.add(engine)
            try:
                return engine.call(request, bounded=True)
            finally:
                self.running.discard(engine)

        return self._sent(request, version, start)

    def open(
        self, request: Request, version: str, notify: Callable[[], object]
    ) -> Stream[Mapping[str, Item]]:
        def start(found: Found) -> Stream[Mapping[str, Item]]:
            return found.engine.open_stream(
                found.prepared,
                request.inputs,
                _same,
                notify,
                deadline=request.deadline,
                priority=request.priority,
                sequence=request.sequence,
                request=request,
            )

        return self._sent(request, version, start)

    def ready(self, name: str, version: str) -> bool:
        try:
            return not self.find(name, version).engine.unready
        except Fault:
            return False

    def load(self, name: str, config: str) -> "Future[None]":
        return self._controlled().load(name, config)

    def unload(self, name: str) -> "Future[None]":
        return self._controlled().unload(name)

    def _controlled(self) -> Control:
        if self.control is None:
            raise Fault(Code.UNSUPPORTED, "what is served here cannot be changed by a model")
        return self.control

    def _sent(self, request: Request, version: str, start: Callable[[Found], Result]) -> Result:
        """Start a request where it is routed; anew when that engine was closed in between."""
        tried: Found | None = None
        while True:
            found = self.find(request.pipeline, version, request)
            try:
                return start(found)
            except EngineClosed:
                if found is tried:
                    raise
                tried = found


def _waits(request: Request, pipeline: Prepared) -> bool:
    """Whether a request has a time limit, or a turn or resources to wait for."""
    limited = request.deadline is not None or pipeline.plan.deadline is not None
    turn = request.sequence is not None or pipeline.sequences is not None
    return limited or turn or pipeline.takes


def _same(outputs: dict[str, Item]) -> Mapping[str, Item]:
    return outputs
