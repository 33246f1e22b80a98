"""What runs a model: a session, as a library gives it, and how its results are held to what is
declared."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..dsl.types import DType, Field, TensorType
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array
from .devices.device import Stream, View
from .devices.streams import Streams
from .shared import Closable
from .stage import StageError

_SHOWN = 500  # characters of what a library says


class Session(Closable, Protocol):
    """A loaded model that runs on the host's arrays. Several threads may run it at once; `close`
    comes when none does any more. With a `reason` it says what an error is to callers."""

    def run(self, feeds: Mapping[str, Array], /) -> Sequence[Array]:
        """Take arrays by name, with their batch axis, and give those of the outputs in order.

        An optional input may be missing. What is raised fails the rows; its text is for the caller.
        """
        ...


class SessionFor(Closable, Protocol):
    """One of a kind that is told whose rows it is given: a `context.Context` for each."""

    def run_for(
        self, feeds: Mapping[str, Array], contexts: Sequence[object], /
    ) -> Sequence[Array]: ...


class DeviceSession(Session, Protocol):
    """One that runs on what is in a device's memory."""

    def streams(self) -> Streams: ...

    def run_on_device(
        self,
        feeds: Mapping[str, View],
        results: "Sequence[tuple[tuple[int, ...] | None, np.dtype[Any]]]",  # Any: of any scalar
        stage: str,
        stream: Stream,
    ) -> list[View]: ...


def said(error: Exception) -> str:
    """Return what a library says, for callers."""
    return f"{type(error).__name__}: {error}"[:_SHOWN]


def hold(outputs: Sequence[Array], fields: Sequence[Field], axes: Sequence[int | None]) -> None:
    """Raise StageError where outputs are not as many, or of the dtype and rank, as declared."""
    if len(outputs) != len(fields):
        raise StageError(f"the model gave {len(outputs)} outputs for {len(fields)}")
    for field, axis, output in zip(fields, axes, outputs, strict=True):
        if not isinstance(field.type, TensorType):
            raise AssertionError(f"`{field.name}` is no tensor")
        wanted = field.type.dtype
        if output.dtype != to_numpy(wanted):
            raise StageError(f"`{field.name}` is {output.dtype}, and {wanted.value} is declared")
        rank = len(field.type.dims) + (axis is not None)
        if output.ndim != rank:
            raise StageError(f"`{field.name}` has {output.ndim} axes, and should have {rank}")


def gives_bytes(field: Field) -> bool:
    """Whether a result is declared as bytes."""
    return isinstance(field.type, TensorType) and field.type.dtype is DType.BYTES


def encoded(outputs: Sequence[Array], fields: Sequence[Field]) -> list[Array]:
    """Return outputs with those that are declared as bytes as such: some libraries have text
    alone."""
    return [
        np.asarray(_ENCODE(output), object) if gives_bytes(field) else output
        for field, output in zip(fields, outputs, strict=True)
    ]


_ENCODE = np.frompyfunc(lambda one: one.encode() if isinstance(one, str) else one, 1, 1)
