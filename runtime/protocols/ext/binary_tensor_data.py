"""Extension: raw tensors behind the JSON of an HTTP body.

The header Inference-Header-Content-Length says where the JSON ends; the tensors follow in the
order of the JSON, `binary_data_size` bytes each. Length 0 means that there is no JSON at all and
the body is the only input's data.
"""

from collections.abc import Mapping

from ...request import RequestError
from ..forms import Form, Kind, Shape
from ..inputs import Given
from ..models import Model
from ..names import shown
from ..parameters import Parameters, boolean, whole

NAMES = ("binary_tensor_data",)


def split_body(body: bytes, json_length: int | None) -> tuple[memoryview, memoryview]:
    """Return the JSON and the tensors of a body."""
    view = memoryview(body)
    if json_length is None:
        return view, view[:0]
    if json_length > len(body):
        raise RequestError(
            f"Inference-Header-Content-Length is {json_length}, but the body has {len(body)} bytes"
        )
    return view[:json_length], view[json_length:]


class BinaryInputs:
    """Hands out a body's tensors in order; `finish` refuses bytes that nobody claimed."""

    def __init__(self, rest: memoryview) -> None:
        self._rest = rest

    def take(self, name: str, parameters: Parameters) -> memoryview | None:
        """Return the tensor's bytes; None when its data is in the JSON."""
        size = whole(parameters, "binary_data_size")
        if size is None:
            return None
        if size > len(self._rest):
            raise RequestError(
                f"input {shown(name)}: binary_data_size is {size}, but {len(self._rest)} bytes "
                "are left in the body"
            )
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def finish(self) -> None:
        if len(self._rest):
            raise RequestError(f"{len(self._rest)} bytes of the body belong to no input")


def whole_body_input(model: Model, body: bytes) -> tuple[str, Given[memoryview]]:
    """Take the body as the only input: as raw numbers, or as a single element of BYTES."""
    if len(model.inputs) != 1:
        raise RequestError(
            f"a request without JSON needs one input, there are {model.valid_inputs}",
            pipeline=model.name,
        )
    (form,) = model.inputs.values()
    if form.datatype.width:
        return form.name, Given(
            form.datatype.name, _numbers_shape(form, len(body)), memoryview(body)
        )
    if form.kind is not Kind.SCALAR:
        raise RequestError(f"input `{form.name}` ({form.type}) cannot be sent without JSON")
    element = len(body).to_bytes(4, "little") + body
    return form.name, Given("BYTES", (1, 1) if form.batched else (1,), memoryview(element))


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
        shape[shape.index(-1)] = size // known if known else 0
    return tuple(shape)


class BinaryOutputs:
    """Which outputs go behind the JSON: as asked for one by one, else as asked for all."""

    def __init__(self, default: bool, asked: Mapping[str, bool]) -> None:
        self._default, self._asked = default, asked

    def __contains__(self, name: str) -> bool:
        return self._asked.get(name, self._default)


def read_binary_outputs(parameters: Parameters, outputs: Mapping[str, Parameters]) -> BinaryOutputs:
    """Read `binary_data_output` of the request and `binary_data` of the outputs it names."""
    asked = {name: boolean(each, "binary_data") for name, each in outputs.items()}
    return BinaryOutputs(
        boolean(parameters, "binary_data_output") or False,
        {name: answer for name, answer in asked.items() if answer is not None},
    )
