"""What carries a stage's requests to another server: gRPC or HTTP, of the Open Inference Protocol.

A carrier may be used by several threads. It raises Refused for what the server says, and what did
not come to that.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from .grpc.status import STATUS
from .model_backend import library
from .protocols.datatypes import DATATYPES, Datatype
from .protocols.faults import FAULT, read_fault
from .protocols.raw import Flat, RawError, read_raw, write_raw
from .protocols.results import WireTensor
from .request import Code

_SERVICE: Final = "/inference.GRPCInferenceService"
_BY_NAME: Final = {one.name: one for one in DATATYPES.values()}
_OF_GRPC: Final = {status.value: code for code, status in STATUS.items()} | {
    STATUS[Code.UNAVAILABLE].value: Code.UNAVAILABLE,
    STATUS[Code.FAILED].value: Code.FAILED,
}


class Refused(Exception):
    """The server refuses, or cannot be reached; `retry_after` in seconds where it tells."""

    def __init__(self, code: Code, message: str, retry_after: float | None = None) -> None:
        self.code, self.message, self.retry_after = code, message, retry_after
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Target:
    """A model of a server; `version` "" leaves the choice to it."""

    model: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: tensors, the names of the outputs that are wanted, and what is told of it."""

    tensors: Sequence[WireTensor]
    outputs: Sequence[str]
    id: str = ""
    parameters: Mapping[str, int] = field(default_factory=dict[str, int])


Answer = Mapping[str, tuple[str, tuple[int, ...], Flat]]
"""Datatype, shape and values of each output."""


class Carrier(Protocol):
    def metadata(self, target: Target, timeout: float) -> Mapping[str, Any]:  # Any: JSON
        """Return what the server says of a model's inputs and outputs."""
        ...

    def names(self, timeout: float) -> Sequence[str]:
        """Return the names of the models that the server has."""
        ...

    def infer(self, target: Target, asked: Asked, timeout: float | None) -> Answer: ...

    def close(self) -> None: ...


class Calling(Protocol):
    """A call that is under way; its answers, as they come. Iterating raises Refused."""

    def __iter__(self) -> Iterator[Answer]: ...

    def cancel(self) -> object: ...


class GrpcCarrier:
    """A channel of grpcio, which connects again by itself."""

    def __init__(self, address: str) -> None:
        self._grpc: Any = library("grpc", "server")  # Any: it is partly typed
        self._messages: Any = library("headrace.runtime.protocols.messages", "server")
        options = [(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")]
        # one that comes again is found soon
        options += [
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 5000),
        ]
        self._channel = self._grpc.insecure_channel(address, options=options)

    def metadata(self, target: Target, timeout: float) -> Mapping[str, Any]:  # Any: JSON
        request = self._messages.message("ModelMetadataRequest")(
            name=target.model, version=target.version
        )
        answer = self._call("ModelMetadata", request, timeout)
        return {
            key: [
                {"name": one.name, "datatype": one.datatype, "shape": list(one.shape)}
                for one in getattr(answer, key)
            ]
            for key in ("inputs", "outputs")
        }

    def names(self, timeout: float) -> Sequence[str]:
        request = self._messages.message("RepositoryIndexRequest")(ready=True)
        return sorted({one.name for one in self._call("RepositoryIndex", request, timeout).models})

    def infer(self, target: Target, asked: Asked, timeout: float | None) -> Answer:
        return self._answer(self._call("ModelInfer", self._request(target, asked), timeout))

    def stream(self, target: Target, asked: Asked, timeout: float | None) -> "GrpcCalling":
        """Ask a model that answers any number of times."""
        method = self._channel.stream_stream(
            f"{_SERVICE}/ModelStreamInfer",
            request_serializer=self._messages.ModelInferRequest.SerializeToString,
            response_deserializer=self._messages.ModelStreamInferResponse.FromString,
        )
        call = method(iter([self._request(target, asked)]), timeout=timeout)
        return GrpcCalling(call, self._grpc.RpcError, self._answer)

    def _request(self, target: Target, asked: Asked) -> Any:  # Any: a message, here and below
        request = self._messages.ModelInferRequest(
            model_name=target.model, model_version=target.version, id=asked.id
        )
        for name, value in asked.parameters.items():
            request.parameters[name].int64_param = value
        for tensor in asked.tensors:
            request.inputs.add(name=tensor.name, datatype=tensor.datatype.name, shape=tensor.shape)
            request.raw_input_contents.append(write_raw(tensor.flat))
        for name in asked.outputs:
            request.outputs.add(name=name)
        return request

    def _answer(self, answer: Any) -> Answer:
        if len(answer.outputs) != len(answer.raw_output_contents):
            raise Refused(Code.UNSUPPORTED, "it did not answer with raw tensors")
        return {
            one.name: (one.datatype, tuple(one.shape), read_values(raw, one.datatype, one.shape))
            for one, raw in zip(answer.outputs, answer.raw_output_contents, strict=True)
        }

    def close(self) -> None:
        self._channel.close()

    def _call(self, name: str, request: Any, timeout: float | None) -> Any:  # Any: messages
        call = self._channel.unary_unary(
            f"{_SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=self._messages.message(f"{name}Response").FromString,
        )
        try:
            return call(request, timeout=timeout)
        except self._grpc.RpcError as error:
            raise _refused(error) from None


@dataclass(frozen=True, slots=True)
class GrpcCalling:
    """Any: grpcio's own, which is partly typed."""

    call: Any
    failing: type[Exception]
    read: Callable[[Any], Answer]

    def __iter__(self) -> Iterator[Answer]:
        try:
            for one in self.call:
                answer = one.infer_response
                if one.error_message:
                    told = answer.parameters[FAULT].string_param or None
                    fault = read_fault(Code.FAILED, one.error_message, told).fault
                    raise Refused(fault.code, one.error_message, fault.retry_after)
                if answer.outputs:  # else it says that it was the last
                    yield self.read(answer)
        except self.failing as error:
            raise _refused(error) from None

    def cancel(self) -> object:
        return self.call.cancel()


def _refused(error: Any) -> Refused:  # Any: an RpcError that is a call as well
    code = _OF_GRPC.get(error.code().value[0], Code.FAILED)
    told = dict(error.trailing_metadata() or ()).get("retry-after-ms", "")
    after = int(told) / 1000 if str(told).isdigit() else None
    return Refused(code, error.details() or error.code().name, after)


def datatype_named(name: str) -> Datatype:
    if name not in _BY_NAME:
        raise Refused(Code.UNSUPPORTED, f"its datatype {name!a} is unknown")
    return _BY_NAME[name]


def read_values(raw: bytes, datatype: str, shape: Sequence[int]) -> Flat:
    count = 1
    for size in shape:
        count *= size
    try:
        return read_raw(raw, datatype_named(datatype), count)
    except RawError as error:
        raise Refused(Code.FAILED, f"its answer is broken: {error}") from error
