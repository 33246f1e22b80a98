"""HTTP: the status of each kind of failure, and how an error is told."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from .protocols.faults import FAULT, write_fault
from .request import Code, Fault

STATUS: Final[Mapping[Code, int]] = MappingProxyType(
    {
        Code.INVALID: 400,
        Code.NOT_FOUND: 404,
        Code.OVERLOADED: 503,
        Code.UNAVAILABLE: 503,
        Code.DEADLINE: 503,
        Code.CANCELLED: 499,
        Code.UNSUPPORTED: 501,
        Code.UNAUTHENTICATED: 401,
        Code.FORBIDDEN: 403,
        Code.FAILED: 500,
        Code.INTERNAL: 500,
    }
)
TOO_LARGE: Final = 413


def error_body(message: str) -> bytes:
    """Return the body that tells of an error."""
    return msgspec.json.encode({"error": message})


def error_headers(fault: Fault) -> list[tuple[bytes, bytes]]:
    """Return what is told of a fault beside its status: when to come again, what to show."""
    headers = [(FAULT.encode(), write_fault(fault).encode())]
    if fault.retry_after is not None:  # whole seconds, says RFC 9110
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(fault.retry_after))))
    if fault.code is Code.UNAUTHENTICATED:
        headers.append((b"www-authenticate", b"Bearer"))
    return headers
