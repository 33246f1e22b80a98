"""Requests as protobuf messages."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..extras import NO_EXTRAS, Extras
from ..request import Request, RequestError
from .datatypes import Datatype
from .deliveries import PLAIN, Deliveries, Delivery
from .ext.classification import read_classes
from .ext.parameters import free_parameters
from .ext.schedule_policy import read_urgency
from .ext.sequence import read_sequence
from .ext.system_shared_memory import read_place
from .inputs import Given, read_inputs
from .limits import Limits
from .models import Model
from .parameters import Parameters, check_parameters
from .raw import Buffer, Flat, RawError, as_numbers, read_raw

# The field of `InferTensorContents` that holds each datatype. FP16 and BF16 have none of their own;
# every value of theirs is one of FP32 as well.
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
    "FP16": "fp32_contents",
    "BF16": "fp32_contents",
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
    extras: Extras = NO_EXTRAS,
    cut: Sequence[Buffer] = (),
) -> tuple[Request, Deliveries]:
    """Turn a ModelInferRequest to a Request, and to how its outputs are to be sent.

    `now` is the engine's clock; `remaining` the seconds that the call itself has left; `cut` are
    raw inputs that were cut out of the message.
    """
    # slices are lists: to walk them takes half the time of walking the message's own sequences
    tensors, asked = message.inputs[:], message.outputs
    raws = cut or message.raw_input_contents[:]
    if len(tensors) > limits.tensors or len(asked) > limits.tensors:
        raise RequestError(f"more than {limits.tensors} tensors", pipeline=model.name)
    inputs = read_inputs(
        model,
        _given(model, tensors, raws, limits, extras),
        read_raw if raws else _read_contents,
        limits.elements,
    )
    request_id, parameters = message.id, message.parameters
    if len(request_id) > limits.id_length:
        raise RequestError(f"the id is longer than {limits.id_length} characters")
    outputs, deliveries = None, PLAIN
    if asked:
        deliveries = _deliveries(asked, limits, extras)
        outputs = model.wanted(output.name for output in asked)
    if not parameters and remaining is None:
        return Request(model.name, inputs, request_id, None, 0, outputs), deliveries
    parameters = _parameters(parameters)
    check_parameters(parameters, limits)
    timeout, priority = read_urgency(parameters)
    times = [time for time in (timeout, remaining) if time is not None]
    request = Request(
        model.name,
        inputs,
        request_id,
        deadline=now + min(times) if times else None,
        priority=priority,
        outputs=outputs,
        parameters=free_parameters(parameters),
        sequence=read_sequence(parameters),
    )
    return request, deliveries


# Any: messages
def _given(
    model: Model, tensors: Any, raws: Any, limits: Limits, extras: Extras
) -> "list[Given[Any]]":
    """Pair each tensor with its values: those in `raws` are of the tensors whose values are neither
    in shared memory nor in their own contents."""
    given: list[Given[Any]] = []  # Any: likewise
    rest, lent = iter(raws), 0
    for tensor in tensors:
        place, said = None, tensor.parameters
        if said:
            said = _parameters(said)
            _check_count(said, limits)
            place = read_place(said)
        if place is None:
            source = next(rest, tensor)
        else:
            source = extras.lent().read(place)
            lent += 1
        given.append((tensor.name, tensor.datatype, tuple(tensor.shape[:]), source))
    wanting = len(given) - lent
    if raws and wanting != len(raws):
        raise RequestError(
            f"{wanting} inputs, but raw_input_contents has {len(raws)} entries",
            pipeline=model.name,
        )
    return given


def _check_count(parameters: Parameters, limits: Limits) -> None:
    if len(parameters) > limits.parameters:
        raise RequestError(f"more than {limits.parameters} parameters")


def _deliveries(asked: Any, limits: Limits, extras: Extras) -> Deliveries:  # Any: messages
    found: dict[str, Delivery] = {}
    for output in asked:
        if output.parameters:
            said = _parameters(output.parameters)
            _check_count(said, limits)
            place = read_place(said)
            if place is not None:
                extras.lent()  # refuses before anything runs
            found[output.name] = Delivery(None, read_classes(said), place)
    return Deliveries(asked=found, extras=extras) if found else PLAIN


# Any: a message, or the bytes of shared memory
def _read_contents(tensor: Any, datatype: Datatype, count: int) -> Flat:
    if isinstance(tensor, bytes):
        return read_raw(tensor, datatype, count)
    field = _CONTENTS[datatype.name]
    values = getattr(tensor.contents, field)
    if len(values) != count:
        raise RawError(f"{count} elements declared, but {field} holds {len(values)}")
    if not datatype.width:
        return list(values)
    return as_numbers(values, datatype)


def _parameters(parameters: Any) -> Parameters:  # Any: a map of messages
    return {
        name: getattr(parameter, parameter.WhichOneof("parameter_choice") or "bool_param")
        for name, parameter in parameters.items()
    }
