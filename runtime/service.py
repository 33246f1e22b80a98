"""What is served: models by name, the engines behind them, and whether new requests are welcome.

The front ends share one Service. It knows neither HTTP nor gRPC; they know of engines only this.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future

from ..stdlib.op import Item
from .engine import Engine
from .prepared import Prepared
from .protocols.limits import Limits
from .protocols.models import Model, model_of, unknown_model
from .protocols.names import shown
from .request import Code, Fault, Request, RequestError, Response
from .streams import Stream

_LOG = logging.getLogger(__name__)


class Service:
    """The models of some engines, each in one version; an empty version means that one."""

    def __init__(self, engines: Sequence[Engine], version: str, limits: Limits) -> None:
        self._prepared: dict[str, tuple[Engine, Prepared]] = {}
        self._models: dict[str, Model] = {}
        self._ready = False
        self.limits = limits
        self._engines = tuple(engines)
        self._clock = engines[0].config.clock
        for engine in engines:
            for pipeline in engine.plan.pipelines:
                if pipeline.name in self._models:
                    raise ValueError(f"two plans hold a pipeline `{pipeline.name}`")
                self._models[pipeline.name] = model_of(engine.plan, pipeline, version)
                self._prepared[pipeline.name] = (engine, engine.pipeline(pipeline.name))

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models.values())

    @property
    def engines(self) -> Sequence[Engine]:
        return self._engines

    @property
    def ready(self) -> bool:
        return self._ready

    def set_ready(self, ready: bool) -> None:
        self._ready = ready

    def find(self, name: str, version: str = "") -> Model:
        """Return the model; Fault NOT_FOUND when it is not served in that version."""
        model = self._models.get(name)
        if model is None or (version and version != model.version):
            raise unknown_model(name, version)
        return model

    def now(self) -> float:
        """Return the time on the engines' clock, which deadlines are told on."""
        return self._clock()

    def begin(self, model: Model, request: Request) -> Mapping[str, Item] | Future[Response]:
        """Start a request. A cheap pipeline has run when this returns its results; others give a
        Future."""
        if not self._ready:
            raise Fault(Code.UNAVAILABLE, "the server is not ready for requests")
        if model.pipeline.stream:
            raise Fault(
                Code.UNSUPPORTED,
                f"`{model.name}` is a stream and answers more than once: call ModelStreamInfer",
            )
        engine, prepared = self._prepared[model.name]
        if prepared.cheap:
            return engine.run(
                prepared, request.inputs, request.outputs, request.deadline, request.sequence
            )
        return engine.submit(request)

    def open(
        self,
        model: Model,
        request: Request,
        make: Callable[[dict[str, Item]], bytes],
        notify: Callable[[], object],
    ) -> Stream[bytes]:
        """Start a request to a stream; `make` encodes each response, `notify` tells of one."""
        if not self._ready:
            raise Fault(Code.UNAVAILABLE, "the server is not ready for requests")
        if request.outputs is not None:
            raise RequestError(f"what `{model.name}` emits comes whole: name no outputs")
        engine, prepared = self._prepared[model.name]
        if request.sequence is not None:
            prepared.ask(request.sequence)  # says that a stream keeps nothing
        return engine.open_stream(
            prepared,
            request.inputs,
            make,
            notify,
            deadline=request.deadline,
            priority=request.priority,
        )


def explain(error: BaseException, request_id: str = "") -> Fault:
    """Return the Fault to answer with, its message complete, and log what the caller cannot mend.

    Anything but a Fault is a bug of ours: the caller learns that it is one, the log learns more.
    """
    mark = f"[request id: {shown(request_id)}] " if request_id else ""
    if isinstance(error, CancelledError):
        return Fault(Code.CANCELLED, f"{mark}the request was cancelled")
    if not isinstance(error, Fault):
        _LOG.error("%sa bug in headrace", mark, exc_info=error)
        return Fault(Code.INTERNAL, f"{mark}internal error in headrace; its log has more")
    if error.code in (Code.FAILED, Code.INTERNAL):
        _LOG.error("%s%s %s", mark, ascii(str(error)), ascii(error.detail))
    return Fault(error.code, mark + str(error))
