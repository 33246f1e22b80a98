"""Extension: raw tensors behind the JSON of an HTTP body.

The header Inference-Header-Content-Length says where the JSON ends; the tensors follow in the
order of the JSON, `binary_data_size` bytes each. Length 0 means that there is no JSON at all and
the body is the only input's data.
"""

from ...request import RequestError
from ..forms import Form, Kind, Shape
from ..inputs import Given
from ..models import Model
from ..names import shown
from ..raw import LARGE, Buffer

NAMES = ("binary_tensor_data",)


def split_body(body: Buffer, json_length: int | None) -> tuple[memoryview, memoryview]:
    """Return the JSON and the tensors of a body."""
    view = memoryview(body)
    if json_length is None:
        return view, view[:0]
    if json_length > len(body):
        raise RequestError(
            f"Inference-Header-Content-Length is {json_length}, but the body has {len(body)} bytes"
        )
    return view[:json_length], view[json_length:]


def take_tensor(name: str, rest: memoryview, size: int) -> tuple[Buffer, memoryview]:
    """Return the next tensor's bytes and what follows them.

    A few bytes are copied: where they stand in the body depends on the length of the JSON, and
    numbers want to stand at a multiple of their width.
    """
    if size > len(rest):
        raise RequestError(
            f"input {shown(name)}: binary_data_size is {size}, but {len(rest)} bytes are left in "
            "the body"
        )
    content = rest[:size]
    return content if size >= LARGE else bytes(content), rest[size:]


def whole_body_input(model: Model, body: Buffer) -> Given[Buffer]:
    """Take the body as the only input: as raw numbers, or as a single element of BYTES."""
    if len(model.inputs) != 1:
        raise RequestError(
            f"a request without JSON needs one input, there are {model.valid_inputs}",
            pipeline=model.name,
        )
    (form,) = model.inputs.values()
    if form.datatype.width:
        return form.name, form.datatype.name, _numbers_shape(form, len(body)), body
    if form.kind is not Kind.SCALAR:
        raise RequestError(f"input `{form.name}` ({form.type}) cannot be sent without JSON")
    element = b"".join((len(body).to_bytes(4, "little"), body))
    return form.name, form.datatype.name, (1, 1) if form.batched else (1,), element


def _numbers_shape(form: Form, size: int) -> Shape:
    """Work out the one dimension that may be open, from the number of bytes."""
    shape = list(form.metadata()[0].shape)
    if form.batched:
        shape[0] = 1
    if form.kind is Kind.RAGGED or shape.count(-1) > 1:
        raise RequestError(
            f"input `{form.name}` ({form.type}) has no shape that its size alone could tell"
        )
    if -1 in shape:
        known = form.datatype.width
        for length in shape:
            known *= length if length != -1 else 1
        if not known or size % known:
            raise RequestError(f"input `{form.name}` ({form.type}) cannot be {size} bytes")
        shape[shape.index(-1)] = size // known
    return tuple(shape)
