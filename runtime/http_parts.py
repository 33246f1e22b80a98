"""HTTP: a stream's responses as the parts of one answer (RFC 2046, multipart/mixed).

`infer` of a pipeline that is a stream, asked for with `Accept: multipart/mixed`, answers with a
part for each response, in the form that `infer` has otherwise: its JSON, and binary tensors behind
it. What goes wrong before the first is a status, what goes wrong later a part with an `error`.
"""

import secrets
from collections.abc import Iterable, Mapping
from typing import Final

from ..stdlib.op import Item
from .http_status import error_body, error_headers
from .http_stream import Framing
from .protocols.deliveries import Deliveries
from .protocols.json_codec import encode_body
from .protocols.models import Model
from .request import Fault, Request

KIND: Final = b"multipart/mixed"


def as_parts(request: Request, deliveries: Deliveries) -> Framing:
    """Return how a request to a stream is answered with a part for each response."""
    boundary = secrets.token_hex(16).encode()

    def encode(model: Model, outputs: Mapping[str, Item]) -> bytes:
        body, json_length = encode_body(model, request.id, outputs, deliveries)
        if json_length is None:
            return _part(body, ())
        return _part(body, [(b"inference-header-content-length", b"%d" % json_length)])

    def fail(fault: Fault) -> bytes:
        return _part(error_body(fault.message), error_headers(fault))

    headers = [(b"content-type", b"%b; boundary=%b" % (KIND, boundary))]
    return Framing(headers, encode, fail, b"--%b\r\n" % boundary, b"", b"--%b--\r\n" % boundary)


def _part(body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the headers and the body of a part; the boundary goes before."""
    head = b"".join(b"%b: %b\r\n" % one for one in headers)
    return b"content-length: %d\r\n%b\r\n%b\r\n" % (len(body), head, body)
