"""HTTP: the head and the body of a request, as the rest of the server reads them."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import Final

from starlette.requests import Request
from starlette.types import Message, Receive

from .awaiting import wait_until_done
from .compression import BodyTooLarge, CodingError, decompress
from .protocols.raw import Buffer
from .request import RequestError, Response
from .service import Service

_ALIGNMENT = 16  # of bytes that have just been allocated, and no number is wider

NO_TEXTS: Final[Mapping[str, str]] = MappingProxyType({})


def as_texts(headers: Mapping[bytes, bytes]) -> Mapping[str, str]:
    """Return the headers as texts; their names are in lower case already."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers.items()}


class GoneError(Exception):
    """The client went away: nobody is there to be answered."""


async def whole_body(
    message: Message,
    receive: Receive,
    headers: Mapping[bytes, bytes],
    service: Service,
    limit: int,
) -> Buffer:
    """Return the body that begins with `message`, its coding undone; it has `limit` bytes at most.
    What follows the JSON in it stands where any numbers may.

    Raises BodyTooLarge, RequestError where it is not in its coding, GoneError, Fault OVERLOADED.
    """
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > limit:
        raise BodyTooLarge(f"the body has {int(length)} bytes, the limit is {limit}")
    before = _padding(headers)
    parts = bytearray(before)
    parts += message.get("body", b"")
    held = 0
    try:
        while message.get("more_body", False):
            message = await receive()
            more = message.get("body", b"")
            if len(parts) - before + len(more) > limit:
                raise BodyTooLarge(f"the body has more than {limit} bytes")
            service.uploads.take(len(more))
            held += len(more)
            parts += more
    finally:
        service.uploads.give_back(held)
    if message["type"] == "http.disconnect":
        raise GoneError
    coding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
    body = memoryview(parts).toreadonly()[before:]
    if coding == "identity":
        return body
    try:
        return decompress(bytes(body), coding, limit, service.limits.inflation)
    except CodingError as error:
        raise RequestError(str(error)) from None


def _padding(headers: Mapping[bytes, bytes]) -> int:
    """Return how many bytes to put before a body for tensors behind its JSON to be aligned."""
    length = headers.get(b"inference-header-content-length", b"")
    return -int(length[-18:]) % _ALIGNMENT if length.isdigit() else 0


async def request_body(request: Request, service: Service, limit: int) -> bytes:
    """Return the whole body of a request that was routed."""
    message, headers = await request.receive(), dict(request.scope["headers"])
    body = await whole_body(message, request.receive, headers, service, limit)
    if len(body) > limit:
        raise BodyTooLarge(f"the body has more than {limit} bytes")
    return bytes(body)


async def done_before_disconnect(future: Future[Response], receive: Receive) -> None:
    """Wait for the answer; when the client goes away the request is cancelled, and GoneError
    raised."""
    done = asyncio.ensure_future(wait_until_done(future))
    gone = asyncio.ensure_future(disconnected(receive))
    try:
        await asyncio.wait((done, gone), return_when=asyncio.FIRST_COMPLETED)
        if not done.done():
            raise GoneError
    finally:
        done.cancel()
        gone.cancel()


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass
