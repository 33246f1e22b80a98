"""HTTP: an ASGI application for the protocol.

Inference is taken straight from ASGI, before any routing; everything else is in `http_routes.py`.
"""

from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache, partial
from urllib.parse import unquote

from httptools import parse_url
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from .compression import BodyTooLarge, compress
from .http_answer import Answer, Asked, Begun, Later
from .http_body import NO_TEXTS, GoneError, as_texts, done_before_disconnect, whole_body
from .http_parts import KIND, begin_parts
from .http_routes import routes
from .http_status import STATUS, TOO_LARGE, error_body, error_headers
from .protocols.deliveries import Deliveries
from .protocols.ext.decoupled import is_decoupled
from .protocols.json_codec import decode_body, encode_body
from .protocols.models import Model
from .protocols.operation import Operation
from .protocols.raw import Buffer
from .request import Code, Fault, Request, RequestError, Response
from .service import Service, explain

_JSON = (b"content-type", b"application/json")
_BINARY = (b"content-type", b"application/octet-stream")
_KNOWN, _LONG = 256, 512  # targets that are known again, and bytes of one that is not kept


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
                return self._infer(scope, receive, send, *asked)
        return self._routes(scope, receive, send)

    def asked(self, target: bytes) -> Asked | None:
        """Return what a POST to a target asks for (`http_answer.py`)."""
        return self._known(target) if len(target) < _LONG else _asked_at(target)

    def begin(self, asked: Asked, headers: dict[bytes, bytes], body: Buffer) -> Begun:
        """Begin a request that is all there (`http_answer.py`): a task of its own for a cheap
        inference takes as long as much of what is done in it."""
        if b"content-encoding" in headers:
            return self
        return self._begin(headers, body, *asked)

    async def _infer(
        self, scope: Scope, receive: Receive, send: Send, name: str, version: str
    ) -> None:
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
            await _failed(error, "").send(send)
            return
        begun = self._begin(headers, body, name, version)
        if isinstance(begun, Answer):
            await begun.send(send)
        elif isinstance(begun, Later):
            with suppress(GoneError):
                await done_before_disconnect(begun.outcome, receive)
                await begun.answer().send(send)
        else:
            await begun(scope, receive, send)

    def _begin(self, headers: dict[bytes, bytes], body: Buffer, name: str, version: str) -> Begun:
        """Answer, or return what does when it can."""
        request_id = ""
        try:
            service, texts = self._service, NO_TEXTS
            if service.reads_headers:
                texts = as_texts(headers)
            extras, limits = service.extras(texts), service.limits
            if len(body) > limits.body:
                raise BodyTooLarge(f"the body has {len(body)} bytes, the limit is {limits.body}")
            json_length = headers.get(b"inference-header-content-length")
            model = service.find(name, version)
            try:
                request, deliveries = decode_body(
                    model,
                    body,
                    None if json_length is None else _number(json_length),
                    limits,
                    service.now(),
                    extras,
                )
            except Exception as error:
                service.count_refused(model, error)
                raise
            request_id = request.id
            if texts:
                request = service.with_headers(request, texts)
            accepted = headers.get(b"accept-encoding")
            if is_decoupled(model):
                _require_parts(service, model, headers)
                return partial(self._send_parts, model, version, request, deliveries)
            model, outcome = service.begin(model, request, version)
            if isinstance(outcome, Future):
                finish = partial(_finished, outcome, model, request_id, deliveries, accepted)
                return Later(outcome, finish)
            content, head = encode_body(model, request_id, outcome, deliveries)
            return _answer(200, content, head, accepted)
        except Exception as error:
            return _failed(error, request_id)

    async def _send_parts(
        self,
        model: Model,
        version: str,
        request: Request,
        deliveries: Deliveries,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer with the responses of a stream."""
        try:
            parts = await begin_parts(self._service, model, version, request, deliveries, receive)
        except GoneError:
            return
        except Exception as error:
            await _failed(error, request.id).send(send)
        else:
            await parts(scope, receive, send)


def _asked_at(target: bytes) -> Asked | None:
    """Return what a POST to a target asks for; the path in it is read as uvicorn reads it."""
    path = parse_url(target).path.decode("ascii")
    return _asked_in(unquote(path) if "%" in path else path)


def _asked_in(path: str) -> Asked | None:
    """Return of which model an inference is asked for, and in which version."""
    match path.split("/"):
        case ["", "v2", "models", name, "infer"]:
            return name, ""
        case ["", "v2", "models", name, "versions", version, "infer"]:
            return name, version
        case _:
            return None


def _finished(
    outcome: Future[Response],
    model: Model,
    request_id: str,
    deliveries: Deliveries,
    accepted: bytes | None,
) -> Answer:
    """Return the answer of a request that is done."""
    try:
        content, head = encode_body(model, request_id, outcome.result().outputs, deliveries)
        return _answer(200, content, head, accepted)
    except Exception as error:
        return _failed(error, request_id)


def _require_parts(service: Service, model: Model, headers: Mapping[bytes, bytes]) -> None:
    """Raise the Fault of who asks for one answer of what answers more than once."""
    if KIND in headers.get(b"accept", b""):
        return
    fault = Fault(
        Code.UNSUPPORTED,
        f"`{model.name}` is a stream and answers more than once: call generate_stream, or infer "
        f"with the header `Accept: {KIND.decode()}`",
    )
    service.count_refused(model, fault)
    raise fault


def _failed(error: Exception, request_id: str) -> Answer:
    if isinstance(error, BodyTooLarge):
        return _answer(TOO_LARGE, error_body(str(error)))
    fault = explain(error, request_id)
    answer = _answer(STATUS[fault.code], error_body(fault.message))
    answer.headers.extend(error_headers(fault))
    return answer


def _number(value: bytes) -> int:
    if not value.isdigit() or len(value) > 18:
        raise RequestError("the header Inference-Header-Content-Length is no number")
    return int(value)


def _answer(
    status: int,
    body: bytes,
    json_length: int | None = None,
    accepted: bytes | None = None,
) -> Answer:
    headers: list[tuple[bytes, bytes]] = [_JSON if json_length is None else _BINARY]
    if json_length is not None:
        headers.append((b"inference-header-content-length", b"%d" % json_length))
    if accepted is not None:
        body, coding = compress(body, accepted)
        if coding is not None:
            headers.append((b"content-encoding", coding))
    headers.append((b"content-length", b"%d" % len(body)))
    return Answer(status, headers, body)
