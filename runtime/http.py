"""HTTP: an ASGI application for the protocol.

Inference is taken straight from ASGI, before any routing, or from who reads it (`http_answer.py`);
everything else is in `http_routes.py`.
"""

from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache, partial
from urllib.parse import unquote

from httptools import parse_url
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .access import Access
from .compression import BodyTooLarge
from .http_answer import Answer, Asked, Begun, Later, Way
from .http_body import NO_TEXTS, GoneError, as_texts, done_before_disconnect, whole_body
from .http_encode import encode, failed
from .http_generate import as_events
from .http_parts import KIND, as_parts
from .http_routes import routes
from .http_stream import send_stream
from .protocols.deliveries import Deliveries
from .protocols.ext.decoupled import is_decoupled
from .protocols.generate_codec import decode_generate
from .protocols.json_codec import decode_body
from .protocols.models import Model
from .protocols.operation import Operation
from .protocols.raw import Buffer
from .request import Code, Fault, Request, RequestError, Response
from .service import Service

_KNOWN, _LONG = 256, 512  # targets that are known again, and bytes of one that is not kept
_WAYS = {way.value: way for way in Way}
_PLAIN = Deliveries(False)


class HttpFront:
    """The ASGI application."""

    def __init__(
        self, service: Service, operations: Sequence[Operation], page: Sequence[Route] = ()
    ) -> None:
        self._service = service
        self._routes = routes(service, operations, page)
        self._known = lru_cache(_KNOWN)(_asked_at)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http" and scope["method"] == "POST":
            asked = _asked_in(scope["path"])
            if asked is not None:
                return self._infer(scope, receive, send, asked)
        return self._routes(scope, receive, send)

    def asked(self, target: bytes) -> Asked | None:
        """Return what a POST to a target asks for (`http_answer.py`)."""
        return self._known(target) if len(target) < _LONG else _asked_at(target)

    def begin(self, asked: Asked, headers: dict[bytes, bytes], body: Buffer) -> Begun:
        """Begin a request that is all there (`http_answer.py`): a task of its own for a cheap
        inference takes as long as much of what is done in it."""
        if b"content-encoding" in headers:
            return self
        return self._begin(asked, headers, body)

    async def _infer(self, scope: Scope, receive: Receive, send: Send, asked: Asked) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        service = self._service
        try:
            if service.reads_headers:
                service.extras(as_texts(headers))  # refuses before there is anything to keep
            message = await receive()
            body: Buffer = message.get("body", b"")
            if message.get("more_body") or b"content-encoding" in headers:
                body = await whole_body(message, receive, headers, service, service.limits.body)
        except GoneError:
            return
        except Exception as error:
            await failed(error).send(send)
            return
        begun = self._begin(asked, headers, body)
        if isinstance(begun, Answer):
            await begun.send(send)
        elif isinstance(begun, Later):
            with suppress(GoneError):
                await done_before_disconnect(begun.outcome, receive)
                await begun.answer().send(send)
        else:
            await begun(scope, receive, send)

    def _begin(self, asked: Asked, headers: dict[bytes, bytes], body: Buffer) -> Begun:
        """Answer, or return what does when it can."""
        request_id = ""
        way = asked.way
        try:
            service, texts = self._service, NO_TEXTS
            if service.reads_headers:
                texts = as_texts(headers)
            model, request, deliveries = self._decoded(asked, headers, texts, body)
            request_id = request.id
            if texts:
                request = service.with_headers(request, texts)
            if is_decoupled(model):
                return _streaming(service, asked, model, headers, request, deliveries)
            model, outcome = service.begin(model, request, asked.version)
            accepted = headers.get(b"accept-encoding")
            if isinstance(outcome, Future):
                answer = partial(_done, outcome, way, model, request_id, deliveries, accepted)
                return Later(outcome, answer)
            return encode(way, model, request_id, outcome, deliveries, accepted)
        except Exception as error:
            return failed(error, request_id)

    def _decoded(
        self, asked: Asked, headers: dict[bytes, bytes], texts: Mapping[str, str], body: Buffer
    ) -> tuple[Model, Request, Deliveries]:
        """Return what is asked for, of which model, and how it is to be answered."""
        service, limits = self._service, self._service.limits
        extras = service.extras(texts)
        if asked.way is not Way.INFER:
            authorization = headers.get(b"authorization", b"").decode("latin-1")
            service.policy.require(Access.INFER, authorization)
        if len(body) > limits.body:
            raise BodyTooLarge(f"the body has {len(body)} bytes, the limit is {limits.body}")
        model = service.find(asked.name, asked.version)
        try:
            if asked.way is not Way.INFER:
                return model, decode_generate(model, bytes(body), limits, service.now()), _PLAIN
            told = headers.get(b"inference-header-content-length")
            json_length = None if told is None else _number(told)
            decoded = decode_body(model, body, json_length, limits, service.now(), extras)
        except Exception as error:
            service.count_refused(model, error)
            raise
        return model, *decoded


def _asked_at(target: bytes) -> Asked | None:
    """Return what a POST to a target asks for; the path in it is read as uvicorn reads it."""
    path = parse_url(target).path.decode("ascii")
    return _asked_in(unquote(path) if "%" in path else path)


def _asked_in(path: str) -> Asked | None:
    """Return of which model an inference is asked for, in which version and form."""
    match path.split("/"):
        case ["", "v2", "models", name, last]:
            version = ""
        case ["", "v2", "models", name, "versions", version, last]:
            pass
        case _:
            return None
    way = _WAYS.get(last)
    return None if way is None else Asked(name, version, way)


def _streaming(
    service: Service,
    asked: Asked,
    model: Model,
    headers: Mapping[bytes, bytes],
    request: Request,
    deliveries: Deliveries,
) -> ASGIApp:
    """Return what answers more than once; raises the Fault where one answer is asked for."""
    if asked.way is Way.EVENTS:
        framing = as_events(request)
    elif asked.way is Way.INFER and KIND in headers.get(b"accept", b""):
        framing = as_parts(request, deliveries)
    else:
        cure = "call generate_stream"
        if asked.way is Way.INFER:
            cure += f", or infer with the header `Accept: {KIND.decode()}`"
        told = f"`{model.name}` is a stream and answers more than once: {cure}"
        fault = Fault(Code.UNSUPPORTED, told)
        service.count_refused(model, fault)
        raise fault
    return partial(send_stream, service, model, asked.version, request, framing)


def _done(
    outcome: Future[Response],
    way: Way,
    model: Model,
    request_id: str,
    deliveries: Deliveries,
    accepted: bytes | None,
) -> Answer:
    """Return the answer of a request that is done."""
    try:
        return encode(way, model, request_id, outcome.result().outputs, deliveries, accepted)
    except Exception as error:
        return failed(error, request_id)


def _number(value: bytes) -> int:
    if not value.isdigit() or len(value) > 18:
        raise RequestError("the header Inference-Header-Content-Length is no number")
    return int(value)
