"""HTTP: what answers are made of: results in the form that was asked for, and failures."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from ..stdlib.op import Item
from .compression import BodyTooLarge, compress
from .http_answer import Answer, Way
from .http_status import STATUS, TOO_LARGE, error_body, error_headers
from .protocols.deliveries import Deliveries
from .protocols.generate_codec import encode_generate
from .protocols.json_codec import encode_body
from .protocols.models import Model
from .service import explain

_Header: TypeAlias = tuple[bytes, bytes]

_JSON: Final[_Header] = (b"content-type", b"application/json")
_BINARY: Final[_Header] = (b"content-type", b"application/octet-stream")
EVENTS: Final[_Header] = (b"content-type", b"text/event-stream; charset=utf-8")
DATA: Final = b"data: "
NEXT: Final = b"\n\n"
"""What is before and behind the body of an event."""


def encode(
    way: Way,
    model: Model,
    request_id: str,
    outputs: Mapping[str, Item],
    deliveries: Deliveries,
    accepted: bytes | None,
) -> Answer:
    """Return the answer with results; a coding may be `accepted` for what `infer` gives."""
    if way is Way.INFER:
        return _inferred(*encode_body(model, request_id, outputs, deliveries), accepted)
    body = encode_generate(model, request_id, outputs)
    if way is Way.GENERATE:
        return in_json(body)
    return _answer(200, b"".join((DATA, body, NEXT)), [EVENTS])


def in_json(body: bytes) -> Answer:
    """Return the answer with results that are JSON."""
    return _answer(200, body, [_JSON])


def failed(error: Exception, request_id: str = "") -> Answer:
    """Return the answer that tells why there are no results."""
    if isinstance(error, BodyTooLarge):
        return _answer(TOO_LARGE, error_body(str(error)), [_JSON])
    fault = explain(error, request_id)
    answer = _answer(STATUS[fault.code], error_body(fault.message), [_JSON])
    answer.headers.extend(error_headers(fault))
    return answer


def _inferred(body: bytes, json_length: int | None, accepted: bytes | None) -> Answer:
    headers: list[_Header] = [_JSON if json_length is None else _BINARY]
    if json_length is not None:
        headers.append((b"inference-header-content-length", b"%d" % json_length))
    if accepted is not None:
        body, coding = compress(body, accepted)
        if coding is not None:
            headers.append((b"content-encoding", coding))
    return _answer(200, body, headers)


def _answer(status: int, body: bytes, headers: list[_Header]) -> Answer:
    headers.append((b"content-length", b"%d" % len(body)))
    return Answer(status, headers, body)
