"""The JSON of requests and responses: what members they have, and what is too much of them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import msgspec

from ..request import RequestError
from .limits import MIB, Limits
from .models import Model
from .parameters import Value

_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class InputParameters(msgspec.Struct):
    binary_data_size: _Size | None = None
    shared_memory_region: str | None = None
    shared_memory_offset: _Size = 0
    shared_memory_byte_size: _Size | None = None


class Input(msgspec.Struct):
    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: InputParameters | None = None
    data: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)  # none: it is not in the JSON


class OutputParameters(msgspec.Struct):
    binary_data: bool | None = None
    classification: _Size = 0
    shared_memory_region: str | None = None
    shared_memory_offset: _Size = 0
    shared_memory_byte_size: _Size | None = None


class AskedOutput(msgspec.Struct):
    name: str
    parameters: OutputParameters | None = None


class RequestBody(msgspec.Struct):
    inputs: list[Input]
    id: str = ""
    parameters: dict[str, Value] = {}
    outputs: list[AskedOutput] = []


class _Outline(msgspec.Struct):
    """Of a large request what is many objects once it is read, as it stands."""

    inputs: list[msgspec.Raw] = []
    outputs: list[msgspec.Raw] = []
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _InputOutline(msgspec.Struct):
    shape: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class Output(msgspec.Struct, omit_defaults=True):
    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: Mapping[str, Value] | None = None
    data: Sequence[Value] | None = None


class ResponseBody(msgspec.Struct, omit_defaults=True):
    model_name: str
    model_version: str
    outputs: list[Output]
    id: str = ""
    parameters: Mapping[str, Value] | None = None


_REQUESTS = msgspec.json.Decoder(RequestBody)
_OUTLINES, _INPUT_OUTLINES = msgspec.json.Decoder(_Outline), msgspec.json.Decoder(_InputOutline)
_LARGE = MIB
_LONGEST_SHAPE = 4096  # characters
ENCODER = msgspec.json.Encoder()


def parse(head: memoryview, model: Model, limits: Limits) -> RequestBody:
    """Read the JSON of a request; raises RequestError."""
    try:
        if len(head) > _LARGE:
            _check_outline(head, limits)
        message = _REQUESTS.decode(head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is no infer request: {error}", pipeline=model.name) from None
    if len(message.inputs) > limits.tensors or len(message.outputs) > limits.tensors:
        raise RequestError(f"more than {limits.tensors} tensors", pipeline=model.name)
    if len(message.id) > limits.id_length:
        raise RequestError(f"the id is longer than {limits.id_length} characters")
    return message


def _check_outline(head: memoryview, limits: Limits) -> None:
    outline = _OUTLINES.decode(head)
    if len(outline.inputs) > limits.tensors or len(outline.outputs) > limits.tensors:
        raise RequestError(f"more than {limits.tensors} tensors")
    if len(outline.parameters) > limits.arguments:
        raise RequestError(f"parameters of more than {limits.arguments} bytes")
    shapes = (_INPUT_OUTLINES.decode(one).shape for one in outline.inputs)
    if any(len(shape) > _LONGEST_SHAPE for shape in shapes):
        raise RequestError(f"a shape is longer than {_LONGEST_SHAPE} characters")


def body_schemas(reference: str) -> tuple[Any, Any, dict[str, Any]]:  # Any: JSON
    """Return the JSON schemas of a request and a response, and those that they refer to."""
    (request, response), others = msgspec.json.schema_components(
        (RequestBody, ResponseBody), ref_template=reference
    )
    return request, response, others
