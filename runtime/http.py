"""HTTP: an ASGI application for the protocol.

Inference is taken straight from ASGI, before any routing, or from who reads it (`http_answer.py`);
everything else is in `http_routes.py`.
"""

from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache, partial
from typing import Final, NamedTuple
from urllib.parse import unquote

from httptools import parse_url
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .access import Access
from .compression import BodyTooLarge
from .http_answer import Answer, Begin, Begun, Later, Way
from .http_body import NO_TEXTS, GoneError, as_texts, done_before_disconnect, whole_body
from .http_encode import encode, failed
from .http_generate import as_events, send_only
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
_NO_NUMBER: Final = -1


class _Asked(NamedTuple):
    """The name of a model and the version of it that is asked for, empty where none is."""

    name: str
    version: str
    way: Way


class _Head(NamedTuple):
    """What the head of a request says. `texts` are its headers where the service reads them, else
    none; `json_length` is that of the JSON before binary tensors, None where there are none;
    a coding of the answer may be `accepted`."""

    name: str
    version: str
    way: Way
    headers: Mapping[bytes, bytes]
    texts: Mapping[str, str]
    json_length: int | None
    accepted: bytes | None


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

    def hear(self, target: bytes, headers: dict[bytes, bytes]) -> Begin | None:
        """Return what begins a request that is all there (`http_answer.py`): a task of its own for
        a cheap inference takes as long as much of what is done in it."""
        asked = self._known(target) if len(target) < _LONG else _asked_at(target)
        if asked is None:
            return None
        if b"content-encoding" in headers:
            return lambda _: self
        return partial(self._begin, self._head(asked, headers))

    def _head(self, asked: _Asked, headers: Mapping[bytes, bytes]) -> _Head:
        texts = as_texts(headers) if self._service.reads_headers else NO_TEXTS
        told = headers.get(b"inference-header-content-length")
        length = None if told is None else _number(told)
        return _Head(*asked, headers, texts, length, headers.get(b"accept-encoding"))

    async def _infer(self, scope: Scope, receive: Receive, send: Send, asked: _Asked) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        service, head = self._service, self._head(asked, headers)
        try:
            if service.reads_headers:
                service.extras(head.texts)  # refuses before there is anything to keep
            message = await receive()
            body: Buffer = message.get("body", b"")
            if message.get("more_body") or b"content-encoding" in headers:
                body = await whole_body(message, receive, headers, service, service.limits.body)
        except GoneError:
            return
        except Exception as error:
            await failed(error).send(send)
            return
        begun = self._begin(head, body)
        if isinstance(begun, Answer):
            await begun.send(send)
        elif isinstance(begun, Later):
            with suppress(GoneError):
                await done_before_disconnect(begun.outcome, receive)
                await begun.answer().send(send)
        else:
            await begun(scope, receive, send)

    def _begin(self, head: _Head, body: Buffer) -> Begun:
        """Answer, or return what does when it can."""
        request_id = ""
        try:
            service = self._service
            model, request, deliveries = self._decoded(head, body)
            request_id = request.id
            if head.texts:
                request = service.with_headers(request, head.texts)
            if is_decoupled(model):
                return _streaming(service, head, model, request, deliveries)
            model, outcome = service.begin(model, request, head.version)
            if isinstance(outcome, Future):
                return Later(outcome, partial(_done, outcome, head, model, request_id, deliveries))
            return encode(head.way, model, request_id, outcome, deliveries, head.accepted)
        except Exception as error:
            return failed(error, request_id)

    def _decoded(self, head: _Head, body: Buffer) -> tuple[Model, Request, Deliveries]:
        """Return what is asked for, of which model, and how it is to be answered."""
        service, limits = self._service, self._service.limits
        extras = service.extras(head.texts)
        if head.way is not Way.INFER:
            authorization = head.headers.get(b"authorization", b"").decode("latin-1")
            service.policy.require(Access.INFER, authorization)
        if len(body) > limits.body:
            raise BodyTooLarge(f"the body has {len(body)} bytes, the limit is {limits.body}")
        model = service.find(head.name, head.version)
        try:
            if head.way is not Way.INFER:
                return model, decode_generate(model, bytes(body), limits, service.now()), _PLAIN
            if head.json_length == _NO_NUMBER:
                raise RequestError("the header Inference-Header-Content-Length is no number")
            decoded = decode_body(model, body, head.json_length, limits, service.now, extras)
        except Exception as error:
            service.count_refused(model, error)
            raise
        return model, *decoded


def _asked_at(target: bytes) -> _Asked | None:
    """Return what a POST to a target asks for; the path in it is read as uvicorn reads it."""
    path = parse_url(target).path.decode("ascii")
    return _asked_in(unquote(path) if "%" in path else path)


def _asked_in(path: str) -> _Asked | None:
    """Return of which model an inference is asked for, in which version and form."""
    match path.split("/"):
        case ["", "v2", "models", name, last]:
            version = ""
        case ["", "v2", "models", name, "versions", version, last]:
            pass
        case _:
            return None
    way = _WAYS.get(last)
    return None if way is None else _Asked(name, version, way)


def _streaming(
    service: Service, head: _Head, model: Model, request: Request, deliveries: Deliveries
) -> ASGIApp:
    """Return what answers more than once, or with the only answer that there is; raises the Fault
    where several would go astray."""
    if head.way is Way.GENERATE:
        return partial(send_only, service, model, head.version, request)
    if head.way is Way.EVENTS:
        framing = as_events(request)
    elif KIND in head.headers.get(b"accept", b""):
        framing = as_parts(request, deliveries)
    else:
        cure = f"call generate_stream, or infer with the header `Accept: {KIND.decode()}`"
        told = f"`{model.name}` is a stream and answers more than once: {cure}"
        fault = Fault(Code.UNSUPPORTED, told)
        service.count_refused(model, fault)
        raise fault
    return partial(send_stream, service, model, head.version, request, framing)


def _done(
    outcome: Future[Response], head: _Head, model: Model, request_id: str, deliveries: Deliveries
) -> Answer:
    """Return the answer of a request that is done."""
    try:
        outputs = outcome.result().outputs
        return encode(head.way, model, request_id, outputs, deliveries, head.accepted)
    except Exception as error:
        return failed(error, request_id)


def _number(value: bytes) -> int:
    return int(value) if value.isdigit() and len(value) <= 18 else _NO_NUMBER
