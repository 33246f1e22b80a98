"""Models of other servers: `grpc://host:port/model`, `http://host:port/model/version`.

Any server of the Open Inference Protocol: another headrace, Triton, MLServer. The time that is
left, the priority and the id of a request go with it; rows of several requests have the longest
time and the highest priority among them. What the server says of its model is compared with the
declaration as soon as it can be reached: when the plan is loaded, or else before the first run.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast
from urllib.parse import SplitResult, urlsplit

import numpy as np

from ...dsl.types import DType
from ...stdlib.dtypes import to_numpy
from ...stdlib.op import Array
from ..carriers import Asked, Carrier, GrpcCarrier, Refused, Target
from ..context import Context
from ..http_carrier import HttpCarrier
from ..load_error import OTHER_MODEL, LoadError
from ..model_backend import Model, Port, model_backend, pair
from ..protocols.datatypes import DATATYPES
from ..protocols.results import WireTensor
from ..request import Code
from ..stage import StageError, StageGone

PATIENCE: Final = 5.0
"""Seconds that a server may take to say what its model is."""

_GONE: Final = (Code.UNAVAILABLE, Code.OVERLOADED, Code.DEADLINE, Code.CANCELLED)
_DTYPES: Final = {one.name: dtype for dtype, one in DATATYPES.items() if dtype is not DType.BYTES}


class RemoteSession:
    """A model of a server, asked by as many threads as there are."""

    def __init__(self, model: Model) -> None:
        self._model, self._address = model, model.content.decode()
        url = urlsplit(self._address)
        self._target = Target(*url.path.strip("/").split("/"))
        self._carrier = _connect(url)
        self._inputs: list[tuple[str, str, bool]] | None = None  # ours, theirs, with an axis more
        self._outputs: list[tuple[Port, str, bool]] = []
        try:
            self._compare()
        except Refused as refused:
            if refused.code not in _GONE:
                self._carrier.close()
                message = f"{self._address}: {refused.message}"
                raise LoadError(OTHER_MODEL, message, "see which models it serves") from refused
        except LoadError:
            self._carrier.close()
            raise

    def run_for(self, feeds: Mapping[str, Array], contexts: Sequence[object]) -> list[Array]:
        told = cast("Sequence[Context]", contexts)
        timeout, asked = _told(told)
        try:
            if self._inputs is None:
                self._compare()
            tensors = [
                _tensor(theirs, feeds[ours], wider=wider)
                for ours, theirs, wider in self._inputs or ()
                if ours in feeds
            ]
            outputs = [theirs for _, theirs, _ in self._outputs]
            request = Asked(tensors, outputs, told[0].id if len(told) == 1 else "", asked)
            answer = self._carrier.infer(self._target, request, timeout)
        except LoadError as error:
            raise StageError(error.message) from error
        except Refused as refused:
            message = f"{self._address}: {refused.message}"
            if refused.code in _GONE:
                raise StageGone(refused.code, message, retry_after=refused.retry_after) from refused
            raise StageError(message) from refused
        return [self._array(port, theirs, wider, answer) for port, theirs, wider in self._outputs]

    def close(self) -> None:
        self._carrier.close()

    def _compare(self) -> None:
        """Find the server's names for what is declared; raises LoadError where it differs."""
        said = self._carrier.metadata(self._target, PATIENCE)
        inputs = _paired(self._model.inputs, said.get("inputs", ()), "input")
        self._outputs = _paired(self._model.outputs, said.get("outputs", ()), "output")
        self._inputs = [(port.name, theirs, wider) for port, theirs, wider in inputs]

    def _array(self, port: Port, theirs: str, wider: bool, answer: Mapping[str, Any]) -> Array:
        """Return an output. Any: what carriers give."""
        if theirs not in answer:
            raise StageError(f"{self._address}: it did not answer with `{theirs}`")
        datatype, shape, flat = answer[theirs]
        dtype = to_numpy(cast("DType", port.dtype))  # it is declared
        if not dtype.hasobject and _DTYPES.get(datatype) is not port.dtype:
            raise StageError(f"{self._address}: `{theirs}` is {datatype}, and {port} is declared")
        if dtype.hasobject and datatype != "BYTES":
            raise StageError(f"{self._address}: `{theirs}` is {datatype}, and {port} is declared")
        if dtype.hasobject:
            text = port.dtype is DType.STRING
            values = [one.decode("utf-8", "replace") if text else one for one in flat]
            array = np.array([*values, None], object)[:-1].reshape(shape)
        else:
            array = np.asarray(flat).reshape(shape)
        return array[..., 0] if wider and array.ndim and array.shape[-1] == 1 else array


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
) -> list[tuple[Port, str, bool]]:
    """Pair what is declared with what the server has; a server that says nothing has the same. A
    scalar goes as a tensor of one element there."""
    if not said:
        return [(port, port.name, False) for port in declared]
    found = [_port(one) for one in said]
    by_name = {one.name: one for one in declared}
    narrowed: dict[str, Port] = {}
    for index, one in enumerate(found):
        ours = by_name.get(one.name) or (declared[index] if index < len(declared) else None)
        if ours is not None and _is_wider(one, ours):
            narrowed[one.name] = Port(one.name, one.dtype, (one.dims or ())[:-1])
    pairs = pair(declared, [narrowed.get(one.name, one) for one in found], what)
    return [
        (port, other.name, other.name in narrowed)
        for port, other in zip(declared, pairs, strict=True)
    ]


def _is_wider(one: Port, ours: Port) -> bool:
    dims, own = one.dims or (), ours.dims or ()
    return len(dims) == len(own) + 1 and dims[-1:] == (1,)


def _port(said: Mapping[str, Any]) -> Port:  # Any: JSON
    dims = tuple(None if int(size) < 0 else int(size) for size in said.get("shape", ()))
    return Port(said["name"], _DTYPES.get(said["datatype"]), dims)


BACKEND = model_backend(RemoteSession, ("remote",))
