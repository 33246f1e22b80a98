"""HTTP: a stream's responses as plain JSON: all as server-sent events, or the only one."""

from collections.abc import Mapping

from starlette.types import Receive, Scope, Send

from ..stdlib.op import Item
from .http_body import GoneError
from .http_encode import DATA, EVENTS, NEXT, failed, in_json
from .http_status import error_body
from .http_stream import Framing, Reader
from .protocols.generate_codec import encode_generate
from .protocols.models import Model
from .request import Code, Fault, Request
from .service import Service

_HEADERS = [EVENTS, (b"cache-control", b"no-cache")]


def as_events(request: Request) -> Framing:
    """Return how a request to a stream is answered with an event for each response."""

    def encode(model: Model, outputs: Mapping[str, Item]) -> bytes:
        return encode_generate(model, request.id, outputs)

    def fail(fault: Fault) -> bytes:
        return error_body(fault.message)

    return Framing(_HEADERS, encode, fail, DATA, NEXT, b"")


async def send_only(
    service: Service,
    model: Model,
    version: str,
    asked: Request,
    _: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Answer with the only response of a stream; where it gives none, or another, with a Fault."""

    def encode(model: Model, outputs: Mapping[str, Item]) -> bytes:
        return encode_generate(model, asked.id, outputs)

    try:
        reader = Reader(service, model, version, asked, encode, receive)
        try:
            only = await _only(reader, model)
        finally:
            reader.close()
    except GoneError:
        return
    except Exception as error:
        await failed(error, asked.id).send(send)
    else:
        await in_json(only).send(send)


async def _only(reader: Reader, model: Model) -> bytes:
    """Return the response; raises what `Reader.take` does, and Fault."""
    found: list[bytes] = []
    while len(found) < 2 and (more := await reader.take()):
        found += more
    if len(found) != 1:
        count = "no response" if not found else "more than one response"
        told = f"`{model.name}` is a stream and has given {count}: call generate_stream"
        raise Fault(Code.UNSUPPORTED, told)
    return found[0]
