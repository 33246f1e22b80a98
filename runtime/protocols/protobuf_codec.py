"""Requests and responses as protobuf messages."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...stdlib.op import Item
from ..request import Request, RequestError
from .datatypes import Datatype
from .ext.parameters import free_parameters
from .ext.schedule_policy import read_urgency
from .ext.sequence import read_sequence
from .inputs import Given, read_inputs
from .limits import Limits
from .messages import ModelInferResponse
from .models import Model
from .parameters import Parameters, refuse_unserved
from .raw import Flat, RawError, read_raw, write_raw
from .results import result_tensors

# The field of `InferTensorContents` that holds each datatype. FP16 and BF16 have none.
_CONTENTS: Mapping[str, str] = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def decode_request(
    model: Model,
    message: Any,  # Any: a ModelInferRequest
    limits: Limits,
    now: float,
    remaining: float | None,
) -> Request:
    """Turn a ModelInferRequest to a Request.

    `now` is the engine's clock; `remaining` the seconds that the call itself has left.
    """
    # slices are lists: to walk them takes half the time of walking the message's own sequences
    tensors, raws, asked = message.inputs[:], message.raw_input_contents[:], message.outputs
    if len(tensors) > limits.tensors or len(asked) > limits.tensors:
        raise RequestError(f"more than {limits.tensors} tensors", pipeline=model.name)
    if not raws:
        inputs = read_inputs(model, _given(tensors, tensors, limits), _read_contents)
    elif len(raws) == len(tensors):
        inputs = read_inputs(model, _given(tensors, raws, limits), read_raw)
    else:
        raise RequestError(
            f"{len(tensors)} inputs, but raw_input_contents has {len(raws)} entries",
            pipeline=model.name,
        )
    request_id, parameters = message.id, message.parameters
    if len(request_id) > limits.id_length:
        raise RequestError(f"the id is longer than {limits.id_length} characters")
    outputs = None
    if asked:
        for output in asked:
            refuse_unserved(_parameters(output.parameters), limits)
        outputs = model.wanted(output.name for output in asked)
    if not parameters and remaining is None:
        return Request(model.name, inputs, request_id, None, 0, outputs)
    parameters = _parameters(parameters)
    refuse_unserved(parameters, limits)
    timeout, priority = read_urgency(parameters)
    times = [time for time in (timeout, remaining) if time is not None]
    return Request(
        model.name,
        inputs,
        request_id,
        deadline=now + min(times) if times else None,
        priority=priority,
        outputs=outputs,
        parameters=free_parameters(parameters),
        sequence=read_sequence(parameters),
    )


def _given(tensors: Any, sources: Any, limits: Limits) -> "list[Given[Any]]":  # Any: messages
    given: list[Given[Any]] = []  # Any: likewise
    for tensor, source in zip(tensors, sources, strict=True):
        if tensor.parameters:
            refuse_unserved(_parameters(tensor.parameters), limits)
        given.append((tensor.name, tensor.datatype, tuple(tensor.shape[:]), source))
    return given


def _read_contents(tensor: Any, datatype: Datatype, count: int) -> Flat:  # Any: a message
    field = _CONTENTS.get(datatype.name)
    if field is None:
        raise RawError(f"{datatype.name} travels only in raw_input_contents")
    values = getattr(tensor.contents, field)
    if len(values) != count:
        raise RawError(f"{count} elements declared, but {field} holds {len(values)}")
    if not datatype.width:
        return list(values)
    try:
        return np.array(values, datatype.numpy)
    except OverflowError:
        raise RawError(f"a value does not fit in {datatype.name}") from None


def _parameters(parameters: Any) -> Parameters:  # Any: a map of messages
    return {
        name: getattr(parameter, parameter.WhichOneof("parameter_choice") or "bool_param")
        for name, parameter in parameters.items()
    }


# Any: a message
def encode_response(model: Model, request_id: str, outputs: Mapping[str, Item]) -> Any:
    """Turn results to a ModelInferResponse."""
    message = ModelInferResponse()
    message.model_name = model.name
    message.model_version = model.version
    message.id = request_id
    described, raws = message.outputs, message.raw_output_contents
    for name, item in outputs.items():
        for tensor_name, datatype, shape, flat in result_tensors(model.outputs[name], item):
            output = described.add()
            output.name = tensor_name
            output.datatype = datatype.name
            output.shape.extend(shape)
            raws.append(write_raw(flat))
    return message
