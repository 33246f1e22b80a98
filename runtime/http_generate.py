"""HTTP: inference with plain JSON in and out, once or as server-sent events."""

from collections.abc import AsyncIterator
from concurrent.futures import Future

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from .http_body import as_texts, before_disconnect, done_before_disconnect, request_body
from .http_status import error_body
from .http_stream import Reader
from .protocols.ext.decoupled import is_decoupled
from .protocols.generate_codec import decode_generate, encode_generate
from .protocols.models import Model
from .request import Code, Fault
from .request import Request as Asked
from .service import Service, explain


async def generate(service: Service, request: Request) -> Response:
    """Answer once."""
    model, version, asked = await _decoded(service, request)
    if is_decoupled(model):
        fault = Fault(
            Code.UNSUPPORTED,
            f"`{model.name}` is a stream and answers more than once: call generate_stream",
        )
        service.count_refused(model, fault)
        raise fault
    body = await _once(service, model, version, asked, request.receive)
    return Response(body, media_type="application/json")


async def generate_stream(service: Service, request: Request) -> Response:
    """Answer with an event for each response. What goes wrong before the first is a status, what
    goes wrong later an event with an `error`."""
    model, version, asked = await _decoded(service, request)
    if not is_decoupled(model):
        body = await _once(service, model, version, asked, request.receive)
        return Response(_event(body), media_type=_EVENTS)
    reader = Reader(
        service,
        model,
        version,
        asked,
        lambda answering, outputs: encode_generate(answering, asked.id, outputs),
    )
    try:
        first = await before_disconnect(reader.take(), request.receive)
    except BaseException:
        reader.cancel()
        raise
    return _EventResponse(reader, first, asked.id)


_EVENTS = "text/event-stream"


def _event(body: bytes) -> bytes:
    return b"data: %b\n\n" % body


async def _decoded(service: Service, request: Request) -> tuple[Model, str, Asked]:
    version: str = request.path_params.get("version", "")
    model = service.find(request.path_params["name"], version)
    body = await request_body(request, service, service.limits.body)
    try:
        asked = decode_generate(model, body, service.limits, service.now())
    except Exception as error:
        service.count_refused(model, error)
        raise
    request.state.request_id = asked.id
    if service.reads_headers:
        asked = service.with_headers(asked, as_texts(dict(request.scope["headers"])))
    return model, version, asked


async def _once(
    service: Service, model: Model, version: str, asked: Asked, receive: Receive
) -> bytes:
    model, outcome = service.begin(model, asked, version)
    if isinstance(outcome, Future):
        await done_before_disconnect(outcome, receive)
        outcome = outcome.result().outputs
    return encode_generate(model, asked.id, outcome)


class _EventResponse(StreamingResponse):
    """Events until the stream is over; one whose reader goes away is cancelled."""

    def __init__(self, reader: Reader, first: list[bytes], request_id: str) -> None:
        super().__init__(self._events(first, request_id), media_type=_EVENTS)
        self.headers["cache-control"] = "no-cache"
        self._reader = reader

    async def _events(self, found: list[bytes], request_id: str) -> AsyncIterator[bytes]:
        try:
            while found:
                yield b"".join(map(_event, found))
                found = await self._reader.take()
        except Fault as fault:
            yield _event(error_body(explain(fault, request_id).message))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._reader.cancel()
