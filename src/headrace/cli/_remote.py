"""`infer` to a server that speaks the Open Inference Protocol, over gRPC or HTTP.

Both carriers ask for the model's metadata first, which says how to read the inputs, and then send
one request with raw tensors.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

import numpy as np

from ..runtime.protocols.datatypes import BYTES, DATATYPES, Datatype
from ..runtime.protocols.raw import read_raw, write_raw
from ..runtime.request import Code, Fault
from . import _values
from .command import UsageError

Array: TypeAlias = "np.ndarray[Any, Any]"  # Any: of any shape and dtype
_HEADER = "Inference-Header-Content-Length"
_BY_NAME = {datatype.name: datatype for datatype in DATATYPES.values()}


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input as metadata describes it (no content), or a tensor that travels."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    content: bytes = b""


class Carrier(Protocol):
    def inputs(self, model: str) -> list[Tensor]:
        """Return what a model takes."""
        ...

    def infer(self, model: str, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Return its answer."""
        ...


def ask(
    target: str, pipeline: str | None, given: Mapping[str, Sequence[str]], timeout: float | None
) -> dict[str, Array]:
    """Return a server's answer; raises Fault as a plan here would."""
    url = urlsplit(target)
    model = pipeline or url.path.strip("/").removeprefix("v2/models/")
    if not model:
        raise UsageError(
            "which pipeline?", f"write `{target.rstrip('/')}/NAME`, or `--pipeline NAME`"
        )
    if not url.hostname:
        raise UsageError(f"`{target}` names no server", "write `grpc://host:port/pipeline`")
    if url.scheme == "grpc":
        carrier: Carrier = _Grpc(url.netloc, timeout)
    else:
        carrier = _Http(f"{url.scheme}://{url.netloc}", timeout)
    takes = {tensor.name: tensor for tensor in carrier.inputs(model)}
    values = _values.read(given, {name: _wanted(tensor) for name, tensor in takes.items()})
    tensors = [_tensor(takes[name], value) for name, value in values.items()]
    return {tensor.name: _array(tensor) for tensor in carrier.infer(model, tensors)}


def _wanted(tensor: Tensor) -> _values.Wanted:
    content = _values.Content.BYTES if tensor.datatype is BYTES else _values.Content.NUMBER
    return _values.Wanted(content, tensor.shape != (1,))


def _tensor(takes: Tensor, value: object) -> Tensor:
    """Return a value as the tensor that metadata asks for; a scalar gets its axis of one."""
    if takes.datatype is BYTES:
        array: Array = np.array(value, dtype=object)
    else:
        array = _numbers(takes, np.asarray(value))
    while array.ndim < len(takes.shape) and takes.shape[array.ndim] == 1:
        array = array.reshape(*array.shape, 1)
    flat = array.reshape(-1).tolist() if takes.datatype is BYTES else array
    return Tensor(takes.name, takes.datatype, array.shape, write_raw(flat))


def _numbers(takes: Tensor, given: Array) -> Array:
    """Return numbers in the dtype that is asked for, when that loses nothing but precision."""
    wanted = takes.datatype.numpy
    kinds = {"b": "b", "i": "iuf", "u": "iuf", "f": "f"}.get(given.dtype.kind, "")
    kind = "f" if takes.datatype.name == "BF16" else wanted.kind
    array = given.astype(wanted) if kind in kinds else given
    if kind not in kinds or (given.dtype.kind in "iu" and not np.array_equal(array, given)):
        raise UsageError(f"`{takes.name}` takes {takes.datatype.name}, which cannot hold this")
    return array


def _array(tensor: Tensor) -> Array:
    count = 1
    for size in tensor.shape:
        count *= size
    flat = read_raw(tensor.content, tensor.datatype, count)
    array: Array = np.array(flat, dtype=tensor.datatype.numpy).reshape(tensor.shape)
    return array.reshape(()) if tensor.shape == (1,) else array


