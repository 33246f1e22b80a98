"""Nested requests, answered by engines of this process."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ..stdlib.op import Item
from .custom_metrics import CustomMetrics
from .meetings import Asked, Lend, Tell
from .nested import tell_of
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

    def meet(self, pipeline: Prepared, waiting: Sequence[Asked]) -> None: ...

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


class _Runs:
    """Requests of one engine that are run by the threads that have asked for them, and those that
    wait for one to end."""

    __slots__ = ("count", "waiting")

    def __init__(self) -> None:
        self.count = 0
        self.waiting: list[tuple[Found, Asked]] = []


@dataclass(frozen=True, slots=True, eq=False)
class NestedModels:
    """`control` None: what is served stays as it is."""

    find: Find
    metrics: CustomMetrics
    now: Callable[[], float]
    control: Control | None = None
    _running: "dict[Answers, _Runs]" = field(default_factory=dict["Answers", "_Runs"])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def model(self, name: str, version: str) -> Model:
        return self.find(name, version).model

    def submit(self, request: Request, version: str) -> Future[Response]:
        return self._sent(request, version, lambda found: found.engine.submit(request))

    def run(self, request: Request, version: str, tell: Tell, lend: Lend | None = None) -> None:
        """Ask where nothing can be told meanwhile that this thread had to hear of. An engine that
        has no other request has nothing for this one to wait for or meet: it runs here. While
        others run so, it waits for one of them, whose thread then runs all that waits together, or
        where that is to go on, the thread of one that waits. Else it is handed to the engine, which
        may let this thread begin it."""

        def start(found: Found) -> None:
            engine = found.engine
            if engine.quiet and not _waits(request, found.prepared):
                begins = self._begin(found, request, version, tell, lend)
                if begins:
                    try:
                        tell(_called(engine, request))
                    finally:
                        self._end(engine, stays=lend is None)
                if begins is not None:
                    return
            tell_of(engine.submit(request, runs=True), tell)

        self._sent(request, version, start)

    def _begin(
        self, found: Found, request: Request, version: str, tell: Tell, lend: Lend | None
    ) -> bool | None:
        """Whether a request is to run at once, or has been let wait (False); None: neither."""
        with self._lock:
            runs = self._running.get(found.engine)
            if runs is None:
                runs = self._running[found.engine] = _Runs()
            elif not found.prepared.meets.rows:
                return None
            elif runs.count == found.prepared.meets.runs:
                runs.waiting.append((found, Asked(request, version, self.now(), tell, lend)))
                return False
            runs.count += 1
            return True

    def _end(self, engine: Answers, *, stays: bool) -> None:
        """Run what waits for a request that has been run, until nothing does; unless this thread
        `stays`, let another."""
        while True:
            with self._lock:
                runs = self._running[engine]
                if not runs.waiting:
                    runs.count -= 1
                    if not runs.count:
                        del self._running[engine]
                    return
                waiting, runs.waiting = runs.waiting, []
            if stays:
                self._meet_all(waiting)
            elif self._lends(engine, waiting):
                return
            else:
                for _, asked in waiting:
                    self._hand(asked)

    def _lends(self, engine: Answers, waiting: "Sequence[tuple[Found, Asked]]") -> bool:
        """Whether what waits is run by the thread of one of them, who would be woken anyway."""

        def lead() -> None:
            try:
                self._meet_all(waiting)
            finally:
                self._end(engine, stays=False)

        return any(asked.lend is not None and asked.lend(lead) for _, asked in waiting)

    def _meet_all(self, waiting: "Sequence[tuple[Found, Asked]]") -> None:
        for pipeline in dict.fromkeys(found.prepared for found, _ in waiting):
            self._meet(pipeline, [one for one in waiting if one[0].prepared is pipeline])

    def _meet(self, pipeline: Prepared, waiting: "Sequence[tuple[Found, Asked]]") -> None:
        engine = waiting[0][0].engine
        try:
            engine.meet(pipeline, [asked for _, asked in waiting])
        except EngineClosed:
            for _, asked in waiting:
                self._hand(asked)

    def _hand(self, asked: Asked) -> None:
        try:
            tell_of(self.submit(asked.request, asked.version), asked.tell)
        except Fault as fault:
            asked.tell(fault)

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
        tried: Answers | None = None
        while True:
            found = self.find(request.pipeline, version, request)
            try:
                return start(found)
            except EngineClosed:
                if found.engine is tried:
                    raise
                tried = found.engine


def _called(engine: Answers, request: Request) -> Response | Fault:
    try:
        return engine.call(request, bounded=True)
    except EngineClosed:
        raise
    except Fault as fault:
        return fault


def _waits(request: Request, pipeline: Prepared) -> bool:
    """Whether a request has a time limit, or a turn or resources to wait for."""
    limited = request.deadline is not None or pipeline.plan.deadline is not None
    turn = request.sequence is not None or pipeline.sequences is not None
    return limited or turn or pipeline.takes


def _same(outputs: dict[str, Item]) -> Mapping[str, Item]:
    return outputs
