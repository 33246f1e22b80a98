"""Requests and responses as HTTP bodies: JSON, and binary tensors behind it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, cast

import msgspec
import numpy as np

from ...stdlib.op import Item
from ..extras import NO_EXTRAS, Extras
from ..request import Remarked, Request, RequestError
from .datatypes import Datatype
from .deliveries import PLAIN, Deliveries, Delivery
from .ext.binary_tensor_data import split_body, take_tensor, whole_body_input
from .ext.classification import read_classes
from .ext.parameters import free_parameters
from .ext.schedule_policy import read_urgency
from .ext.sequence import read_sequence
from .ext.system_shared_memory import read_place
from .forms import Form, Shape
from .inputs import Given, read_inputs
from .json_messages import (
    ENCODER,
    Input,
    InputParameters,
    Output,
    OutputParameters,
    RequestBody,
    ResponseBody,
    parse,
)
from .json_values import check_elements, read_json_values, write_json_values
from .layouts import LONGEST, keep, layout
from .limits import Limits
from .models import Model
from .parameters import Parameters, boolean, check_parameters
from .raw import LARGE, Buffer, Flat, raw_buffer, read_raw
from .results import result_tensors

_Source: TypeAlias = Buffer | msgspec.Raw

_BINARY: Final = Deliveries(True)
_BINARY_OUTPUT: Final = "binary_data_output"


def decode_body(
    model: Model,
    body: Buffer,
    json_length: int | None,
    limits: Limits,
    clock: Callable[[], float],
    extras: Extras = NO_EXTRAS,
) -> tuple[Request, Deliveries]:
    """Turn a body to a Request, and to how its outputs are to be sent.

    `clock` is the engine's.
    """
    if json_length == 0:
        given = whole_body_input(model, body)
        inputs = read_inputs(model, [given], read_raw, limits.elements)
        return Request(model.name, inputs), _BINARY
    text = b""
    if json_length is not None and json_length <= LONGEST and isinstance(body, bytes):
        text = body[:json_length]
        known = model.layouts.get(text)
        if known is not None and known.size == len(body) >= json_length:
            request = Request(model.name, known.read(body), outputs=known.outputs)
            return request, _BINARY if known.binary else PLAIN
    head, rest = split_body(body, json_length)
    message = parse(head, model, limits)
    tensors = _given(model, message, rest, limits, extras)
    inputs = read_inputs(model, tensors, _read, limits.elements)
    outputs, asked = None, None
    if message.outputs:
        asked = _asked(message, extras)
        outputs = model.wanted(each.name for each in message.outputs)
    parameters = message.parameters
    binary = boolean(parameters.pop(_BINARY_OUTPUT, False), _BINARY_OUTPUT)
    if asked is not None and (alike := _alike(model, message, asked, binary)) is not None:
        binary, asked = alike, None
    deliveries = Deliveries(binary, asked, extras)
    if not parameters:
        if text and not message.id and asked is None:
            _keep(model, text, message.inputs, outputs, binary=binary)
        return Request(model.name, inputs, message.id, outputs=outputs), deliveries
    check_parameters(parameters, limits)
    timeout, priority = read_urgency(parameters)
    request = Request(
        model.name,
        inputs,
        message.id,
        None if timeout is None else clock() + timeout,
        priority,
        outputs,
        free_parameters(parameters),
        read_sequence(parameters),
    )
    return request, deliveries


def _given(
    model: Model, message: RequestBody, rest: memoryview, limits: Limits, extras: Extras
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


def _source(tensor: Input, limits: Limits, extras: Extras) -> _Source:
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


def _twice(tensor: Input) -> RequestError:
    return RequestError(f"input {tensor.name!a} is in memory and in the request")


def _read(source: _Source, datatype: Datatype, count: int) -> Flat:
    if not isinstance(source, msgspec.Raw):
        return read_raw(source, datatype, count)
    return read_json_values(memoryview(source), datatype, count)


def _asked(message: RequestBody, extras: Extras) -> dict[str, Delivery] | None:
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


def _alike(
    model: Model, message: RequestBody, asked: Mapping[str, Delivery], binary: bool
) -> bool | None:
    """Return whether all outputs are to be binary, where that is all that is said of any, and the
    same of all; None where not."""
    if not model.outputs.keys() >= asked.keys():
        return None  # of the shapes of an output it may be said apart
    said = {one._replace(binary=binary) if one.binary is None else one for one in asked.values()}
    if any(output.name not in asked for output in message.outputs):
        said.add(Delivery(binary))
    (first, *others) = said
    return first.binary if not others and first == Delivery(first.binary) else None


def _keep(
    model: Model,
    text: bytes,
    inputs: Sequence[Input],
    outputs: tuple[str, ...] | None,
    *,
    binary: bool,
) -> None:
    """Keep how the tensors stand behind JSON that says no more than this."""
    tensors: list[tuple[Form, Shape, int]] = []
    for one in inputs:
        size = None if one.parameters is None else one.parameters.binary_data_size
        form = model.inputs.get(one.name)
        if size is None or form is None:
            return
        tensors.append((form, one.shape, size))
    known = layout(len(text), tensors, outputs, binary=binary)
    if known is not None:
        keep(model.layouts, text, known)


def _in_memory(parameters: InputParameters, extras: Extras) -> bytes:
    place = read_place(_members(parameters))
    assert place is not None, "there is a region"
    return extras.lent().read(place)


def _members(parameters: InputParameters | OutputParameters) -> Parameters:
    said = msgspec.structs.asdict(parameters)
    return {name: value for name, value in said.items() if value is not None}


def encode_body(
    model: Model, request_id: str, outputs: Mapping[str, Item], deliveries: Deliveries
) -> tuple[bytes, int | None]:
    """Turn results to a body and the length of the JSON in it, None when it is JSON alone."""
    asked, binary = deliveries.asked, deliveries.binary
    key: tuple[object, ...] | None = None
    if binary and asked is None and not request_id and outputs.__class__ is dict:
        key, body = _raw(model, outputs)
        head = None if key is None else model.heads.get(key)
        if head is not None:
            return head + body, len(head)
    described: list[Output] = []
    raws: list[Buffer] = []
    for name, item in outputs.items():
        for tensor in result_tensors(model.outputs[name], item):
            as_binary, place = binary, None
            if asked is not None:
                delivery = deliveries.of(tensor.name, name)
                tensor = deliveries.classify(model, tensor, delivery)
                as_binary, place = delivery.binary, delivery.place
            output = Output(tensor.name, tensor.datatype.name, tensor.shape)
            if place is not None:
                deliveries.place(tensor, place)  # of which clients in C++ want to be told nothing
            elif as_binary:
                raw = raw_buffer(tensor.flat)
                output.parameters = {"binary_data_size": len(raw)}
                raws.append(raw)
            else:
                output.data = write_json_values(tensor)
            described.append(output)
    said = ResponseBody(model.name, model.version, described, request_id)
    if outputs.__class__ is Remarked:
        said.parameters = cast("Remarked", outputs).parameters
    head = ENCODER.encode(said)
    if not raws:
        return head, None
    if key is not None:
        keep(model.heads, key, head)
    return b"".join((head, *raws)), len(head)


def _raw(model: Model, outputs: Mapping[str, Item]) -> tuple[tuple[object, ...] | None, bytes]:
    """Return names and shapes of results, and the results, where all are plain tensors that are
    small; None for the former where not."""
    key: list[object] = []
    raws: list[bytes] = []
    for name, item in outputs.items():
        form = model.outputs[name]
        if not form.plain or not isinstance(item, np.ndarray) or item.nbytes >= LARGE:
            return None, b""
        if item.dtype != form.datatype.numpy:
            return None, b""
        key += (name, item.shape)
        raws.append(item.tobytes())
    return tuple(key), raws[0] if len(raws) == 1 else b"".join(raws)
