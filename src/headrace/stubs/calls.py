"""What a written stub runs on: its methods are declarations, and what is called is an app's or a
client's pipeline.

    class OcrClient(stubs.Stub):
        @stubs.pipeline("ocr", "ocr(photo: bytes) -> (text: string[N])", OcrAnswer)
        def ocr(self, *, photo: bytes) -> OcrAnswer: ...

    OcrClient(client).ocr(photo=jpeg)
    OcrClient(app).ocr.submit(photo=jpeg)
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from collections.abc import Sequence as Values
from concurrent.futures import CancelledError, Future
from contextlib import aclosing
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

import numpy as np
from numpy.typing import NDArray

from ..runtime.request import Code, Fault

P = ParamSpec("P")
Answer = TypeVar("Answer")
Scalar = TypeVar("Scalar", bound=np.generic)
Kind = TypeVar("Kind")

LEFT_OUT: Any = ...  # Any: it stands for rows of whatever type
"""The default of what a `batch` pipeline takes, whose own default is that of each row."""


@runtime_checkable
class SupportsDLPack(Protocol):
    """An array of another library."""

    def __dlpack__(self) -> object: ...


Tensor: TypeAlias = NDArray[Scalar] | Values[Any] | SupportsDLPack  # Any: numbers, or lists of them
Parameters: TypeAlias = Mapping[str, bool | int | float | str]


class Callers(Protocol):
    """What has pipelines by name: an App, a Client."""

    def __getitem__(self, name: str, /) -> Any: ...  # Any: a Pipeline or a RemotePipeline


@dataclass(frozen=True, slots=True)
class Declared:
    """A pipeline as a stub was made for it: its signature, the type of its answers, and the inputs
    that have another name in Python."""

    name: str
    signature: str
    answer: Callable[..., Any]  # Any: a NamedTuple of its results
    renamed: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class Bound(Generic[P, Answer]):
    """A pipeline of an app or a client with the types of its declaration."""

    def __init__(self, declared: Declared, called: Any) -> None:  # Any: as of Callers
        self._declared, self._called = declared, called

    def _said(self, said: dict[str, Any]) -> dict[str, Any]:  # Any: inputs and options
        renamed = self._declared.renamed
        return {renamed.get(name, name): value for name, value in said.items()}

    def _made(self, record: Any) -> Answer:  # Any: a Record
        return self._declared.answer(*record)


class Call(Bound[P, Answer]):
    """A pipeline that answers once."""

    def __call__(self, *args: P.args, **said: P.kwargs) -> Answer:
        """Answer in this thread; raises Fault."""
        del args
        return self._made(self._called(**self._said(said)))

    def submit(self, *args: P.args, **said: P.kwargs) -> "Future[Answer]":
        """Answer in another thread; cancelling the future cancels the request."""
        del args
        return _then(self._called.submit(**self._said(said)), self._made)

    async def aio(self, *args: P.args, **said: P.kwargs) -> Answer:
        """As `submit`, awaited."""
        del args
        return self._made(await self._called.aio(**self._said(said)))


class Stream(Bound[P, Answer]):
    """A pipeline that answers any number of times."""

    def stream(self, *args: P.args, **said: P.kwargs) -> Iterator[Answer]:
        """Answer with one record after the other."""
        del args
        records = self._called.stream(**self._said(said))
        return (self._made(record) for record in records)

    async def aio_stream(self, *args: P.args, **said: P.kwargs) -> AsyncGenerator[Answer]:
        """As `stream`, for `async for`."""
        del args
        async with aclosing(self._called.aio_stream(**self._said(said))) as records:
            async for record in records:
                yield self._made(record)


class _InSequence:
    """What every sequence can be asked."""

    _called: Any  # Any: as of Callers

    @property
    def id(self) -> int | str:
        return self._called.id

    def restart(self) -> None:
        """Let the next call begin with the initial state."""
        self._called.restart()

    def end(self) -> None:
        """Let go of what is kept."""
        self._called.end()


class Sequence(Call[P, Answer], _InSequence):
    """Requests of one sequence."""

    def last(self, *args: P.args, **said: P.kwargs) -> Answer:
        """Answer as a call, for the last time."""
        del args
        return self._made(self._called.last(**self._said(said)))

    def __enter__(self) -> "Sequence[P, Answer]":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class StreamSequence(Stream[P, Answer], _InSequence):
    """Requests of one sequence that are answered any number of times."""

    def __enter__(self) -> "StreamSequence[P, Answer]":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class SequenceCall(Bound[P, Answer]):
    """A pipeline that keeps state for a sequence of requests."""

    def sequence(self, id: int | str | None = None) -> Sequence[P, Answer]:
        """Return a new sequence; None is one that no other has."""
        return Sequence(self._declared, self._called.sequence(id))


class StreamSequenceCall(Bound[P, Answer]):
    """A pipeline that keeps state and answers any number of times."""

    def sequence(self, id: int | str | None = None) -> StreamSequence[P, Answer]:
        """Return a new sequence; None is one that no other has."""
        return StreamSequence(self._declared, self._called.sequence(id))


class Method(Generic[Kind]):
    """A declaration in a stub's class; of an instance it is the pipeline."""

    def __init__(self, kind: Callable[[Declared, Any], Kind], declared: Declared) -> None:
        self.declared, self._kind = declared, kind

    def __get__(self, stub: "Stub", _: object = None) -> Kind:
        return self._kind(self.declared, stub.pipelines_[self.declared.name])


