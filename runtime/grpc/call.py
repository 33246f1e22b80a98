"""The seam between the protocol and what carries it: a method takes bytes and answers bytes.

A carrier calls a Method with the request's bytes and the seconds the call has left. It gets the
answer's bytes, or a Pending whose future it waits for, cancels when the caller goes away, and
hands to `finish` when it is done; or a CallError from either. A method with streams in both
directions is called for each message and answers each, in order; its errors are messages too, and
it may answer with Responses. A method that is watched answers again whenever what it told changes.
"""

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from ..protocols.faults import FAULT, write_fault
from ..request import Fault
from ..streams import Stream
from .status import STATUS, Status


class CallError(Exception):
    """A call that ends with a status other than OK. `request_id` is the caller's, if known;
    `retry_after` in how many seconds it may try again; `told` what our own client is told."""

    def __init__(
        self,
        status: Status,
        message: str,
        request_id: str = "",
        retry_after: float | None = None,
        told: str = "",
    ) -> None:
        self.status, self.message, self.request_id = status, message, request_id
        self.retry_after, self.told = retry_after, told
        super().__init__(message)

    @property
    def trailers(self) -> list[tuple[str, str]]:
        """What is told beside the status: in how many milliseconds to try again. (gRPC's own word
        for it, `grpc-retry-pushback-ms`, cannot be said on every carrier.)"""
        told = [(FAULT, self.told)] if self.told else []
        if self.retry_after is not None:
            told.append(("retry-after-ms", str(max(1, math.ceil(self.retry_after * 1000)))))
        return told


def call_error(fault: Fault, request_id: str = "") -> CallError:
    """Return the status that stands for a fault."""
    return CallError(
        STATUS[fault.code], fault.message, request_id, fault.retry_after, write_fault(fault)
    )


class Pending(NamedTuple):
    """An answer that is not there yet. `finish` takes the future when it is done, from any
    thread, and returns the bytes or raises CallError."""

    future: Future[Any]  # Any: `finish` knows of what
    finish: Callable[[Future[Any]], bytes]  # Any: likewise


class Responses(NamedTuple):
    """Answers that come one after the other. `open` takes what tells, from any thread, that there
    is one; `end` takes the error that ended them, or None, and returns the last one's bytes, if
    there is one more."""

    open: Callable[[Callable[[], object]], Stream[bytes]]
    end: Callable[[Exception | None], bytes | None]


class Watched(NamedTuple):
    """What is told now, and again whenever it is another. `watch` takes what tells, from any
    thread, that it may be, and returns what ends that."""

    read: Callable[[], bytes | Pending]
    watch: Callable[[Callable[[], object]], Callable[[], object]]


Headers: TypeAlias = Mapping[str, str]
"""What came with a call, by lower-case names; nothing where the method does not ask for it."""

NO_HEADERS: Final[Headers] = MappingProxyType({})

Method: TypeAlias = Callable[[bytes, float | None, Headers], bytes | Pending]
StreamMethod: TypeAlias = Callable[[bytes, float | None, Headers], bytes | Pending | Responses]
WatchMethod: TypeAlias = Callable[[bytes], Watched]


@dataclass(frozen=True, slots=True)
class Methods:
    """The methods of a service by path (`/package.Service/Method`); `streams` go both ways,
    `watches` answer again and again. Of the others those in `with_headers` ask for headers, or may
    take long."""

    unary: Mapping[str, Method]
    streams: Mapping[str, StreamMethod]
    watches: Mapping[str, WatchMethod] = field(default_factory=dict[str, WatchMethod])
    with_headers: frozenset[str] = frozenset()

    def __or__(self, other: "Methods") -> "Methods":
        return Methods(
            {**self.unary, **other.unary},
            {**self.streams, **other.streams},
            {**self.watches, **other.watches},
            self.with_headers | other.with_headers,
        )
