"""A client's requests over HTTP, on one connection that is kept."""

import json
import threading
from collections.abc import Mapping, Sequence
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPResponse,
    HTTPSConnection,
    RemoteDisconnected,
)
from typing import Any
from urllib.parse import quote

from ..runtime.protocols.ext.sequence import named
from ..runtime.protocols.inputs import Given
from ..runtime.protocols.raw import write_raw
from ..runtime.protocols.results import WireTensor
from ..runtime.request import Code, Fault, InSequence

_LENGTH = "Inference-Header-Content-Length"
_CODES = {400: Code.INVALID, 404: Code.NOT_FOUND, 501: Code.UNSUPPORTED, 503: Code.UNAVAILABLE}


class HttpWire:
    """One connection; calls of several threads take turns."""

    def __init__(self, host: str, port: int | None, timeout: float | None, *, secure: bool) -> None:
        """`port` None is the scheme's own; `secure` is for TLS."""
        kind = HTTPSConnection if secure else HTTPConnection
        self._connection = kind(host, port, timeout=timeout)
        self._turn = threading.Lock()

    def config(self, model: str) -> Mapping[str, Any]:  # Any: JSON
        answer, _ = self._call("GET", f"{_path(model)}/config", b"", {})
        return {"name": model, **answer}

    def infer(
        self,
        model: str,
        tensors: Sequence[WireTensor],
        outputs: Sequence[str] | None,
        timeout: float | None,
        sequence: InSequence | None = None,
    ) -> list[Given[bytes]]:
        raws = [write_raw(tensor.flat) for tensor in tensors]
        parameters: dict[str, bool | int | str] = {"binary_data_output": True}
        if sequence is not None:
            parameters |= named(sequence)
        if timeout is not None:
            parameters["timeout"] = round(timeout * 1e6)
        request: dict[str, Any] = {  # Any: JSON
            "parameters": parameters,
            "inputs": [
                {
                    "name": tensor.name,
                    "datatype": tensor.datatype.name,
                    "shape": tensor.shape,
                    "parameters": {"binary_data_size": len(raw)},
                }
                for tensor, raw in zip(tensors, raws, strict=True)
            ],
        }
        if outputs is not None:
            request["outputs"] = [{"name": name} for name in outputs]
        head = json.dumps(request).encode()
        headers = {_LENGTH: str(len(head)), "Content-Type": "application/octet-stream"}
        answer, rest = self._call("POST", f"{_path(model)}/infer", b"".join((head, *raws)), headers)
        given: list[Given[bytes]] = []
        for output in answer["outputs"]:
            size = output.get("parameters", {}).get("binary_data_size")
            if size is None:
                raise Fault(Code.UNSUPPORTED, "the server did not answer with binary tensors")
            given.append((output["name"], output["datatype"], tuple(output["shape"]), rest[:size]))
            rest = rest[size:]
        return given

    def close(self) -> None:
        self._connection.close()

    def _call(
        self, verb: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[dict[str, Any], bytes]:  # Any: JSON
        with self._turn:
            try:
                return _read(*self._ask(verb, path, body, headers))
            except TimeoutError:
                self._connection.close()
                raise Fault(Code.DEADLINE, "no answer in time") from None
            except (OSError, HTTPException) as error:
                self._connection.close()
                raise Fault(Code.UNAVAILABLE, f"the server cannot be reached: {error}") from None

    def _ask(
        self, verb: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[HTTPResponse, bytes]:
        kept = self._connection.sock is not None
        try:
            self._connection.request(verb, path, body, headers)
            response = self._connection.getresponse()
        except (ConnectionResetError, BrokenPipeError, RemoteDisconnected):
            if not kept:
                raise
            # The server has closed a connection that was idle too long; it never saw the request.
            self._connection.close()
            self._connection.request(verb, path, body, headers)
            response = self._connection.getresponse()
        return response, response.read()


def _path(model: str) -> str:
    return f"/v2/models/{quote(model, safe='')}"


def _read(response: HTTPResponse, content: bytes) -> tuple[dict[str, Any], bytes]:  # Any: JSON
    length = int(response.getheader(_LENGTH) or len(content))
    try:
        answer = json.loads(content[:length])
        if response.status != 200:
            raise Fault(
                _CODES.get(response.status, Code.FAILED),
                str(answer["error"]),
                retry_after=_seconds(response.getheader("Retry-After")),
            )
    except (ValueError, KeyError, TypeError):
        raise Fault(
            Code.FAILED, f"HTTP {response.status} {response.reason}, and no answer in JSON"
        ) from None
    return answer, content[length:]


def _seconds(value: str | None) -> float | None:
    return float(value) if value is not None and value.isdigit() else None