class Stub:
    """Of an app or a client; raises Fault where its pipelines are not those that the stub was made
    for."""

    def __init__(self, calls: Callers) -> None:
        self.pipelines_ = {
            declared.name: _checked(declared, calls) for declared in _declared(type(self))
        }


def _declared(stub: type[Stub]) -> list[Declared]:
    return [one.declared for one in vars(stub).values() if isinstance(one, Method)]


def _checked(declared: Declared, calls: Callers) -> Any:  # Any: as of Callers
    try:
        found = calls[declared.name]
    except KeyError as error:
        raise Fault(Code.NOT_FOUND, str(error.args[0])) from None
    if found.signature != declared.signature:
        raise Fault(
            Code.INVALID,
            f"`{declared.name}` is not what this stub was made for; make the stub anew, with "
            f"`headrace client`\n  here  {found.signature}\n  stub  {declared.signature}",
            pipeline=declared.name,
        )
    return found


def _then(future: Any, make: Callable[[Any], Answer]) -> "Future[Answer]":  # Any: of a Record
    """Return the future of what `make` makes of the result; cancelling it cancels the other."""
    made = _Made[Answer](future)

    def finish(done: Any) -> None:  # Any: as above
        if not made.set_running_or_notify_cancel():
            return
        try:
            made.set_result(make(done.result()))
        except CancelledError:
            made.set_exception(Fault(Code.CANCELLED, "the request was cancelled"))
        except Exception as error:
            made.set_exception(error)

    future.add_done_callback(finish)
    return made


class _Made(Future[Answer]):
    def __init__(self, future: Any) -> None:  # Any: as above
        super().__init__()
        self._future = future

    def cancel(self) -> bool:
        was_cancelled = super().cancel()
        if was_cancelled:
            self._future.cancel()
        return was_cancelled


Taking: TypeAlias = Callable[Concatenate[Any, P], Answer]  # Any: the stub


def pipeline(
    name: str, signature: str, answer: Callable[..., Answer], **renamed: str
) -> Callable[[Taking[P, Answer]], Method[Call[P, Answer]]]:
    """Declare a pipeline; `renamed` are inputs whose names Python does not allow."""
    declared = Declared(name, signature, answer, renamed)
    return lambda _: Method(Call[P, Answer], declared)


def stream(
    name: str, signature: str, answer: Callable[..., Answer], **renamed: str
) -> Callable[[Taking[P, Iterator[Answer]]], Method[Stream[P, Answer]]]:
    """Declare a pipeline that answers any number of times."""
    declared = Declared(name, signature, answer, renamed)
    return lambda _: Method(Stream[P, Answer], declared)


def sequence(
    name: str, signature: str, answer: Callable[..., Answer], **renamed: str
) -> Callable[[Taking[P, Answer]], Method[SequenceCall[P, Answer]]]:
    """Declare a pipeline that keeps state."""
    declared = Declared(name, signature, answer, renamed)
    return lambda _: Method(SequenceCall[P, Answer], declared)


def stream_sequence(
    name: str, signature: str, answer: Callable[..., Answer], **renamed: str
) -> Callable[[Taking[P, Iterator[Answer]]], Method[StreamSequenceCall[P, Answer]]]:
    """Declare a pipeline that keeps state and answers any number of times."""
    declared = Declared(name, signature, answer, renamed)
    return lambda _: Method(StreamSequenceCall[P, Answer], declared)
