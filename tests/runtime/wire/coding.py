"""How tests of the encodings make and read requests and responses."""

from typing import Any

import msgspec

from headrace.runtime.protocols.json_codec import decode_body
from headrace.runtime.protocols.limits import Limits
from headrace.runtime.protocols.messages import ModelInferRequest, ModelInferResponse
from headrace.runtime.protocols.models import Model
from headrace.runtime.protocols.protobuf_codec import decode_request
from headrace.runtime.protocols.protobuf_writer import encode_response
from headrace.runtime.request import Request

LIMITS = Limits()


def decode_json(model: Model, content: object) -> Request:
    return decode_body(model, msgspec.json.encode(content), None, LIMITS, lambda: 0.0)[0]


def json_input(name: str, datatype: str, shape: list[int], data: object) -> dict[str, object]:
    return {"name": name, "datatype": datatype, "shape": shape, "data": data}


def message(model: Model, *tensors: tuple[str, str, list[int], bytes]) -> Any:  # Any: a message
    asked = ModelInferRequest(model_name=model.name)
    for name, datatype, shape, raw in tensors:
        asked.inputs.add(name=name, datatype=datatype, shape=shape)
        asked.raw_input_contents.append(raw)
    return asked


def decode(model: Model, asked: Any, remaining: float | None = None) -> Request:
    return decode_request(model, asked, LIMITS, 10.0, remaining)[0]


def inputs_of(request: Request) -> dict[str, Any]:
    """The inputs as the arrays and lists that a test knows them to be."""
    return dict(request.inputs)


def encode(model: Model, **outputs: Any) -> Any:
    """A ModelInferResponse of these results."""
    return ModelInferResponse.FromString(encode_response(model, "", outputs))
