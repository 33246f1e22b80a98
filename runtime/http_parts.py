"""HTTP: a stream's responses as the parts of one answer (RFC 2046, multipart/mixed).

`infer` of a pipeline that is a stream, asked for with `Accept: multipart/mixed`, answers with a
part for each response, in the form that `infer` has otherwise: its JSON, and binary tensors behind
it. What goes wrong before the first is a status, what goes wrong later a part with an `error`.
"""

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ..stdlib.op import Item
from .http_body import before_disconnect
from .http_status import error_body, error_headers
from .http_stream import Reader
from .protocols.deliveries import Deliveries
from .protocols.json_codec import encode_body
from .protocols.models import Model
from .request import Fault, Request
from .service import Service, explain

KIND: Final = b"multipart/mixed"


async def begin_parts(
    service: Service,
    model: Model,
    version: str,
    request: Request,
    deliveries: Deliveries,
    receive: Receive,
) -> "Parts":
    """Return the answer when its first response is there; raises the Fault of a request that fails
    before."""

    def encode(answering: Model, outputs: Mapping[str, Item]) -> bytes:
        body, json_length = encode_body(answering, request.id, outputs, deliveries)
        length = [] if json_length is None else [(b"inference-header-content-length", json_length)]
        return _part(body, [(name, b"%d" % value) for name, value in length])

    reader = Reader(service, model, version, request, encode)
    try:
        first = await before_disconnect(reader.take(), receive)
    except BaseException:
        reader.cancel()
        raise
    return Parts(reader, first, request.id)


def _part(body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the headers and the body of a part; the boundary goes before."""
    head = b"".join(b"%b: %b\r\n" % one for one in headers)
    return b"content-length: %d\r\n%b\r\n%b\r\n" % (len(body), head, body)


class Parts(StreamingResponse):
    """Parts until the stream is over; one whose reader goes away is cancelled."""

    def __init__(self, reader: Reader, first: list[bytes], request_id: str) -> None:
        boundary = secrets.token_hex(16)
        self._line = b"--%b" % boundary.encode()
        self._reader = reader
        content_type = f"{KIND.decode()}; boundary={boundary}"
        super().__init__(self._parts(first, request_id), headers={"content-type": content_type})

    async def _parts(self, found: list[bytes], request_id: str) -> AsyncIterator[bytes]:
        try:
            while found:
                for one in found:
                    yield b"%b\r\n%b" % (self._line, one)
                found = await self._reader.take()
        except Fault as fault:
            told = explain(fault, request_id)
            part = _part(error_body(told.message), error_headers(told))
            yield b"%b\r\n%b" % (self._line, part)
        yield b"%b--\r\n" % self._line

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._reader.cancel()