class _Grpc:
    def __init__(self, address: str, timeout: float | None) -> None:
        import grpc

        from ..runtime.protocols import messages

        self._grpc, self._messages, self._timeout = grpc, messages, timeout
        unbounded = [(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")]
        self._channel = grpc.insecure_channel(address, options=unbounded)

    def inputs(self, model: str) -> list[Tensor]:
        request = self._messages.message("ModelMetadataRequest")(name=model)
        answer = self._call("ModelMetadata", request, "ModelMetadataResponse")
        return [Tensor(i.name, _datatype(i.datatype), tuple(i.shape)) for i in answer.inputs]

    def infer(self, model: str, inputs: Sequence[Tensor]) -> list[Tensor]:
        request = self._messages.ModelInferRequest(
            model_name=model,
            inputs=[
                {"name": one.name, "datatype": one.datatype.name, "shape": one.shape}
                for one in inputs
            ],
            raw_input_contents=[one.content for one in inputs],
        )
        answer = self._call("ModelInfer", request, "ModelInferResponse")
        if len(answer.raw_output_contents) != len(answer.outputs):
            raise Fault(Code.UNSUPPORTED, "the server did not answer with raw tensors")
        return [
            Tensor(one.name, _datatype(one.datatype), tuple(one.shape), content)
            for one, content in zip(answer.outputs, answer.raw_output_contents, strict=True)
        ]

    def _call(self, method: str, request: Any, answers: str) -> Any:  # Any: messages
        call = self._channel.unary_unary(
            f"/inference.GRPCInferenceService/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=self._messages.message(answers).FromString,
        )
        try:
            return call(request, timeout=self._timeout)
        except self._grpc.RpcError as error:
            codes = self._grpc.StatusCode
            code = {
                codes.INVALID_ARGUMENT: Code.INVALID,
                codes.NOT_FOUND: Code.NOT_FOUND,
                codes.DEADLINE_EXCEEDED: Code.DEADLINE,
                codes.UNAVAILABLE: Code.UNAVAILABLE,
            }.get(error.code(), Code.FAILED)
            raise Fault(code, error.details() or error.code().name) from None


class _Http:
    def __init__(self, base: str, timeout: float | None) -> None:
        self._base, self._timeout = base, timeout
        self._opener = build_opener(ProxyHandler({}))  # inference servers are near

    def inputs(self, model: str) -> list[Tensor]:
        answer, _ = self._call(self._url(model), None, {})
        return [
            Tensor(one["name"], _datatype(one["datatype"]), tuple(map(int, one["shape"])))
            for one in answer["inputs"]
        ]

    def infer(self, model: str, inputs: Sequence[Tensor]) -> list[Tensor]:
        described = [
            {
                "name": one.name,
                "datatype": one.datatype.name,
                "shape": one.shape,
                "parameters": {"binary_data_size": len(one.content)},
            }
            for one in inputs
        ]
        asked = {"inputs": described, "parameters": {"binary_data_output": True}}
        head = json.dumps(asked).encode()
        body = head + b"".join(one.content for one in inputs)
        headers = {_HEADER: str(len(head)), "Content-Type": "application/octet-stream"}
        answer, rest = self._call(f"{self._url(model)}/infer", body, headers)
        tensors: list[Tensor] = []
        for one in answer["outputs"]:
            size = one.get("parameters", {}).get("binary_data_size")
            if size is None:
                raise Fault(Code.UNSUPPORTED, "the server did not answer with binary tensors")
            shape = tuple(map(int, one["shape"]))
            tensors.append(Tensor(one["name"], _datatype(one["datatype"]), shape, rest[:size]))
            rest = rest[size:]
        return tensors

    def _url(self, model: str) -> str:
        return f"{self._base}/v2/models/{quote(model, safe='')}"

    def _call(
        self, url: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[Any, bytes]:  # Any: JSON
        try:
            request = Request(url, body, dict(headers))
            with self._opener.open(request, timeout=self._timeout) as response:
                content: bytes = response.read()
                size = int(response.headers.get(_HEADER) or len(content))
                return json.loads(content[:size]), content[size:]
        except HTTPError as error:
            raise Fault(_code(error.code), _said(error)) from None
        except TimeoutError:
            raise Fault(Code.DEADLINE, f"no answer in {self._timeout:g} s") from None
        except (URLError, OSError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise Fault(Code.UNAVAILABLE, f"{self._base} cannot be reached: {reason}") from None
        except ValueError as error:
            raise Fault(Code.FAILED, f"{url} did not answer with JSON: {error}") from None


def _code(status: int) -> Code:
    return {400: Code.INVALID, 404: Code.NOT_FOUND, 503: Code.UNAVAILABLE}.get(status, Code.FAILED)


def _said(error: HTTPError) -> str:
    text = error.read().decode("utf-8", "replace")
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code} {error.reason}"


def _datatype(name: str) -> Datatype:
    if name not in _BY_NAME:
        raise Fault(Code.UNSUPPORTED, f"the server uses the datatype {name}")
    return _BY_NAME[name]
