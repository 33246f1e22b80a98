"""Messages of what bytes say."""

from typing import Any

from google.protobuf.message import DecodeError

from .call import CallError
from .status import Status


def parse(kind: Any, payload: bytes) -> Any:  # Any: a message class and its message
    """Read a message; CallError when the bytes are none."""
    try:
        return kind.FromString(payload)
    except DecodeError:
        raise CallError(
            Status.INVALID_ARGUMENT, f"the bytes are no {kind.DESCRIPTOR.name}"
        ) from None
