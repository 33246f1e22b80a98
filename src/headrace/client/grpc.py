"""A client's requests over gRPC."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grpc
from google.protobuf import json_format

from ..runtime.grpc.status import STATUS
from ..runtime.protocols.faults import FAULT, read_fault
from ..runtime.protocols.inputs import Given
from ..runtime.protocols.messages import (
    ModelInferRequest,
    ModelInferResponse,
    ModelStreamInferResponse,
    message,
)
from ..runtime.protocols.raw import write_raw
from ..runtime.request import Code, Fault
from .address import Address
from .wire import Asked, Cancellation, Failed, Model, cancelled, late, lost, unreached

_SERVICE = "/inference.GRPCInferenceService"
_TOO_LARGE = 8  # RESOURCE_EXHAUSTED
_NO_MESSAGE = "Exception deserializing response!"  # as grpcio says it
_CODES = {status.value: code for code, status in STATUS.items()} | {
    STATUS[Code.UNAVAILABLE].value: Code.UNAVAILABLE,
    STATUS[Code.FAILED].value: Code.FAILED,
    _TOO_LARGE: Code.INVALID,
}
_NOT_CONNECTED = (
    "failed to connect to all addresses",
    "connections to all backends failing",
    "DNS resolution failed",
    "errors resolving",
)
"""How grpcio says that a call has found no connection, and so has sent nothing. Other texts are
taken to mean that it may have."""


class GrpcWire:
    """A channel of grpcio, which connects again by itself."""

    def __init__(self, address: Address) -> None:
        self.address = str(address)
        options = [
            *((f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")),
            ("grpc.enable_retries", 0),  # ours know what is safe, and have a budget
            # between attempts to connect calls fail at once, so ours must not outrun these by far
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 2000),
        ]
        tls = address.tls
        if tls is None:
            channel = grpc.insecure_channel(address.host_and_port, options=options)
        else:
            trusted = grpc.ssl_channel_credentials(*tls.read())
            channel = grpc.secure_channel(address.host_and_port, trusted, options=options)
        self._channel = channel
        token = address.token
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        self._infer = channel.unary_unary(
            f"{_SERVICE}/ModelInfer",
            request_serializer=ModelInferRequest.SerializeToString,
            response_deserializer=ModelInferResponse.FromString,
        )
        self._stream = channel.stream_stream(
            f"{_SERVICE}/ModelStreamInfer",
            request_serializer=ModelInferRequest.SerializeToString,
            response_deserializer=ModelStreamInferResponse.FromString,
        )

    def config(self, model: Model, timeout: float | None) -> Mapping[str, Any]:  # Any: JSON
        request = message("ModelConfigRequest")(name=model.name, version=model.version)
        answer = self._ask("ModelConfig", request, timeout)
        config = json_format.MessageToDict(answer.config, preserving_proto_field_name=True)
        return {"name": model.name, **config}

    def names(self, timeout: float | None) -> Sequence[str]:
        request = message("RepositoryIndexRequest")(ready=True)
        answer = self._ask("RepositoryIndex", request, timeout)
        return list(dict.fromkeys(one.name for one in answer.models))

    def infer(
        self, asked: Asked, timeout: float | None, cancellation: Cancellation | None
    ) -> list[Given[bytes]]:
        request = _message(asked)
        try:
            if cancellation is None:
                answer = self._infer(request, timeout=timeout, metadata=self._metadata)
            else:
                call = self._infer.future(request, timeout=timeout, metadata=self._metadata)
                cancellation.attach(call.cancel)
                answer = call.result()
        except grpc.FutureCancelledError:
            raise cancelled() from None
        except grpc.RpcError as error:
            raise self._failed(error, asked.id) from None
        except ValueError as error:  # of a channel that was closed
            raise unreached(self.address, error) from None
        return _tensors(answer)

    def stream(
        self, asked: Asked, timeout: float | None, cancellation: Cancellation
    ) -> Iterator[list[Given[bytes]]]:
        try:
            call = self._stream(iter([_message(asked)]), timeout=timeout, metadata=self._metadata)
            cancellation.attach(call.cancel)
            for answer in call:
                response = answer.infer_response
                if answer.error_message:
                    told = response.parameters[FAULT].string_param or None
                    raise Failed(*read_fault(Code.FAILED, answer.error_message, told, asked.id))
                yield _tensors(response)
        except grpc.RpcError as error:
            raise self._failed(error, asked.id) from None
        except ValueError as error:  # as above
            raise unreached(self.address, error) from None

    def close(self) -> None:
        self._channel.close()

    def _ask(self, name: str, request: Any, timeout: float | None) -> Any:  # Any: messages
        call = self._channel.unary_unary(
            f"{_SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=message(f"{name}Response").FromString,
        )
        try:
            return call(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._failed(error, "") from None

    def _failed(self, error: Any, request_id: str) -> Failed:  # Any: as grpcio's stubs
        """Return what a status means, told by a server or made of here."""
        if error.details() == _NO_MESSAGE:
            message = (
                f"{self.address} speaks another protocol, or is broken: its answer is no message"
            )
            return Failed(Fault(Code.UNSUPPORTED, message))
        trailers = dict(error.trailing_metadata() or ())
        number: int = error.code().value[0]
        code, text = _CODES.get(number, Code.FAILED), error.details() or str(number)
        if FAULT in trailers:
            return Failed(*read_fault(code, text, trailers[FAULT], request_id))
        match code:
            case Code.UNAVAILABLE:
                gone = unreached if text.startswith(_NOT_CONNECTED) else lost
                return gone(self.address, text)
            case Code.DEADLINE:
                return late(self.address)
            case Code.CANCELLED:
                return cancelled()
            case _:
                return Failed(Fault(code, text))


def _message(asked: Asked) -> Any:  # Any: a message
    request = ModelInferRequest(
        model_name=asked.model.name, model_version=asked.model.version, id=asked.id
    )
    inputs, raws = request.inputs, request.raw_input_contents
    for name, datatype, shape, flat in asked.tensors:
        inputs.add(name=name, datatype=datatype.name, shape=shape)
        raws.append(write_raw(flat))
    for name, value in asked.parameters.items():
        parameter = request.parameters[name]
        match value:
            case bool():
                parameter.bool_param = value
            case int() if value >= 1 << 63:
                parameter.uint64_param = value
            case int():
                parameter.int64_param = value
            case float():
                parameter.double_param = value
            case str():
                parameter.string_param = value
    for name in asked.outputs or ():
        request.outputs.add(name=name)
    return request


def _tensors(answer: Any) -> list[Given[bytes]]:  # Any: a message
    if len(answer.outputs) != len(answer.raw_output_contents):
        fault = Fault(Code.UNSUPPORTED, "the server did not answer with raw tensors")
        raise Failed(fault)
    return [
        (output.name, output.datatype, tuple(output.shape), raw)
        for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=True)
    ]
