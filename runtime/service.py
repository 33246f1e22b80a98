"""What is served: models by name and version, and whether new requests are welcome.

The front ends share one Service. It knows neither HTTP nor gRPC; they know of engines only this.
"""

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from ..stdlib.op import Item
from .access import DEFAULT, Access, Policy
from .extras import Extras, Labels
from .observe.log import fields_of, printable
from .observe.observer import Observer
from .protocols.forwarding import with_headers
from .protocols.limits import Limits
from .protocols.models import Model, unknown_model
from .protocols.names import shown
from .regions import Regions
from .repository.figures import Figures, Loaded, figures_of
from .repository.repository import Repository
from .repository.route import Route, Served
from .request import Code, EngineClosed, Fault, Remarked, Request, Response
from .rounds import Rounds
from .siblings import Siblings
from .streams import Stream
from .uploads import Uploads

_LOG = logging.getLogger(__name__)
_OUR_BUG = "internal error in headrace; its log has more"


class Service:
    """A repository's models. An empty version means whichever the repository gives."""

    def __init__(
        self,
        repository: Repository,
        limits: Limits,
        policy: Policy = DEFAULT,
        regions: Regions | None = None,
        labels: Labels = MappingProxyType({}),
        forwarded: "re.Pattern[str] | None" = None,
        observer: Observer | None = None,
        siblings: Siblings | None = None,
    ) -> None:
        """`regions` is memory that is shared with clients, None where it is not. Headers whose
        lower-case names match `forwarded` are parameters of a request. An `observer` records some
        of them. `siblings` are the other processes of this server."""
        self.observer, self._siblings = observer, siblings
        self.now = repository.now
        """Returns the time on the engines' clock, which deadlines are told on."""
        self.rounds = Rounds()
        """Those in which the threads of front ends read requests."""
        begin = partial(_begin, self.rounds)
        self._begin = begin if observer is None else partial(observer.begin, begin)
        self.repository, self.limits, self.policy = repository, limits, policy
        self.uploads = Uploads(limits.uploads)
        self.regions, self._labels, self._forwarded = regions, labels, forwarded
        closed = not policy.is_open(Access.INFER)
        asks_who = closed or policy.tokens != ()
        self.reads_headers = asks_who or forwarded is not None
        self._simple = regions is None and not asks_who
        self._plain = Extras(None, labels)
        self._open = False
        self._watchers: set[Callable[[], object]] = set()
        self._watching = threading.Lock()

    def __iter__(self) -> Iterator[Model]:
        routes = self.repository.routes.values()
        return iter([one.main.model for one in routes if one.main is not None])

    @property
    def ready(self) -> bool:
        """Whether requests are welcome, and all that is served can answer them."""
        return not self.unready()

    def unready(self) -> tuple[str, ...]:
        """Return why the server is not ready, each reason a sentence; none when it is."""
        if not self._open:
            return ("the server starts or stops",)
        return self.repository.unready()

    def set_ready(self, ready: bool) -> None:
        """Say whether new requests are welcome."""
        self._open = ready
        with self._watching:
            watchers = list(self._watchers)
        for notify in watchers:
            notify()

    def watch(self, notify: Callable[[], object]) -> Callable[[], None]:
        """Let `notify` be called, by any thread, when new requests are or are not welcome any more;
        returns what ends that."""
        with self._watching:
            self._watchers.add(notify)

        def end() -> None:
            with self._watching:
                self._watchers.discard(notify)

        return end

    def model_ready(self, name: str, version: str = "") -> bool:
        """Whether a model answers requests; Fault NOT_FOUND when nobody knows it."""
        model = self.find(name, version)
        live = self.repository.routes[name].versions.get(model.version)
        return self._open and live is not None and not live.engine.unready

    def ready_everywhere(self, name: str = "", version: str = "") -> "bool | Future[bool]":
        """As `ready`, or with a name `model_ready`, of all processes of this server."""
        own = self.model_ready(name, version) if name else self.ready
        return own if self._siblings is None or not own else self._siblings.ready(name, version)

    def figures(self) -> "Figures | Future[Figures]":
        """Return what all processes of this server have counted."""
        if self._siblings is not None:
            return self._siblings.figures()
        return figures_of(self.repository)

    def loaded(self, served: Served) -> "Loaded | Future[Loaded]":
        """Return what all processes of this server have counted of a version."""
        model, engine = served.model, served.engine
        if self._siblings is not None:
            return self._siblings.loaded(self.repository.app_of(model.name), model.version)
        return Loaded(self.now() - engine.age, engine.metrics)

    def find(self, name: str, version: str = "") -> Model:
        """Return the model that requests to a version look like; Fault NOT_FOUND when there is
        none. One that drains is found while sequences live on it."""
        route = self.repository.routes.get(name)
        served = route.known(version) if route is not None else None
        if served is None:
            raise unknown_model(name, version)
        return served.model

    def versions(self, name: str) -> tuple[str, ...]:
        """Return the versions in which a model is served."""
        route = self.repository.routes.get(name)
        return () if route is None else tuple(route.versions)

    def extras(self, headers: Mapping[str, str]) -> Extras:
        """Return what an inference may use besides its model; raises the Fault where it is not the
        caller's to ask for. `headers` are needed where `reads_headers` says so."""
        if self._simple:
            return self._plain
        caller = self.policy.require(Access.INFER, headers.get("authorization"))
        if self.regions is None or Access.MEMORY not in caller.may:
            return self._plain
        return Extras(self.regions.lend(caller.name, self.limits.shared), self._labels)

    def with_headers(self, request: Request, headers: Mapping[str, str]) -> Request:
        """Return the request with the headers that are forwarded as its parameters."""
        if self._forwarded is None:
            return request
        return with_headers(request, headers, self._forwarded)

    def count_refused(self, model: Model, error: Exception) -> None:
        """Count a request to a model that could not be read as one."""
        route = self.repository.routes.get(model.name)
        served = None if route is None else route.known(model.version)
        if served is not None:
            served.engine.count_refused(served.prepared, error)

    def begin(
        self, model: Model, request: Request, version: str = ""
    ) -> "tuple[Model, Mapping[str, Item] | Future[Response]]":
        """Start a request of which `find` gave the model for `version`, as asked for.

        Returns whose answer it is, and the answer: a cheap pipeline has run by then, others give a
        Future.
        """
        if model.pipeline.stream:
            fault = Fault(
                Code.UNSUPPORTED,
                f"`{model.name}` is a stream and answers more than once: call ModelStreamInfer",
            )
            self.count_refused(model, fault)
            raise fault
        route, chosen, outcome = self._with_chosen(model.name, version, request, self._begin)
        for shadow in route.shadows:
            if shadow.version != chosen.model.version and shadow.watches(request):
                shadow.show(request, outcome)
        return chosen.model, outcome

    def open(
        self,
        model: Model,
        request: Request,
        make: Callable[[Model, dict[str, Item]], bytes],
        notify: Callable[[], object],
        version: str = "",
    ) -> Stream[bytes]:
        """Start a request to a stream; `make` encodes each response, `notify` tells of one."""

        def start(chosen: Served) -> Stream[bytes]:
            prepared = chosen.prepared
            if self.observer is not None:
                prepared = self.observer.begin_stream(chosen, request)
            return chosen.engine.open_stream(
                prepared,
                request.inputs,
                lambda outputs: make(chosen.model, _wanted(outputs, request.outputs)),
                notify,
                deadline=request.deadline,
                priority=request.priority,
                sequence=request.sequence,
                request=request,
            )

        return self._with_chosen(model.name, version, request, lambda chosen, _: start(chosen))[2]

    def _with_chosen(
        self, name: str, version: str, request: Request, start: "Start[Started]"
    ) -> "tuple[Route, Served, Started]":
        """Start a request where it is routed; anew when that engine was closed in between."""
        tried: Served | None = None
        while True:
            if not self._open:
                raise EngineClosed("the server is not ready for requests")
            route = self.repository.routes.get(name)
            chosen = route.pick(version, request) if route is not None else None
            if route is None or chosen is None:
                raise unknown_model(name, version)
            try:
                started = start(chosen, request)
            except EngineClosed:
                if chosen is tried:
                    raise  # somebody else's engine, which they have closed
                tried = chosen
                continue
            sequence = request.sequence
            if sequence is not None and sequence.start and not route.simple:
                for other in route.others(chosen):
                    other.forget(sequence)
            return route, chosen, started


