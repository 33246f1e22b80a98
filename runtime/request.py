"""What goes into the engine and what comes out: Request, Response, Fault."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from ..compiler.plan import Place
from ..stdlib.op import Item

if TYPE_CHECKING:
    from .observe.trace import Trace
    from .units import Behind


class Code(Enum):
    """Kinds of failure; the front ends map them to HTTP and gRPC status in one table each."""

    INVALID = "invalid"  # the request is wrong: name, dtype, shape, value
    NOT_FOUND = "not_found"  # no such pipeline or version
    OVERLOADED = "overloaded"  # a queue or a byte bound is full; try again later
    UNAVAILABLE = "unavailable"  # not ready, draining or stopped
    DEADLINE = "deadline"  # the time was up before the answer
    CANCELLED = "cancelled"  # the caller went away
    UNSUPPORTED = "unsupported"  # a part of the protocol that is not served
    UNAUTHENTICATED = "unauthenticated"  # it takes a token, and none that is known was shown
    FORBIDDEN = "forbidden"  # it is not this caller's to ask, or nobody's
    FAILED = "failed"  # a stage raised or returned something wrong
    INTERNAL = "internal"  # a bug in headrace


class Fault(Exception):
    """A failed request. `stage`, `item` and `place` say where, when a stage is to blame.
    `retry_after` is in how many seconds it had better be tried again, where that is known.

    `message` is for the caller and holds no internals; `detail` is for the log. `trace` is that of
    the request where one was asked for.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        pipeline: str | None = None,
        stage: str | None = None,
        item: tuple[int, ...] = (),
        place: Place | None = None,
        detail: str = "",
        retry_after: float | None = None,
    ) -> None:
        self.code, self.message = code, message
        self.pipeline, self.stage, self.item, self.place = pipeline, stage, item, place
        self.detail, self.retry_after = detail, retry_after
        self.trace: Trace | None = None
        super().__init__(message)

    def __str__(self) -> str:
        where = [f"pipeline `{self.pipeline}`"] if self.pipeline else []
        where += [f"stage `{self.stage}`"] if self.stage else []
        where += [f"item {'.'.join(map(str, self.item))}"] if self.item else []
        where += [str(self.place)] if self.place else []
        return f"{', '.join(where)}: {self.message}" if where else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # without its cause, traceback and trace: those hold frames and whatever a stage raised
        return _restored, (type(self), self.args, {**self.__dict__, "trace": None})


def _restored(kind: type[Fault], args: tuple[object, ...], fields: dict[str, object]) -> Fault:
    fault = kind.__new__(kind, *args)
    fault.__dict__.update(fields)
    return fault


class Dropped(Fault):
    """A request that could not have been answered in time any more, given up before it ran on."""

    def __init__(
        self, message: str, *, pipeline: str, stage: str | None = None, place: Place | None = None
    ) -> None:
        super().__init__(Code.DEADLINE, message, pipeline=pipeline, stage=stage, place=place)


class OverLimit(Fault):
    """A work that a `try` has no more time for."""

    def __init__(self, *, pipeline: str, stage: str | None, place: Place | None) -> None:
        message = "it took longer than its `try` allows"
        super().__init__(Code.DEADLINE, message, pipeline=pipeline, stage=stage, place=place)


class EngineClosed(Fault):
    """The engine takes no more requests, and has done nothing of this one: another may do it."""

    def __init__(self, message: str = "the engine takes no more requests") -> None:
        super().__init__(Code.UNAVAILABLE, message)


class RequestError(Fault):
    """The call does not fit the pipeline's signature; the message shows the signature."""

    def __init__(self, message: str, *, pipeline: str | None = None) -> None:
        super().__init__(Code.INVALID, message, pipeline=pipeline)


@dataclass(frozen=True, slots=True)
class InSequence:
    """Which sequence a request belongs to, and whether it is its first or last one.

    `remote` is one that has come over the wire, where these have other names.
    """

    id: int | str
    start: bool = False
    end: bool = False
    remote: bool = False


class Request(NamedTuple):
    """One call. `inputs` hold one item each; in a `batch` pipeline every value has a leading axis
    of rows (an ndarray, or a list of items). `deadline` is on the engine's monotonic clock, in
    seconds. `outputs` None asks for all results; others name those wanted. A nested one has
    `behind` it what is held for the requests that it is made for."""

    pipeline: str
    inputs: Mapping[str, Item]
    id: str = ""
    deadline: float | None = None
    priority: int = 0
    outputs: tuple[str, ...] | None = None
    parameters: Mapping[str, bool | int | float | str] = MappingProxyType({})
    sequence: InSequence | None = None
    behind: "Behind" = ()


class Response(NamedTuple):
    """Results by name, in the order of the signature (or of `Request.outputs`)."""

    id: str
    outputs: Mapping[str, Item]


class Remarked(dict[str, Item]):
    """Results by name, with what a model has said beside them: the `parameters` of its answer."""

    __slots__ = ("parameters",)

    def __init__(
        self, outputs: Mapping[str, Item], parameters: Mapping[str, bool | int | float | str]
    ) -> None:
        super().__init__(outputs)
        self.parameters = parameters
