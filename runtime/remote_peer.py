"""A model of another server: what it says of itself, held to what is declared, and how tensors go
there and come back.

What the server says is compared with the declaration as soon as it can be reached, when the plan is
loaded or else before the first run, and anew when a request was refused or did not get through: by
then it may serve another model of that name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast
from urllib.parse import SplitResult, urlsplit

import numpy as np

from ..dsl.nearest import nearest
from ..dsl.types import DType
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array
from .carriers import Answer, Asked, Carrier, GrpcCarrier, Refused, Target
from .context import Context
from .http_carrier import HttpCarrier
from .load_error import OTHER_MODEL, LoadError
from .model_backend import Port, pair
from .protocols.datatypes import DATATYPES
from .protocols.results import WireTensor
from .request import Code
from .stage import StageError, StageGone

PATIENCE: Final = 5.0
"""Seconds that a server may take to say what its model is."""

GONE: Final = (Code.UNAVAILABLE, Code.OVERLOADED, Code.DEADLINE, Code.CANCELLED)
_DTYPES: Final = {one.name: dtype for dtype, one in DATATYPES.items() if dtype is not DType.BYTES}
_LISTED: Final = 20  # models that an error lists


@dataclass(frozen=True, slots=True)
class Named:
    """A declared input or output: its name at the server, where a scalar has an axis `wider`."""

    port: Port
    theirs: str
    wider: bool


class Request(NamedTuple):
    """What is sent, how long that may take, and which outputs are to come."""

    asked: Asked
    timeout: float | None
    outputs: Sequence[Named]


class Peer:
    """A model of a server, which any number of threads may ask. Of a declaration of None nothing is
    compared: the server's outputs come as another part of the model says."""

    def __init__(
        self, address: str, inputs: Sequence[Port] | None, outputs: Sequence[Port] | None
    ) -> None:
        """Raises LoadError where the server is there and has no such model."""
        self.address = address
        url = urlsplit(address)
        self.target = Target(*url.path.strip("/").split("/"))
        self.carrier = _connect(url)
        self._declared = inputs, outputs
        self._found: tuple[list[Named], list[Named]] | None = None
        try:
            self._compare()
        except Refused as refused:
            if refused.code not in GONE:
                unlike = self._unlike(refused.message)
                self.close()
                raise unlike from refused
        except LoadError:
            self.close()
            raise

    def close(self) -> None:
        self.carrier.close()

    def request(self, feeds: Mapping[str, Array], contexts: Sequence[Context]) -> Request:
        """Return what is sent for rows of these requests."""
        timeout, told = _told(contexts)
        found = self._found  # which another thread may forget meanwhile
        if found is None:
            try:
                found = self._compare()
            except LoadError as error:
                raise StageError(f"{error.message}; {error.help}") from error
            except Refused as refused:
                raise self.failed(refused) from refused
        inputs, outputs = found
        tensors = [
            _tensor(one.theirs, feeds[one.port.name], wider=one.wider)
            for one in inputs
            if one.port.name in feeds
        ]
        names, id = [one.theirs for one in outputs], contexts[0].id if len(contexts) == 1 else ""
        return Request(Asked(tensors, names, id, told), timeout, outputs)

    def failed(self, refused: Refused) -> StageError | StageGone:
        """Return what a refusal means for the rows that were asked for."""
        if refused.code is not Code.OVERLOADED:
            self._found = None  # it may be another by now
        message = f"{self.address}: {refused.message}"
        if refused.code is Code.UNSUPPORTED and "decoupled" in message:  # as Triton says it
            message += ". Declare it in two parts, `:open` and `:next`"
        if refused.code in GONE:
            return StageGone(refused.code, message, retry_after=refused.retry_after)
        return StageError(message)

    def arrays(self, answer: Answer, outputs: Sequence[Named]) -> list[Array]:
        """Return the outputs of an answer in the order of their declaration; raises StageError
        where they are others."""
        return [self._array(one, answer) for one in outputs]

    def _array(self, one: Named, answer: Answer) -> Array:
        port, theirs = one.port, one.theirs
        if theirs not in answer:
            raise StageError(f"{self.address}: it did not answer with `{theirs}`")
        datatype, shape, flat = answer[theirs]
        dtype = to_numpy(cast("DType", port.dtype))  # it is declared
        text = dtype.hasobject
        if datatype != "BYTES" if text else _DTYPES.get(datatype) is not port.dtype:
            raise StageError(f"{self.address}: `{theirs}` is {datatype}, and {port} is declared")
        if text:
            decode = port.dtype is DType.STRING
            values = [v.decode("utf-8", "replace") if decode else v for v in cast("Any", flat)]
            array = np.array([*values, None], object)[:-1].reshape(shape)
        else:
            array = np.asarray(flat).reshape(shape)
        return array[..., 0] if one.wider and array.ndim and array.shape[-1] == 1 else array

    def _compare(self) -> tuple[list[Named], list[Named]]:
        """Return the server's names for what is declared; raises LoadError where it differs."""
        said = self.carrier.metadata(self.target, PATIENCE)
        inputs, outputs = self._declared
        try:
            found = self._found = (
                _paired(inputs, said.get("inputs", ()), "input") if inputs else [],
                _paired(outputs, said.get("outputs", ()), "output") if outputs else [],
            )
        except LoadError as error:
            message = f"{self.address}: {error.message}"
            raise LoadError(error.code, message, error.help) from error
        return found

    def _unlike(self, said: str) -> LoadError:
        """Return the error of a server that refuses to tell of its model, with those it has."""
        help = "see which models it serves"
        try:
            names = self.carrier.names(PATIENCE)
        except Refused:
            names = ()  # not every server lists them
        if names:
            meant = nearest(self.target.model, names)
            listed = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
            help = f"did you mean `{meant}`? it serves {listed}" if meant else f"it serves {listed}"
        return LoadError(OTHER_MODEL, f"{self.address}: {said}", help)


