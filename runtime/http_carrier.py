"""Requests of a stage over HTTP, on connections that are kept."""

import json
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from .carriers import Answer, Asked, Refused, Target, datatype_named, read_values
from .model_backend import Spares
from .protocols.raw import Flat, as_numbers, write_raw
from .request import Code

LENGTH: Final = "Inference-Header-Content-Length"
BINARY: Final = "binary_tensor_data"
_SHOWN: Final = 200  # bytes of an answer that is none
_OF_HTTP: Final = {
    400: Code.INVALID,
    401: Code.UNAUTHENTICATED,
    403: Code.FORBIDDEN,
    404: Code.NOT_FOUND,
    429: Code.OVERLOADED,
    501: Code.UNSUPPORTED,
    503: Code.UNAVAILABLE,
    504: Code.DEADLINE,
}


class HttpCarrier:
    """Connections that are kept, one for each request at a time. Tensors go as raw bytes where the
    server takes them, else as JSON."""

    def __init__(self, host: str, port: int | None, *, secure: bool) -> None:
        kind = HTTPSConnection if secure else HTTPConnection
        self._connections: Spares[HTTPConnection] = Spares(lambda: kind(host, port))
        self._binary: bool | None = None

    def metadata(self, target: Target, timeout: float) -> Mapping[str, Any]:  # Any: JSON
        return self._ask("GET", _path(target), b"", {}, timeout)[0]

    def names(self, timeout: float) -> Sequence[str]:
        listed: Any = self._ask("POST", "/v2/repository/index", b"{}", {}, timeout)[0]  # Any: JSON
        return sorted({str(one.get("name")) for one in listed})

    def infer(self, target: Target, asked: Asked, timeout: float | None) -> Answer:
        if self._binary is None:
            server, _ = self._ask("GET", "/v2", b"", {}, timeout)
            self._binary = BINARY in server.get("extensions", ())
        raws = [write_raw(one.flat) for one in asked.tensors] if self._binary else []
        request: dict[str, Any] = {  # Any: JSON
            "parameters": {**asked.parameters, **({"binary_data_output": True} if raws else {})},
            "inputs": [
                {
                    "name": one.name,
                    "datatype": one.datatype.name,
                    "shape": one.shape,
                    **(
                        {"parameters": {"binary_data_size": len(raws[index])}}
                        if raws
                        else {"data": _listed(one.flat)}
                    ),
                }
                for index, one in enumerate(asked.tensors)
            ],
            "outputs": [{"name": name} for name in asked.outputs],
        }
        if asked.id:
            request["id"] = asked.id
        head = json.dumps(request).encode()
        headers = {"Content-Type": "application/octet-stream" if raws else "application/json"}
        headers |= {LENGTH: str(len(head))} if raws else {}
        body = b"".join((head, *raws))
        answer, rest = self._ask("POST", f"{_path(target)}/infer", body, headers, timeout)
        try:
            return _outputs(answer, rest)
        except (KeyError, TypeError, ValueError) as error:  # it is another's, and may be anything
            said = f"{type(error).__name__}: {error}"
            raise Refused(Code.FAILED, f"its answer is broken: {said}") from error

    def close(self) -> None:
        for connection in self._connections.close():
            connection.close()

    def _ask(
        self,
        verb: str,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        timeout: float | None,
    ) -> tuple[dict[str, Any], bytes]:  # Any: JSON
        with self._connections.one() as connection:
            kept = connection.sock is not None
            try:
                try:
                    return _answer(_exchange(connection, verb, path, body, headers, timeout))
                except ConnectionError:
                    if not kept:
                        raise
                    # one that was idle too long, which the server has closed, has seen nothing
                    connection.close()
                    return _answer(_exchange(connection, verb, path, body, headers, timeout))
            except TimeoutError:
                connection.close()
                raise Refused(Code.DEADLINE, "no answer in time") from None
            except (OSError, HTTPException) as error:
                connection.close()
                raise Refused(Code.UNAVAILABLE, f"it cannot be reached: {error}") from None


def _exchange(
    connection: HTTPConnection,
    verb: str,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
    timeout: float | None,
) -> tuple[HTTPResponse, bytes]:
    connection.timeout = timeout
    if connection.sock is not None:
        connection.sock.settimeout(timeout)
    connection.request(verb, path, body, dict(headers))
    response = connection.getresponse()
    return response, response.read()


def _answer(given: tuple[HTTPResponse, bytes]) -> tuple[dict[str, Any], bytes]:  # Any: JSON
    response, content = given
    length = int(response.getheader(LENGTH) or len(content))
    try:
        answer = json.loads(content[:length])
        said = str(answer.get("error", answer.get("detail", ""))) if response.status != 200 else ""
    except (ValueError, AttributeError):
        text = content[:_SHOWN].decode("utf-8", "replace").strip()
        answer, said = {}, f"HTTP {response.status} {response.reason}, no JSON: {text!a}"
    if response.status == 200 and not said:
        return answer, content[length:]
    after = response.getheader("Retry-After") or ""
    code = _OF_HTTP.get(response.status, Code.FAILED)
    raise Refused(code, said, float(after) if after.isdigit() else None)


def _path(target: Target) -> str:
    version = f"/versions/{quote(target.version, safe='')}" if target.version else ""
    return f"/v2/models/{quote(target.model, safe='')}{version}"


def _outputs(answer: "dict[str, Any]", rest: bytes) -> Answer:  # Any: JSON
    found: dict[str, tuple[str, tuple[int, ...], Flat]] = {}
    for one in answer["outputs"]:
        size = one.get("parameters", {}).get("binary_data_size")
        datatype, shape = one["datatype"], tuple(map(int, one["shape"]))
        if size is None:
            found[one["name"]] = datatype, shape, _unlisted(one["data"], datatype)
        else:
            found[one["name"]] = datatype, shape, read_values(rest[:size], datatype, shape)
            rest = rest[size:]
    return found


def _listed(flat: Flat) -> "list[Any]":  # Any: JSON
    if isinstance(flat, np.ndarray):
        return flat.ravel().tolist()
    return [one.decode() if isinstance(one, bytes) else str(one) for one in flat]


def _unlisted(data: Any, name: str) -> Flat:  # Any: JSON
    datatype = datatype_named(name)
    flat: list[Any] = []  # Any: JSON

    def walk(part: Any) -> None:  # Any: JSON, flat or nested
        if isinstance(part, list):
            for one in part:
                walk(one)
        else:
            flat.append(part)

    walk(data)
    if not datatype.width:
        return [str(one).encode() for one in flat]
    return as_numbers(flat, datatype)
