"""Results as the bytes of a ModelInferResponse, written field by field.

A field is its tag, its length and its content; what is written behind a message is merged into it.
A message object takes several times as long for what is small, and copies once more what is large.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from ...stdlib.op import Item
from ..request import Remarked
from .deliveries import PLAIN, Deliveries
from .forms import Shape
from .frames import head, number_bytes
from .messages import ModelInferResponse
from .models import Model
from .raw import Buffer, raw_buffer
from .results import result_tensors

_KEPT = 1024  # descriptions of tensors: most answers of a model have the same
_Tensor: Any = type(ModelInferResponse().outputs.add())  # Any: a message's class


def _tag(kind: Any, name: str) -> int:  # Any: a message's class
    """Return what stands in front of the length of a field."""
    return kind.DESCRIPTOR.fields_by_name[name].number << 3 | 2


_MODEL, _VERSION = _tag(ModelInferResponse, "model_name"), _tag(ModelInferResponse, "model_version")
_ID, _OUTPUT = _tag(ModelInferResponse, "id"), _tag(ModelInferResponse, "outputs")
_RAW = _tag(ModelInferResponse, "raw_output_contents")
_NAME, _DATATYPE, _SHAPE = (_tag(_Tensor, name) for name in ("name", "datatype", "shape"))


def encode_response(
    model: Model,
    request_id: str,
    outputs: Mapping[str, Item],
    deliveries: Deliveries = PLAIN,
) -> bytes:
    """Turn results to the bytes of a ModelInferResponse, into which each tensor is copied once."""
    parts: list[Buffer] = [_of_model(model.name, model.version)]
    if request_id:
        parts.append(_field(_ID, request_id.encode()))
    if outputs.__class__ is Remarked:
        parts.append(_remarks(cast("Remarked", outputs).parameters))
    raws: list[Buffer] = []
    asked, forms = deliveries.asked, model.outputs
    for name, item in outputs.items():
        for tensor in result_tensors(forms[name], item):
            place = None
            if asked is not None:
                delivery = deliveries.of(tensor.name, name)
                tensor = deliveries.classify(model, tensor, delivery)
                place = delivery.place
            tensor_name, datatype, shape, flat = tensor
            if place is None:
                parts.append(_output(tensor_name, datatype.name, shape))
                content = raw_buffer(flat)
            else:
                said = _parameters(deliveries.place(tensor, place))
                parts.append(_output(tensor_name, datatype.name, shape, said))
                content = b""  # clients count these as they count outputs
            length = len(content)
            raws.append(_SHORT[length] if length < len(_SHORT) else head(_RAW, length))
            raws.append(content)
    return b"".join(parts + raws)


@lru_cache(_KEPT)
def _of_model(name: str, version: str) -> bytes:
    return _field(_MODEL, name.encode()) + _field(_VERSION, version.encode())


@lru_cache(_KEPT)
def _output(name: str, datatype: str, shape: Shape, parameters: bytes = b"") -> bytes:
    """Return what describes a tensor."""
    told = (
        _field(_NAME, name.encode()),
        _field(_DATATYPE, datatype.encode()),
        _field(_SHAPE, b"".join(map(number_bytes, shape))) if shape else b"",
        parameters,
    )
    return _field(_OUTPUT, b"".join(told))


def _parameters(parameters: Mapping[str, str | int]) -> bytes:
    """Return the field of a tensor's parameters."""
    message = _Tensor()
    for key, value in parameters.items():
        field = "string_param" if isinstance(value, str) else "int64_param"
        setattr(message.parameters[key], field, value)
    return message.SerializeToString()


def _remarks(parameters: Mapping[str, bool | int | float | str]) -> bytes:
    """Return the field of an answer's parameters."""
    message = ModelInferResponse()
    for key, value in parameters.items():
        setattr(message.parameters[key], _KINDS[type(value)], value)
    return message.SerializeToString()


_KINDS = {bool: "bool_param", int: "int64_param", float: "double_param", str: "string_param"}


def _field(tag: int, content: bytes) -> bytes:
    return head(tag, len(content)) + content


_SHORT = tuple(head(_RAW, length) for length in range(128))  # most answers are of few bytes
