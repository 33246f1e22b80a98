"""Which requests of a server are recorded, and where what was recorded goes.

A request is recorded when it asks for it and the operator lets it, when its caller's own trace is
sampled (W3C `traceparent`) and traces are continued, or by chance, as often as `rate` says. What is
over goes to the sinks in a thread of its own; when that has fallen behind, recordings are dropped
and counted. A client has no say in where anything is written.
"""

import logging
import queue
import random
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, TypeAlias

from ...stdlib.op import Item
from ..prepared import Prepared
from ..repository.route import Served
from ..request import Request, Response
from .recording import Recording

ASKS: Final = "headrace-trace"
"""The header or parameter of a request that asks for its trace: `1` or true."""

_LOG = logging.getLogger(__name__)
_WAITING = 1024
_YES = (True, 1, "1", "true")
_SAMPLED = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]([0-9a-f])(-.*)?")

Begun: TypeAlias = Mapping[str, Item] | Future[Response]
Begin: TypeAlias = Callable[[Served, Request], Begun]


class Sink(Protocol):
    """Takes recordings that are over, one at a time."""

    def take(self, recording: Recording) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Sampling:
    """`rate` is the share of requests recorded unasked; with `on_request` those that ask are too;
    with `continued` those of a caller whose own trace is sampled."""

    rate: float = 0.0
    on_request: bool = False
    continued: bool = False


class Observer:
    """`close` waits until the sinks have what is over, and closes them."""

    def __init__(self, sinks: Sequence[Sink], sampling: Sampling, seed: int | None = None) -> None:
        self._sinks, self._sampling = tuple(sinks), sampling
        self._random = random.Random(seed)
        self._over: queue.Queue[Recording | None] = queue.Queue(_WAITING)
        self.dropped = 0
        self._thread = threading.Thread(target=self._drain, name="headrace-traces", daemon=True)
        self._thread.start()

    @property
    def headers(self) -> "re.Pattern[str]":
        """The headers of a request that it reads, as parameters."""
        return re.compile(f"traceparent|tracestate|{ASKS}")

    @property
    def rate(self) -> float:
        """The share of requests recorded unasked."""
        return self._sampling.rate

    def set_rate(self, rate: float) -> None:
        """Record another share of requests unasked."""
        self._sampling = replace(self._sampling, rate=rate)

    def begin(self, plain: Begin, chosen: Served, request: Request) -> Begun:
        """Begin a request as `plain` would, recorded if it is to be."""
        if not self._wanted(request):
            return plain(chosen, request)
        engine, prepared = chosen.engine, self.ready(chosen, request)
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
        return engine.dispatch(
            prepared,
            request.inputs,
            partial(Response, request.id),
            outputs=request.outputs,
            deadline=request.deadline,
            priority=request.priority,
            sequence=request.sequence,
            request=request,
        )

    def begin_stream(self, chosen: Served, request: Request) -> Prepared:
        """Return the pipeline that answers a stream, recorded if it is to be."""
        return self.ready(chosen, request) if self._wanted(request) else chosen.prepared

    def ready(self, chosen: Served, request: Request) -> Prepared:
        """Return a pipeline that is written down."""
        parameters = request.parameters
        parent = {
            name: str(parameters[name])
            for name in ("traceparent", "tracestate")
            if name in parameters
        }
        prepared, engine = chosen.prepared, chosen.engine
        recording = Recording(
            prepared.plan,
            engine.config.clock,
            values=False,
            request_id=request.id,
            parent=parent,
            over=self._take,
        )
        return engine.watched(prepared.plan.name, recording)

    def close(self) -> None:
        """Hand over what is over, and close the sinks."""
        self._over.put(None)
        self._thread.join()

    def _wanted(self, request: Request) -> bool:
        sampling, parameters = self._sampling, request.parameters
        if parameters:
            if sampling.on_request and parameters.get(ASKS) in _YES:
                return True
            if sampling.continued and (parent := parameters.get("traceparent")) is not None:
                found = _SAMPLED.fullmatch(str(parent))
                if found is not None:  # its caller has decided
                    return bool(int(found[1], 16) & 1)
        return sampling.rate > 0 and self._random.random() < sampling.rate

    def _take(self, recording: Recording) -> None:
        try:
            self._over.put_nowait(recording)
        except queue.Full:
            self.dropped += 1

    def _drain(self) -> None:
        failing: set[int] = set()
        while (recording := self._over.get()) is not None:
            for number, sink in enumerate(self._sinks):
                try:
                    sink.take(recording)
                except Exception:  # such as of a full disk, which is no reason to end a server
                    self.dropped += 1
                    if number not in failing:  # nor to fill what is left of it
                        _LOG.exception("traces cannot be written; it is said when they can again")
                    failing.add(number)
                else:
                    if number in failing:
                        _LOG.error("traces can be written again; %d were dropped", self.dropped)
                        failing.remove(number)
        for sink in self._sinks:
            try:
                sink.close()
            except Exception:
                _LOG.exception("traces could not be written to their end")
