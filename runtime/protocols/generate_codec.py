"""Requests as plain JSON, each input under its own name, and responses likewise.

    {"text": "some", "id": "7", "temperature": 0.5}

A member that is no input is a parameter of the request, and so are those of `parameters`. A single
value comes and goes without brackets.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from ...stdlib.op import Item
from ..request import Request, RequestError
from .datatypes import Datatype
from .ext.parameters import free_parameters
from .ext.schedule_policy import read_urgency
from .ext.sequence import read_sequence
from .forms import Form, Kind, Shape
from .inputs import Given, read_inputs
from .json_values import check_elements, read_json_values, write_json_values
from .limits import Limits
from .models import Model
from .names import shown
from .parameters import Value, check_parameters
from .raw import Flat
from .results import result_tensors

_ID, _PARAMETERS = "id", "parameters"
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DEEPEST = 8


def decode_generate(model: Model, body: bytes, limits: Limits, now: float) -> Request:
    """Turn a body to a Request. `now` is the engine's clock."""
    try:
        members = _MEMBERS.decode(body)
        given = list(_given(model, members, limits))
        free = {name: raw for name, raw in members.items() if name not in model.inputs}
        request_id = _as(str, free.pop(_ID, None), "")
        parameters: dict[str, Value] = dict(_as(dict[str, Value], free.pop(_PARAMETERS, None), {}))
        parameters |= {name: _as(Value, raw, "") for name, raw in free.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the body is no request: {error}", pipeline=model.name) from None
    if len(request_id) > limits.id_length:
        raise RequestError(f"the id is longer than {limits.id_length} characters")
    inputs = read_inputs(model, given, _read, limits.elements)
    check_parameters(parameters, limits)
    timeout, priority = read_urgency(parameters)
    return Request(
        model.name,
        inputs,
        request_id,
        None if timeout is None else now + timeout,
        priority,
        None,
        free_parameters(parameters),
        read_sequence(parameters),
    )


def _as(kind: Any, raw: msgspec.Raw | None, default: Any) -> Any:  # Any: a type, its values
    return default if raw is None else msgspec.json.decode(raw, type=kind)


def _given(
    model: Model, members: Mapping[str, msgspec.Raw], limits: Limits
) -> Iterator[Given[msgspec.Raw]]:
    for name, form in model.inputs.items():
        raw = members.get(name)
        if raw is not None:
            if len(raw) > limits.elements:
                check_elements(name, raw, limits.elements)
            shape = _wire_shape(form, _shape(name, msgspec.json.decode(raw)))
            yield name, form.datatype.name, shape, raw


def _shape(name: str, value: object) -> Shape:
    """Return the shape of nested lists, as far as their first members tell."""
    shape: list[int] = []
    while isinstance(value, list):
        inner = cast("list[object]", value)
        shape.append(len(inner))
        if len(shape) > _DEEPEST:
            raise RequestError(f"input {shown(name)} is nested too deep")
        value = inner[0] if inner else None
    return tuple(shape)


def _wire_shape(form: Form, shape: Shape) -> Shape:
    """Add the axes that a value goes without: brackets around one value, rows around one row."""
    if form.kind is Kind.SCALAR:
        return shape or ((1, 1) if form.batched else (1,))
    if form.kind is not Kind.TENSOR:
        return shape
    shape = (1,) * (len(form.dims) - len(shape)) + shape
    return (1, *shape) if form.batched and len(shape) == len(form.dims) else shape


def _read(raw: msgspec.Raw, datatype: Datatype, count: int) -> Flat:
    text = bytes(raw)
    return read_json_values(
        memoryview(text if text.lstrip()[:1] == b"[" else b"[%b]" % text), datatype, count
    )


def encode_generate(model: Model, request_id: str, outputs: Mapping[str, Item]) -> bytes:
    """Turn results to a body: each output's values under its name, flat, a single one alone."""
    answer: dict[str, Any] = {"model_name": model.name, "model_version": model.version}  # Any: JSON
    if request_id:
        answer[_ID] = request_id
    for name, item in outputs.items():
        for tensor in result_tensors(model.outputs[name], item):
            values = write_json_values(tensor)
            answer[tensor.name] = values[0] if len(values) == 1 else values
    return msgspec.json.encode(answer)