Started = TypeVar("Started")
Start: TypeAlias = Callable[[Served, Request], Started]


def _begin(
    rounds: Rounds, chosen: Served, request: Request
) -> Mapping[str, Item] | Future[Response]:
    engine, prepared = chosen.engine, chosen.prepared
    if prepared.cheap:
        return engine.run(
            prepared,
            request.inputs,
            request.outputs,
            request.deadline,
            request.sequence,
            request,
            request.priority,
            bounded=True,
        )
    return engine.submit(request, rounds=rounds)


def _wanted(outputs: dict[str, Item], names: tuple[str, ...] | None) -> dict[str, Item]:
    """Return of what was emitted what was asked for, in that order."""
    if names is None:
        return outputs
    found = {name: outputs[name] for name in names}
    return Remarked(found, outputs.parameters) if isinstance(outputs, Remarked) else found


def explain(error: BaseException, request_id: str = "") -> Fault:
    """Return the Fault to answer with, its message complete, and log it: what the caller cannot
    mend as an error, the rest as news that few want.

    Anything but a Fault, and one that is INTERNAL, is a bug of ours: the caller learns that it is
    one, the log learns more.
    """
    mark = f"[request id: {shown(request_id)}] " if request_id else ""
    if isinstance(error, CancelledError):
        return Fault(Code.CANCELLED, f"{mark}the request was cancelled")
    if not isinstance(error, Fault):
        bug = Fault(Code.INTERNAL, "a bug in headrace")
        _LOG.error("%sa bug in headrace", mark, exc_info=error, extra=fields_of(bug, request_id))
        return Fault(Code.INTERNAL, f"{mark}{_OUR_BUG}")
    level = logging.ERROR if error.code in (Code.FAILED, Code.INTERNAL) else logging.INFO
    if _LOG.isEnabledFor(level):
        _LOG.log(level, "%s%s", mark, printable(str(error)), extra=fields_of(error, request_id))
    if error.code is Code.INTERNAL:
        return Fault(Code.INTERNAL, f"{mark}{_OUR_BUG}")
    answer = copy(error)
    answer.message = mark + str(error)
    return answer
