"""The gRPC status of each kind of failure."""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

from ..request import Code


class Status(IntEnum):
    """gRPC's status codes, those that are used here."""

    CANCELLED = 1
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


STATUS: Mapping[Code, Status] = MappingProxyType(
    {
        Code.INVALID: Status.INVALID_ARGUMENT,
        Code.NOT_FOUND: Status.NOT_FOUND,
        Code.OVERLOADED: Status.UNAVAILABLE,
        Code.UNAVAILABLE: Status.UNAVAILABLE,
        Code.DEADLINE: Status.DEADLINE_EXCEEDED,
        Code.CANCELLED: Status.CANCELLED,
        Code.UNSUPPORTED: Status.UNIMPLEMENTED,
        Code.UNAUTHENTICATED: Status.UNAUTHENTICATED,
        Code.FORBIDDEN: Status.PERMISSION_DENIED,
        Code.FAILED: Status.INTERNAL,
        Code.INTERNAL: Status.INTERNAL,
    }
)
