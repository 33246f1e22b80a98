"""A client's requests over HTTP."""

import json
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPResponse
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import quote

from ..runtime.protocols.faults import FAULT, read_fault, read_wait
from ..runtime.protocols.inputs import Given
from ..runtime.protocols.raw import write_raw
from ..runtime.request import Code, Fault
from .address import Address
from .connections import Connections
from .exchange import Exchange
from .wire import Asked, Cancellation, Failed, Model, late, reading, unreached

_LENGTH = "Inference-Header-Content-Length"
_PARTS = "multipart/mixed"
_CODES = {
    400: Code.INVALID,
    401: Code.UNAUTHENTICATED,
    403: Code.FORBIDDEN,
    404: Code.NOT_FOUND,
    413: Code.INVALID,
    499: Code.CANCELLED,
    501: Code.UNSUPPORTED,
    503: Code.UNAVAILABLE,
}
Kind = TypeVar("Kind")

_GRACE = 0.1
"""Seconds beyond a request's time in which the server may tell what became of it."""


class HttpWire:
    """A connection for each request that is under way."""

    def __init__(self, address: Address) -> None:
        self.address = str(address)
        self._connections = Connections(address)
        self._prefix = address.prefix
        token = address.token
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def config(self, model: Model, timeout: float | None) -> Mapping[str, Any]:  # Any: JSON
        answer = self._ask("GET", f"{_path(model)}/config", timeout)
        with reading(self.address, "the configuration"):
            return {**_as(dict, answer), "name": model.name}

    def names(self, timeout: float | None) -> Sequence[str]:
        answer = self._ask("POST", "/v2/repository/index", timeout, b'{"ready": true}')
        with reading(self.address, "the index of models"):
            return list(dict.fromkeys(_as(str, one["name"]) for one in _as(list, answer)))

    def infer(
        self, asked: Asked, timeout: float | None, cancellation: Cancellation | None
    ) -> list[Given[bytes]]:
        body, headers = _body(asked, timeout)
        path = f"{_path(asked.model)}/infer"
        exchange = self._begin("POST", path, body, headers, timeout, cancellation)
        response = exchange.response
        content = exchange.read()
        exchange.end()
        return self._tensors(response, content, asked.id)

    def stream(
        self, asked: Asked, timeout: float | None, cancellation: Cancellation
    ) -> Iterator[list[Given[bytes]]]:
        body, headers = _body(asked, timeout)
        path = f"{_path(asked.model)}/infer"
        headers["Accept"] = _PARTS
        exchange = self._begin("POST", path, body, headers, timeout, cancellation)
        response = exchange.response
        if response.status != 200 or _PARTS not in (response.getheader("Content-Type") or ""):
            content = exchange.read()
            exchange.end()
            yield self._tensors(response, content, asked.id)
            return
        try:
            while (part := exchange.part()) is not None:
                said, content = part
                told = said.get(FAULT)
                with reading(self.address, "a part of the stream"):
                    length = int(said.get(_LENGTH, len(content)))
                    answer = json.loads(content[:length])
                    tensors = [] if told is not None else _tensors(answer, content[length:])
                    text = "" if told is None else str(answer["error"])
                if told is not None:
                    raise Failed(*read_fault(Code.FAILED, text, told, asked.id))
                yield tensors
        finally:
            exchange.end()

    def close(self) -> None:
        self._connections.close()

    def _ask(
        self, verb: str, path: str, timeout: float | None, body: bytes = b""
    ) -> Any:  # Any: JSON
        exchange = self._begin(verb, path, body, {}, timeout, None)
        content = exchange.read()
        exchange.end()
        return self._read(exchange.response, content, "")[0]

    def _tensors(
        self, response: HTTPResponse, content: bytes, request_id: str
    ) -> list[Given[bytes]]:
        answer, rest = self._read(response, content, request_id)
        with reading(self.address, "the answer"):
            return _tensors(answer, rest)

    def _read(
        self, response: HTTPResponse, content: bytes, request_id: str
    ) -> tuple[Any, bytes]:  # Any: JSON
        """Return the JSON of an answer and what is behind it; raises what it tells of."""
        code = _CODES.get(response.status, Code.FAILED)
        try:
            length = int(response.getheader(_LENGTH) or len(content))
            answer = json.loads(content[:length])
            if response.status == 200:
                return answer, content[length:]
            text = _as(str, answer["error"])
        except (ValueError, LookupError, TypeError, RecursionError):
            status = f"HTTP {response.status} {response.reason}"
            said = f"{self.address} answered {status}, and no JSON of this protocol"
            raise Failed(Fault(code, said)) from None
        told, untouched = read_fault(code, text, response.getheader(FAULT), request_id)
        if told.retry_after is None:
            told.retry_after = read_wait(response.getheader("Retry-After"))
        raise Failed(told, untouched)

    def _begin(
        self,
        verb: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout: float | None,
        cancellation: Cancellation | None,
    ) -> Exchange:
        until = None if timeout is None else monotonic() + timeout + _GRACE
        try:
            connection = self._connections.take(timeout)
        except TimeoutError:
            raise late(self.address) from None
        except OSError as error:
            raise unreached(self.address, error) from None
        exchange = Exchange(self.address, connection, self._connections, until, cancellation)
        exchange.send(verb, self._prefix + path, body, {**self._headers, **headers})
        return exchange


def _path(model: Model) -> str:
    version = f"/versions/{quote(model.version, safe='')}" if model.version else ""
    return f"/v2/models/{quote(model.name, safe='')}{version}"


def _body(asked: Asked, timeout: float | None) -> tuple[bytes, dict[str, str]]:
    """Return the body of a request, and the headers that go with it."""
    raws = [write_raw(tensor.flat) for tensor in asked.tensors]
    parameters: dict[str, bool | int | float | str] = {
        **asked.parameters,
        "binary_data_output": True,
    }
    if timeout is not None:
        parameters["timeout"] = max(1, round(timeout * 1e6))
    request: dict[str, Any] = {  # Any: JSON
        "parameters": parameters,
        "inputs": [
            {
                "name": tensor.name,
                "datatype": tensor.datatype.name,
                "shape": tensor.shape,
                "parameters": {"binary_data_size": len(raw)},
            }
            for tensor, raw in zip(asked.tensors, raws, strict=True)
        ],
    }
    if asked.id:
        request["id"] = asked.id
    if asked.outputs is not None:
        request["outputs"] = [{"name": name} for name in asked.outputs]
    head = json.dumps(request).encode()
    headers = {_LENGTH: str(len(head)), "Content-Type": "application/octet-stream"}
    return b"".join((head, *raws)), headers


def _tensors(answer: Any, rest: bytes) -> list[Given[bytes]]:  # Any: JSON
    given: list[Given[bytes]] = []
    for output in _as(list, answer["outputs"]):
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            fault = Fault(Code.UNSUPPORTED, "the server did not answer with binary tensors")
            raise Failed(fault)
        if not 0 <= _as(int, size) <= len(rest):
            raise ValueError(f"an output of {size} bytes, of which {len(rest)} came")
        name, datatype = _as(str, output["name"]), _as(str, output["datatype"])
        shape = tuple(_as(int, one) for one in output["shape"])
        given.append((name, datatype, shape, rest[:size]))
        rest = rest[size:]
    return given


def _as(kind: type[Kind], value: object) -> Kind:
    """Return a part of an answer; TypeError where it is something else."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r:.50}, which is no {kind.__name__}")
    return value
