"""HTTP: an ASGI application for the protocol.

Inference is taken straight from ASGI, before any routing; everything else is in `http_routes.py`.
"""

import asyncio
from concurrent.futures import Future
from typing import NamedTuple

import msgspec
from starlette.types import Receive, Scope, Send

from .awaiting import wait_until_done
from .compression import BodyTooLarge, CodingError, compress, decompress
from .http_routes import STATUS, routes
from .protocols.json_codec import decode_body, encode_body
from .request import RequestError, Response
from .service import Service, explain

_TOO_LARGE = 413
_JSON = (b"content-type", b"application/json")
_BINARY = (b"content-type", b"application/octet-stream")


class _Headers(NamedTuple):
    """What inference needs of the request's headers; `length` is -1 when it is not told."""

    length: int
    json_length: int | None
    encoding: str
    accepted: str


class HttpFront:
    """The ASGI application."""

    def __init__(self, service: Service, version: str) -> None:
        """`version` is the server's, for its metadata."""
        self._service = service
        self._routes = routes(service, version)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            parts = scope["path"].split("/")
            if parts[-1] == "infer" and parts[:3] == ["", "v2", "models"]:
                if len(parts) == 5:
                    return await self._infer(scope, receive, send, parts[3], "")
                if len(parts) == 7 and parts[4] == "versions":
                    return await self._infer(scope, receive, send, parts[3], parts[5])
        return await self._routes(scope, receive, send)

    async def _infer(
        self, scope: Scope, receive: Receive, send: Send, name: str, version: str
    ) -> None:
        request_id = ""
        try:
            headers = _read_headers(scope["headers"])
            body = await _read_body(receive, headers, self._service.limits.body)
            if body is None:
                return
            model = self._service.find(name, version)
            request, binary = decode_body(
                model, body, headers.json_length, self._service.limits, self._service.now()
            )
            request_id = request.id
            outcome = self._service.begin(model, request)
            if isinstance(outcome, Future):
                if not await _done_before_disconnect(outcome, receive):
                    return
                outcome = outcome.result()
            body, json_length = encode_body(model, outcome, binary)
        except BodyTooLarge as error:
            await _reply(send, _TOO_LARGE, _error(str(error)))
        except Exception as error:
            fault = explain(error, request_id)
            await _reply(send, STATUS[fault.code], _error(fault.message))
        else:
            await _reply(send, 200, body, json_length, headers.accepted)


def _read_headers(pairs: list[tuple[bytes, bytes]]) -> _Headers:
    length, json_length, encoding, accepted = -1, None, "", ""
    for name, value in pairs:
        if name == b"content-length":
            length = _number("Content-Length", value)
        elif name == b"inference-header-content-length":
            json_length = _number("Inference-Header-Content-Length", value)
        elif name == b"content-encoding":
            encoding = value.decode("latin-1").strip().lower()
        elif name == b"accept-encoding":
            accepted = value.decode("latin-1")
    return _Headers(length, json_length, "" if encoding == "identity" else encoding, accepted)


def _number(name: str, value: bytes) -> int:
    if not value.isdigit() or len(value) > 18:
        raise RequestError(f"the header {name} is no number")
    return int(value)


async def _read_body(receive: Receive, headers: _Headers, limit: int) -> bytes | None:
    """Return the body, its coding undone; None when the client went away meanwhile."""
    if headers.length > limit:
        raise BodyTooLarge(f"the body has {headers.length} bytes, the limit is {limit}")
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        parts = bytearray(body)
        while message.get("more_body", False):
            message = await receive()
            parts += message.get("body", b"")
            if len(parts) > limit:
                raise BodyTooLarge(f"the body has more than {limit} bytes")
        body = bytes(parts)
    if message["type"] == "http.disconnect":
        return None
    if not headers.encoding:
        return body
    try:
        return decompress(body, headers.encoding, limit)
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


async def _reply(
    send: Send, status: int, body: bytes, json_length: int | None = None, accepted: str = ""
) -> None:
    headers: list[tuple[bytes, bytes]] = [_JSON if json_length is None else _BINARY]
    if json_length is not None:
        headers.append((b"inference-header-content-length", b"%d" % json_length))
    if accepted:
        body, coding = compress(body, accepted)
        if coding is not None:
            headers.append((b"content-encoding", coding.encode()))
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _error(message: str) -> bytes:
    return msgspec.json.encode({"error": message})