def _connect(url: SplitResult) -> Carrier:
    """Return what carries to the server of an address; nothing is sent yet."""
    if url.scheme == "grpc":
        return GrpcCarrier(url.netloc)
    return HttpCarrier(url.hostname or "", url.port, secure=url.scheme == "https")


def _told(contexts: Sequence[Context]) -> tuple[float | None, dict[str, int]]:
    """Return the time that is left, and it and the priority as parameters."""
    left = [one.remaining() for one in contexts]
    timeout = None if None in left or not left else max(cast("list[float]", left))
    priorities = [one.priority for one in contexts if one.priority]
    parameters = {"timeout": max(1, round(timeout * 1e6))} if timeout is not None else {}
    if priorities:
        parameters["priority"] = min(priorities)
    return timeout, parameters


def _tensor(name: str, array: Array, *, wider: bool) -> WireTensor:
    array = np.ascontiguousarray(array[..., None] if wider else array)
    if array.dtype == object:
        values = cast("list[str]", array.ravel().tolist())
        return WireTensor(name, DATATYPES[DType.STRING], array.shape, values)
    datatype = next(one for one in DATATYPES.values() if one.numpy == array.dtype)
    return WireTensor(name, datatype, array.shape, array)


def _paired(
    declared: Sequence[Port],
    said: Sequence[Mapping[str, Any]],  # Any: JSON
    what: str,
) -> list[Named]:
    """Pair what is declared with what the server has; a server that says nothing has the same. A
    scalar goes as a tensor of one element there."""
    if not said:
        return [Named(port, port.name, False) for port in declared]
    found = [_port(one) for one in said]
    by_name = {one.name: one for one in declared}
    narrowed: dict[str, Port] = {}
    for index, one in enumerate(found):
        ours = by_name.get(one.name) or (declared[index] if index < len(declared) else None)
        if ours is not None and _is_wider(one, ours):
            narrowed[one.name] = Port(one.name, one.dtype, (one.dims or ())[:-1])
    pairs = pair(declared, [narrowed.get(one.name, one) for one in found], what, "server")
    return [
        Named(port, other.name, other.name in narrowed)
        for port, other in zip(declared, pairs, strict=True)
    ]


def _is_wider(one: Port, ours: Port) -> bool:
    dims, own = one.dims or (), ours.dims or ()
    return len(dims) == len(own) + 1 and dims[-1:] == (1,)


def named_alike(answer: Answer, ports: Sequence[Port]) -> list[Named]:
    """Return the outputs of an answer whose names are the declared ones; a scalar may have come as
    a tensor of one element."""
    return [
        Named(one, one.name, not one.dims and one.name in answer and answer[one.name][1] == (1,))
        for one in ports
    ]


def _port(said: Mapping[str, Any]) -> Port:  # Any: JSON
    dims = tuple(None if int(size) < 0 else int(size) for size in said.get("shape", ()))
    return Port(said["name"], _DTYPES.get(said["datatype"]), dims)
