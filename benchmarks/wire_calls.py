"""What the load generators send: requests over both protocols, and whether an answer is right.

Tensors are raw over gRPC, and over HTTP binary data behind the JSON; as JSON for servers that know
no binary data.
"""

import http.client
import json
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
from tritonclient.grpc import service_pb2
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor
from wire_models import EMITTED, Array, Arrays, Asked

_PB: Any = service_pb2  # Any: made at run time
_LENGTH = "inference-header-content-length"
_SERVICE = "/inference.GRPCInferenceService/"


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request over HTTP. `answers` is what the response holds, None when it only has to be OK."""

    path: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    answers: Arrays | None = None

    def check(self, address: str) -> None:
        """Ask once; RuntimeError when the answer is not right."""
        host, _, port = address.rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        try:
            method = "POST" if self.body else "GET"
            connection.request(method, self.path, self.body, self.headers)
            response = connection.getresponse()
            content = response.read()
            if response.status != 200:
                raise RuntimeError(f"{self.path}: {response.status} {content[:500]!r}")
            if self.answers is not None:
                _compare(self.path, self.answers, _http_outputs(response, content))
        finally:
            connection.close()


@dataclass(frozen=True, slots=True)
class GrpcCall:
    """A call over gRPC, of a stream with one message in or unary."""

    method: str
    body: bytes
    stream: bool = False
    answers: Arrays | None = None

    @property
    def path(self) -> str:
        return _SERVICE + self.method

    def check(self, address: str) -> int:
        """Ask once and return how many bytes the answer is in its frames; RuntimeError when it is
        not right."""
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(address, options) as channel:
            if self.stream:
                call: Any = channel.stream_stream(self.path)
                return sum(len(answer) + 5 for answer in call(iter([self.body]), timeout=60))
            answer: bytes = channel.unary_unary(self.path)(self.body, timeout=60)
        if self.answers is not None:
            _compare(self.path, self.answers, _grpc_outputs(answer))
        return len(answer) + 5


def http_infer(asked: Asked, *, binary: bool = True) -> HttpCall:
    raws = [raw_of(array) for array in asked.inputs.values()]
    inputs: list[dict[str, Any]] = []  # Any: JSON
    for (name, array), raw in zip(asked.inputs.items(), raws, strict=True):
        tensor = described(name, array)
        if binary:
            tensor["parameters"] = {"binary_data_size": len(raw)}
        else:
            flat = array.ravel().tolist()
            tensor["data"] = [one.decode() if isinstance(one, bytes) else one for one in flat]
        inputs.append(tensor)
    message: dict[str, Any] = {"inputs": inputs}
    if binary:
        message["parameters"] = {"binary_data_output": True}
    head = json.dumps(message).encode()
    headers = {_LENGTH: str(len(head))} if binary else {"content-type": "application/json"}
    body = b"".join((head, *raws)) if binary else head
    return HttpCall(f"/v2/models/{asked.model}/infer", body, headers, asked.outputs)


def grpc_infer(asked: Asked) -> GrpcCall:
    message = _PB.ModelInferRequest(model_name=asked.model)
    for name, array in asked.inputs.items():
        message.inputs.add(**described(name, array))
        message.raw_input_contents.append(raw_of(array))
    return GrpcCall("ModelInfer", message.SerializeToString(), answers=asked.outputs)


def http_stream() -> HttpCall:
    return HttpCall("/v2/models/count/generate_stream", json.dumps({"most": EMITTED}).encode())


def grpc_stream() -> GrpcCall:
    message = _PB.ModelInferRequest(model_name="count")
    message.inputs.add(name="most", datatype="INT64", shape=[1])
    message.raw_input_contents.append(np.array([EMITTED], np.int64).tobytes())
    return GrpcCall("ModelStreamInfer", message.SerializeToString(), stream=True)


def http_metadata() -> HttpCall:
    return HttpCall("/v2/models/tiny")


def grpc_metadata() -> GrpcCall:
    return GrpcCall("ModelMetadata", _PB.ModelMetadataRequest(name="tiny").SerializeToString())


def http_live() -> HttpCall:
    return HttpCall("/v2/health/live")


def grpc_live() -> GrpcCall:
    return GrpcCall("ServerLive", b"")


def described(name: str, array: Array) -> dict[str, Any]:  # Any: JSON
    """Return what a request or an answer says of a tensor."""
    return {"name": name, "datatype": _NAMES[array.dtype.char], "shape": array.shape}


def raw_of(array: Array) -> bytes:
    """Return a tensor as the protocol has it."""
    if array.dtype != np.object_:
        return array.tobytes()
    return serialize_byte_tensor(array).item() if array.size else b""


def array_of(tensor: Any, raw: bytes | memoryview) -> Array:  # Any: what JSON or a message says
    """Read a tensor that `described` describes."""
    if tensor["datatype"] == "BYTES":
        return deserialize_bytes_tensor(bytes(raw)).reshape(tensor["shape"])
    return np.frombuffer(raw, _DTYPES[tensor["datatype"]]).reshape(tensor["shape"])


_DTYPES = {"FP32": np.dtype(np.float32), "UINT8": np.dtype(np.uint8)}
_NAMES = {dtype.char: name for name, dtype in _DTYPES.items()} | {"O": "BYTES"}


def _grpc_outputs(answer: bytes) -> Arrays:
    message = _PB.ModelInferResponse.FromString(answer)
    outputs: dict[str, Array] = {}
    for index, tensor in enumerate(message.outputs):
        told = {"datatype": tensor.datatype, "shape": list(tensor.shape)}
        if message.raw_output_contents:
            outputs[tensor.name] = array_of(told, message.raw_output_contents[index])
            continue
        contents = tensor.contents
        if tensor.datatype == "BYTES":
            values = np.array(list(contents.bytes_contents), object)
        else:
            values = np.array(contents.fp32_contents, np.float32)
        outputs[tensor.name] = values.reshape(told["shape"])
    return outputs


def _http_outputs(response: http.client.HTTPResponse, content: bytes) -> Arrays:
    length = int(response.getheader(_LENGTH) or len(content))
    outputs: dict[str, Array] = {}
    rest = memoryview(content)[length:]
    for tensor in json.loads(content[:length])["outputs"]:
        if "data" in tensor:
            flat = [one.encode() if isinstance(one, str) else one for one in tensor["data"]]
            dtype = _DTYPES.get(tensor["datatype"], np.dtype(object))
            outputs[tensor["name"]] = np.array(flat, dtype).reshape(tensor["shape"])
            continue
        size = tensor["parameters"]["binary_data_size"]
        outputs[tensor["name"]] = array_of(tensor, rest[:size])
        rest = rest[size:]
    return outputs


def _compare(path: str, wanted: Arrays, got: Arrays) -> None:
    for name, array in wanted.items():
        found = got[name].reshape(array.shape)
        same = (
            (found == array).all()
            if array.dtype == np.object_
            else np.allclose(found, array, rtol=1e-3)
        )
        if not same:
            raise RuntimeError(f"{path}: `{name}` is {found}, not {array}")
