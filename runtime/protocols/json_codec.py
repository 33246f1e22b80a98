"""Requests and responses as HTTP bodies: JSON, and binary tensors behind it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, cast

import msgspec

from ...stdlib.op import Item
from ..extras import NO_EXTRAS, Extras
from ..request import Remarked, Request, RequestError
from .datatypes import Datatype
from .deliveries import Deliveries, Delivery
from .ext.binary_tensor_data import split_body, take_tensor, whole_body_input
from .ext.classification import read_classes
from .ext.parameters import free_parameters
from .ext.schedule_policy import read_urgency
from .ext.sequence import read_sequence
from .ext.system_shared_memory import read_place
from .inputs import Given, read_inputs
from .json_values import check_elements, read_json_values, write_json_values
from .limits import MIB, Limits
from .models import Model
from .parameters import Parameters, Value, boolean, check_parameters
from .raw import Buffer, Flat, raw_buffer, read_raw
from .results import result_tensors

_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Source: TypeAlias = Buffer | msgspec.Raw


class _InputParameters(msgspec.Struct):
    binary_data_size: _Size | None = None
    shared_memory_region: str | None = None
    shared_memory_offset: _Size = 0
    shared_memory_byte_size: _Size | None = None


class _Input(msgspec.Struct):
    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: _InputParameters | None = None
    data: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)  # none: it is not in the JSON


class _OutputParameters(msgspec.Struct):
    binary_data: bool | None = None
    classification: _Size = 0
    shared_memory_region: str | None = None
    shared_memory_offset: _Size = 0
    shared_memory_byte_size: _Size | None = None


class _Asked(msgspec.Struct):
    name: str
    parameters: _OutputParameters | None = None


class _Request(msgspec.Struct):
    inputs: list[_Input]
    id: str = ""
    parameters: dict[str, Value] = {}
    outputs: list[_Asked] = []


class _Outline(msgspec.Struct):
    """Of a large request what is many objects once it is read, as it stands."""

    inputs: list[msgspec.Raw] = []
    outputs: list[msgspec.Raw] = []
    parameters: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _InputOutline(msgspec.Struct):
    shape: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)


class _Output(msgspec.Struct, omit_defaults=True):
    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: Mapping[str, Value] | None = None
    data: Sequence[Value] | None = None


class _Response(msgspec.Struct, omit_defaults=True):
    model_name: str
    model_version: str
    outputs: list[_Output]
    id: str = ""
    parameters: Mapping[str, Value] | None = None


_BINARY_OUTPUT = "binary_data_output"
_REQUESTS = msgspec.json.Decoder(_Request)
_OUTLINES, _INPUT_OUTLINES = msgspec.json.Decoder(_Outline), msgspec.json.Decoder(_InputOutline)
_LARGE = MIB
_LONGEST_SHAPE = 4096  # characters
_ENCODER = msgspec.json.Encoder()


def decode_body(
    model: Model,
    body: Buffer,
    json_length: int | None,
    limits: Limits,
    now: float,
    extras: Extras = NO_EXTRAS,
) -> tuple[Request, Deliveries]:
    """Turn a body to a Request, and to how its outputs are to be sent.

    `now` is the engine's clock.
    """
    if json_length == 0:
        given = whole_body_input(model, body)
        inputs = read_inputs(model, [given], read_raw, limits.elements)
        return Request(model.name, inputs), Deliveries(True)
    head, rest = split_body(body, json_length)
    message = _parse(head, model, limits)
    tensors = _given(model, message, rest, limits, extras)
    inputs = read_inputs(model, tensors, _read, limits.elements)
    outputs, asked = None, None
    if message.outputs:
        asked = _asked(message, extras)
        outputs = model.wanted(each.name for each in message.outputs)
    parameters = message.parameters
    binary = boolean(parameters.pop(_BINARY_OUTPUT, False), _BINARY_OUTPUT)
    deliveries = Deliveries(binary, asked, extras)
    if not parameters:
        return Request(model.name, inputs, message.id, outputs=outputs), deliveries
    check_parameters(parameters, limits)
    timeout, priority = read_urgency(parameters)
    request = Request(
        model.name,
        inputs,
        message.id,
        None if timeout is None else now + timeout,
        priority,
        outputs,
        free_parameters(parameters),
        read_sequence(parameters),
    )
    return request, deliveries


def _parse(head: memoryview, model: Model, limits: Limits) -> _Request:
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


def _given(
    model: Model, message: _Request, rest: memoryview, limits: Limits, extras: Extras
) -> Iterator[Given[_Source]]:
    for tensor in message.inputs:
        parameters = tensor.parameters
        source: _Source
        if parameters is None or parameters.binary_data_size is None:
            source = _source(tensor, limits, extras)
        else:
            if parameters.shared_memory_region is not None:
                raise _twice(tensor)
            source, rest = take_tensor(tensor.name, rest, parameters.binary_data_size)
        yield tensor.name, tensor.datatype, tensor.shape, source
    if len(rest):
        raise RequestError(f"{len(rest)} bytes of the body belong to no input", pipeline=model.name)


def _source(tensor: _Input, limits: Limits, extras: Extras) -> _Source:
    """Return the values of an input that are not behind the JSON."""
    parameters = tensor.parameters
    if parameters is not None and parameters.shared_memory_region is not None:
        if len(tensor.data):
            raise _twice(tensor)
        return _in_memory(parameters, extras)
    if not len(tensor.data):
        raise RequestError(f"input {tensor.name!a} has neither `data` nor `binary_data_size`")
    if len(tensor.data) > limits.elements:
        check_elements(tensor.name, tensor.data, limits.elements)
    return tensor.data


def _twice(tensor: _Input) -> RequestError:
    return RequestError(f"input {tensor.name!a} is in memory and in the request")


def _read(source: _Source, datatype: Datatype, count: int) -> Flat:
    if not isinstance(source, msgspec.Raw):
        return read_raw(source, datatype, count)
    return read_json_values(memoryview(source), datatype, count)


def _asked(message: _Request, extras: Extras) -> dict[str, Delivery] | None:
    """Return what is said of each output; None when nothing is said of any."""
    asked: dict[str, Delivery] = {}
    for output in message.outputs:
        parameters = output.parameters
        if parameters is not None:
            said = _members(parameters)
            place = read_place(said)
            if place is not None:
                extras.lent()  # refuses before anything runs
            asked[output.name] = Delivery(parameters.binary_data, read_classes(said), place)
    return asked or None


def _in_memory(parameters: _InputParameters, extras: Extras) -> bytes:
    place = read_place(_members(parameters))
    assert place is not None, "there is a region"
    return extras.lent().read(place)


def _members(parameters: _InputParameters | _OutputParameters) -> Parameters:
    said = msgspec.structs.asdict(parameters)
    return {name: value for name, value in said.items() if value is not None}


def body_schemas(reference: str) -> tuple[Any, Any, dict[str, Any]]:  # Any: JSON
    """Return the JSON schemas of a request and a response, and those that they refer to."""
    (request, response), others = msgspec.json.schema_components(
        (_Request, _Response), ref_template=reference
    )
    return request, response, others


def encode_body(
    model: Model, request_id: str, outputs: Mapping[str, Item], deliveries: Deliveries
) -> tuple[bytes, int | None]:
    """Turn results to a body and the length of the JSON in it, None when it is JSON alone."""
    described: list[_Output] = []
    raws: list[Buffer] = []
    asked, binary = deliveries.asked, deliveries.binary
    for name, item in outputs.items():
        for tensor in result_tensors(model.outputs[name], item):
            as_binary, place = binary, None
            if asked is not None:
                delivery = deliveries.of(tensor.name, name)
                tensor = deliveries.classify(model, tensor, delivery)
                as_binary, place = delivery.binary, delivery.place
            output = _Output(tensor.name, tensor.datatype.name, tensor.shape)
            if place is not None:
                deliveries.place(tensor, place)  # of which clients in C++ want to be told nothing
            elif as_binary:
                raw = raw_buffer(tensor.flat)
                output.parameters = {"binary_data_size": len(raw)}
                raws.append(raw)
            else:
                output.data = write_json_values(tensor)
            described.append(output)
    said = _Response(model.name, model.version, described, request_id)
    if outputs.__class__ is Remarked:
        said.parameters = cast("Remarked", outputs).parameters
    head = _ENCODER.encode(said)
    if not raws:
        return head, None
    return b"".join((head, *raws)), len(head)
