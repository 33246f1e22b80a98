"""HTTP: an ASGI application for the protocol.

Inference is taken straight from ASGI, before any routing; everything else is in `http_routes.py`.
"""

import asyncio
import math
from collections.abc import Awaitable, Mapping
from concurrent.futures import Future

import msgspec
from starlette.types import Message, Receive, Scope, Send

from .awaiting import wait_until_done
from .compression import BodyTooLarge, CodingError, compress, decompress
from .http_routes import STATUS, routes
from .protocols.json_codec import decode_body, encode_body
from .request import RequestError, Response
from .service import Service, explain

_TOO_LARGE = 413
_JSON = (b"content-type", b"application/json")
_BINARY = (b"content-type", b"application/octet-stream")


class HttpFront:
    """The ASGI application."""

    def __init__(self, service: Service, version: str) -> None:
        """`version` is the server's, for its metadata."""
        self._service = service
        self._routes = routes(service, version)

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
            limits = self._service.limits
            message = await receive()
            body = message.get("body", b"")
            if message.get("more_body") or b"content-encoding" in headers:
                body = await _whole_body(message, receive, headers, limits.body)
            if len(body) > limits.body:
                raise BodyTooLarge(f"the body has more than {limits.body} bytes")
            json_length = headers.get(b"inference-header-content-length")
            model = self._service.find(name, version)
            request, binary = decode_body(
                model,
                body,
                None if json_length is None else _number(json_length),
                limits,
                self._service.now(),
            )
            request_id = request.id
            model, outcome = self._service.begin(model, request, version)
            if isinstance(outcome, Future):
                if not await _done_before_disconnect(outcome, receive):
                    return
                outcome = outcome.result().outputs
            body, json_length = encode_body(model, request_id, outcome, binary)
        except _GoneError:
            return
        except BodyTooLarge as error:
            start, end = _answer(_TOO_LARGE, _error(str(error)))
        except Exception as error:
            fault = explain(error, request_id)
            start, end = _answer(
                STATUS[fault.code], _error(fault.message), retry_after=fault.retry_after
            )
        else:
            start, end = _answer(200, body, json_length, headers.get(b"accept-encoding"))
        await send(start)
        await send(end)


class _GoneError(Exception):
    """The client went away while it was sending."""


def _number(value: bytes) -> int:
    if not value.isdigit() or len(value) > 18:
        raise RequestError("the header Inference-Header-Content-Length is no number")
    return int(value)


async def _whole_body(
    message: Message, receive: Receive, headers: Mapping[bytes, bytes], limit: int
) -> bytes:
    """Return the body that begins with `message`, its coding undone."""
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > limit:
        raise BodyTooLarge(f"the body has {int(length)} bytes, the limit is {limit}")
    parts = bytearray(message.get("body", b""))
    while message.get("more_body", False):
        message = await receive()
        parts += message.get("body", b"")
        if len(parts) > limit:
            raise BodyTooLarge(f"the body has more than {limit} bytes")
    if message["type"] == "http.disconnect":
        raise _GoneError
    coding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
    if coding == "identity":
        return bytes(parts)
    try:
        return decompress(bytes(parts), coding, limit)
    except CodingError as error:
        raise RequestError(str(error)) from None


async def _done_before_disconnect(future: Future[Response], receive: Receive) -> bool:
    """Wait for the answer or for the client to go away, which cancels the request."""
    done = asyncio.ensure_future(wait_until_done(future))
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((done, gone), return_when=asyncio.FIRST_COMPLETED)
        return done.done()
    finally:
        done.cancel()
        gone.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _answer(
    status: int,
    body: bytes,
    json_length: int | None = None,
    accepted: bytes | None = None,
    retry_after: float | None = None,
) -> tuple[Message, Message]:
    """Return the two messages of an answer."""
    headers: list[tuple[bytes, bytes]] = [_JSON if json_length is None else _BINARY]
    if json_length is not None:
        headers.append((b"inference-header-content-length", b"%d" % json_length))
    if accepted is not None:
        body, coding = compress(body, accepted)
        if coding is not None:
            headers.append((b"content-encoding", coding))
    if retry_after is not None:  # whole seconds, says RFC 9110
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(retry_after))))
    headers.append((b"content-length", b"%d" % len(body)))
    return (
        {"type": "http.response.start", "status": status, "headers": headers},
        {"type": "http.response.body", "body": body},
    )


def _error(message: str) -> bytes:
    return msgspec.json.encode({"error": message})
