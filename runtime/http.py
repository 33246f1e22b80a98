"""HTTP: an ASGI application for the protocol.

Inference is taken straight from ASGI, before any routing; everything else is in `http_routes.py`.
"""

from collections.abc import Awaitable, Sequence
from concurrent.futures import Future

from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from .compression import BodyTooLarge, compress
from .http_body import NO_TEXTS, GoneError, as_texts, done_before_disconnect, whole_body
from .http_parts import KIND, begin_parts
from .http_routes import routes
from .http_status import STATUS, TOO_LARGE, error_body, error_headers
from .protocols.ext.decoupled import is_decoupled
from .protocols.json_codec import decode_body, encode_body
from .protocols.operation import Operation
from .protocols.raw import Buffer
from .request import RequestError
from .service import Service, explain

_JSON = (b"content-type", b"application/json")
_BINARY = (b"content-type", b"application/octet-stream")


class HttpFront:
    """The ASGI application."""

    def __init__(
        self, service: Service, operations: Sequence[Operation], page: Sequence[Route] = ()
    ) -> None:
        self._service = service
        self._routes = routes(service, operations, page)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http" and scope["method"] == "POST":
            match scope["path"].split("/"):
                case ["", "v2", "models", name, "infer"]:
                    return self._infer(scope, receive, send, name, "")
                case ["", "v2", "models", name, "versions", version, "infer"]:
                    return self._infer(scope, receive, send, name, version)
                case _:
                    pass
        return self._routes(scope, receive, send)

    async def _infer(
        self, scope: Scope, receive: Receive, send: Send, name: str, version: str
    ) -> None:
        request_id = ""
        try:
            headers: dict[bytes, bytes] = dict(scope["headers"])
            service, texts = self._service, NO_TEXTS
            if service.reads_headers:
                texts = as_texts(headers)
            extras, limits = service.extras(texts), service.limits
            message = await receive()
            body: Buffer = message.get("body", b"")
            if message.get("more_body") or b"content-encoding" in headers:
                body = await whole_body(message, receive, headers, service, limits.body)
            if len(body) > limits.body:
                raise BodyTooLarge(f"the body has more than {limits.body} bytes")
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
            parts, content, head = None, b"", None
            if is_decoupled(model) and KIND in headers.get(b"accept", b""):
                parts = await begin_parts(service, model, version, request, deliveries, receive)
            else:
                model, outcome = service.begin(model, request, version)
                if isinstance(outcome, Future):
                    await done_before_disconnect(outcome, receive)
                    outcome = outcome.result().outputs
                content, head = encode_body(model, request_id, outcome, deliveries)
        except GoneError:
            return
        except BodyTooLarge as error:
            start, end = _answer(TOO_LARGE, error_body(str(error)))
        except Exception as error:
            fault = explain(error, request_id)
            start, end = _answer(STATUS[fault.code], error_body(fault.message))
            start["headers"] += error_headers(fault)
        else:
            if parts is not None:
                await parts(scope, receive, send)
                return
            start, end = _answer(200, content, head, headers.get(b"accept-encoding"))
        await send(start)
        await send(end)


def _number(value: bytes) -> int:
    if not value.isdigit() or len(value) > 18:
        raise RequestError("the header Inference-Header-Content-Length is no number")
    return int(value)


def _answer(
    status: int,
    body: bytes,
    json_length: int | None = None,
    accepted: bytes | None = None,
) -> tuple[Message, Message]:
    """Return the two messages of an answer."""
    headers: list[tuple[bytes, bytes]] = [_JSON if json_length is None else _BINARY]
    if json_length is not None:
        headers.append((b"inference-header-content-length", b"%d" % json_length))
    if accepted is not None:
        body, coding = compress(body, accepted)
        if coding is not None:
            headers.append((b"content-encoding", coding))
    headers.append((b"content-length", b"%d" % len(body)))
    return (
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
    )
