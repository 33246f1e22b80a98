"""Methods that need no waiting: a message in, a message out."""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from ..request import Fault
from .call import CallError, Headers, Method, call_error
from .status import Status


def answering(kind: Any, respond: Callable[[Any], Any]) -> Method:  # Any: messages
    """Return a method that parses a message of `kind` and answers with what `respond` makes."""

    def method(payload: bytes, _: float | None, __: Headers) -> bytes:
        try:
            return respond(parse(kind, payload)).SerializeToString()
        except Fault as fault:
            raise call_error(fault) from None

    return method


def parse(kind: Any, payload: bytes) -> Any:  # Any: a message class and its message
    """Read a message; CallError when the bytes are none."""
    try:
        return kind.FromString(payload)
    except DecodeError:
        raise CallError(
            Status.INVALID_ARGUMENT, f"the bytes are no {kind.DESCRIPTOR.name}"
        ) from None
