"""A client's requests over gRPC."""

from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from google.protobuf import json_format

from ..runtime.grpc.status import STATUS
from ..runtime.protocols.ext.sequence import named
from ..runtime.protocols.inputs import Given
from ..runtime.protocols.messages import ModelInferRequest, message
from ..runtime.protocols.raw import write_raw
from ..runtime.protocols.results import WireTensor
from ..runtime.request import Code, Fault, InSequence

_CODES = {status.value: code for code, status in STATUS.items()} | {
    STATUS[Code.UNAVAILABLE].value: Code.UNAVAILABLE,
    STATUS[Code.FAILED].value: Code.FAILED,
}


class GrpcWire:
    """A channel of grpcio."""

    def __init__(self, address: str, timeout: float | None) -> None:
        unbounded = [(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")]
        self._channel = grpc.insecure_channel(address, options=unbounded)
        self._timeout = timeout

    def config(self, model: str) -> Mapping[str, Any]:  # Any: JSON
        request = message("ModelConfigRequest")(name=model)
        answer = self._call("ModelConfig", request, self._timeout)
        config = json_format.MessageToDict(answer.config, preserving_proto_field_name=True)
        return {"name": model, **config}

    def infer(
        self,
        model: str,
        tensors: Sequence[WireTensor],
        outputs: Sequence[str] | None,
        timeout: float | None,
        sequence: InSequence | None = None,
    ) -> list[Given[bytes]]:
        request = ModelInferRequest(model_name=model)
        for tensor in tensors:
            request.inputs.add(name=tensor.name, datatype=tensor.datatype.name, shape=tensor.shape)
            request.raw_input_contents.append(write_raw(tensor.flat))
        for name, value in (named(sequence) if sequence is not None else {}).items():
            if isinstance(value, bool):
                request.parameters[name].bool_param = value
            elif isinstance(value, int):
                request.parameters[name].uint64_param = value
            else:
                request.parameters[name].string_param = value
        for name in outputs or ():
            request.outputs.add(name=name)
        answer = self._call("ModelInfer", request, self._timeout if timeout is None else timeout)
        if len(answer.outputs) != len(answer.raw_output_contents):
            raise Fault(Code.UNSUPPORTED, "the server did not answer with raw tensors")
        return [
            (output.name, output.datatype, tuple(output.shape), raw)
            for output, raw in zip(answer.outputs, answer.raw_output_contents, strict=True)
        ]

    def close(self) -> None:
        self._channel.close()

    def _call(self, name: str, request: Any, timeout: float | None) -> Any:  # Any: messages
        call = self._channel.unary_unary(
            f"/inference.GRPCInferenceService/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=message(f"{name}Response").FromString,
        )
        try:
            return call(request, timeout=timeout)
        except grpc.RpcError as error:
            number = error.code().value[0]
            raise Fault(
                _CODES.get(number, Code.FAILED),
                error.details() or str(number),
                retry_after=_retry_after(error.trailing_metadata()),
            ) from None


def _retry_after(trailers: Any) -> float | None:  # Any: as grpcio's stubs
    told = (value for key, value in trailers or () if key == "retry-after-ms")
    return next((int(value) / 1000 for value in told if value.isdigit()), None)
