"""Requests and responses as HTTP bodies: JSON, and binary tensors behind it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ..request import Request, RequestError, Response
from .datatypes import Datatype
from .ext.binary_tensor_data import (
    BinaryInputs,
    BinaryOutputs,
    read_binary_outputs,
    split_body,
    whole_body_input,
)
from .ext.parameters import free_parameters
from .ext.schedule_policy import read_urgency
from .inputs import Given, read_inputs
from .json_values import read_json_values, write_json_values
from .limits import Limits
from .models import Model
from .parameters import Parameters, refuse_unserved
from .raw import Flat, read_raw, write_raw
from .results import result_tensors

_Value = bool | int | float | str


class _Input(msgspec.Struct):
    name: str
    datatype: str
    shape: list[int]
    parameters: dict[str, _Value] = {}
    data: msgspec.Raw | None = None


class _Asked(msgspec.Struct):
    name: str
    parameters: dict[str, _Value] = {}


class _Request(msgspec.Struct):
    inputs: list[_Input]
    id: str = ""
    parameters: dict[str, _Value] = {}
    outputs: list[_Asked] | None = None


class _Output(msgspec.Struct, omit_defaults=True):
    name: str
    datatype: str
    shape: tuple[int, ...]
    parameters: dict[str, _Value] | None = None
    data: Sequence[_Value] | None = None


class _Response(msgspec.Struct, omit_defaults=True):
    model_name: str
    model_version: str
    outputs: list[_Output]
    id: str = ""


_REQUESTS = msgspec.json.Decoder(_Request)
_ENCODER = msgspec.json.Encoder()


class Decoded(NamedTuple):
    """A request, and which outputs are to be sent in binary form."""

    request: Request
    binary: BinaryOutputs


class Encoded(NamedTuple):
    """A body. `json_length` is None when it is JSON alone."""

    body: bytes
    json_length: int | None


def decode_body(
    model: Model, body: bytes, json_length: int | None, limits: Limits, now: float
) -> Decoded:
    """Turn the body of an infer request to a Request; `now` is the engine's clock."""
    if json_length == 0:
        name, given = whole_body_input(model, body)
        inputs = read_inputs(model, {name: given}, read_raw)
        return Decoded(Request(model.name, inputs), BinaryOutputs(True, {}))
    head, rest = split_body(body, json_length)
    message = _parse(head, model, limits)
    binary = BinaryInputs(rest)
    sources: dict[str, Given[_Source]] = {}
    for tensor in message.inputs:
        refuse_unserved(tensor.parameters, limits)
        raw = binary.take(tensor.name, tensor.parameters)
        if raw is None and tensor.data is None:
            raise RequestError(f"input {tensor.name!a} has neither `data` nor `binary_data_size`")
        source = _Source(read_json_values, memoryview(tensor.data or b""))
        if raw is not None:
            source = _Source(read_raw, raw)
        sources[tensor.name] = Given(tensor.datatype, tuple(tensor.shape), source)
    binary.finish()
    if len(sources) != len(message.inputs):
        raise RequestError("an input is given twice", pipeline=model.name)
    inputs = read_inputs(model, sources, _read)
    asked: dict[str, Parameters] = {each.name: each.parameters for each in message.outputs or ()}
    for parameters in asked.values():
        refuse_unserved(parameters, limits)
    timeout, priority = read_urgency(message.parameters)
    request = Request(
        model.name,
        inputs,
        message.id,
        deadline=None if timeout is None else now + timeout,
        priority=priority,
        outputs=model.wanted(asked) if asked else None,
        parameters=free_parameters(message.parameters),
    )
    return Decoded(request, read_binary_outputs(message.parameters, asked))


class _Source(NamedTuple):
    read: Callable[[memoryview, Datatype, int], Flat]
    values: memoryview


def _read(source: _Source, datatype: Datatype, count: int) -> Flat:
    return source.read(source.values, datatype, count)


def _parse(head: memoryview, model: Model, limits: Limits) -> _Request:
    try:
        message = _REQUESTS.decode(head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is no infer request: {error}", pipeline=model.name) from None
    if max(len(message.inputs), len(message.outputs or ())) > limits.tensors:
        raise RequestError(f"more than {limits.tensors} tensors", pipeline=model.name)
    if len(message.id) > limits.id_length:
        raise RequestError(f"the id is longer than {limits.id_length} characters")
    refuse_unserved(message.parameters, limits)
    return message


def encode_body(model: Model, response: Response, binary: BinaryOutputs) -> Encoded:
    """Turn a Response to a body."""
    outputs: list[_Output] = []
    raws: list[bytes] = []
    for name, item in response.outputs.items():
        for tensor in result_tensors(model.outputs[name], item):
            output = _Output(tensor.name, tensor.datatype.name, tensor.shape)
            if name in binary or tensor.name in binary:
                raw = write_raw(tensor.flat)
                output.parameters = {"binary_data_size": len(raw)}
                raws.append(raw)
            else:
                output.data = write_json_values(tensor)
            outputs.append(output)
    head = _ENCODER.encode(_Response(model.name, model.version, outputs, response.id))
    if not raws:
        return Encoded(head, None)
    return Encoded(b"".join((head, *raws)), len(head))
