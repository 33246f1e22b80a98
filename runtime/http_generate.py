"""HTTP: a stream's responses as server-sent events, each plain JSON."""

from collections.abc import Mapping

from ..stdlib.op import Item
from .http_encode import DATA, EVENTS, NEXT
from .http_status import error_body
from .http_stream import Framing
from .protocols.generate_codec import encode_generate
from .protocols.models import Model
from .request import Fault, Request

_HEADERS = [EVENTS, (b"cache-control", b"no-cache")]


def as_events(request: Request) -> Framing:
    """Return how a request to a stream is answered with an event for each response."""

    def encode(model: Model, outputs: Mapping[str, Item]) -> bytes:
        return encode_generate(model, request.id, outputs)

    def fail(fault: Fault) -> bytes:
        return error_body(fault.message)

    return Framing(_HEADERS, encode, fail, DATA, NEXT, b"")
