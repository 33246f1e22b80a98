"""The other side of the wire: a server's model as its clients see it.

The forms of a pipeline's values are the same on both sides. A client turns its inputs to tensors
as a server does its results, and reads results as a server reads inputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ...compiler.plan import Block, Parameter, PipelinePlan, Place, Plan
from ...dsl.types import ANY_DIM, DType, Field, TensorType, Type
from ...stdlib.op import Item
from ..convert import Mismatch, converter
from ..request import Code, Fault, RequestError
from .datatypes import DATATYPES
from .ext.model_configuration import TYPE_PARAMETER
from .inputs import Given, read_inputs
from .models import Model, model_of
from .raw import read_raw
from .results import WireTensor, result_tensors
from .type_text import read_type

_NOWHERE = Place("", 0, 0, "")
_NOTHING = Block((), (), (), (), (), 0, ())


def remote_model(config: Mapping[str, Any]) -> Model:  # Any: JSON
    """Return the model that a ModelConfig (in its JSON form) describes.

    A server of headrace tells the types as written; of another, scalars, tensors and bytes are
    made of what its configuration says.
    """
    parameters = config.get("parameters", {})
    types = {
        name.removeprefix(TYPE_PARAMETER): read_type(value["string_value"])
        for name, value in parameters.items()
        if name.startswith(TYPE_PARAMETER)
    }
    inputs = [
        Parameter(field, tensor.get("optional", False), None)
        for tensor in config.get("input", ())
        if (field := _field(tensor, types)) is not None
    ]
    outputs = [
        field for tensor in config.get("output", ()) if (field := _field(tensor, types)) is not None
    ]
    batch = int(config.get("max_batch_size", 0)) or None
    pipeline = PipelinePlan(
        config["name"], tuple(inputs), tuple(outputs), _NOTHING, batch, None, None, _NOWHERE
    )
    return model_of(Plan("", (pipeline,), (), (), (), (), ()), pipeline, "")


def _field(tensor: Mapping[str, Any], types: Mapping[str, Type]) -> Field | None:  # Any: JSON
    """Return a tensor's field; None for the shapes that come with a ragged value."""
    name = tensor["name"]
    if types:
        return Field(name, types[name]) if name in types else None
    datatype = tensor["data_type"].removeprefix("TYPE_")
    dtype = DType.BYTES if datatype == "STRING" else _dtype(datatype)
    sizes = tuple(map(int, tensor.get("dims", ())))
    dims = () if sizes == (1,) else tuple(ANY_DIM if size < 0 else size for size in sizes)
    return Field(name, TensorType(dtype, dims))


def _dtype(datatype: str) -> DType:
    for dtype, known in DATATYPES.items():
        if known.name == datatype:
            return dtype
    raise Fault(Code.UNSUPPORTED, f"the server's datatype {datatype!a} is unknown")


def input_tensors(
    model: Model, inputs: Mapping[str, object], signature: str
) -> tuple[WireTensor, ...]:
    """Turn a caller's inputs to tensors; RequestError, with the signature, when they do not fit."""
    tensors: list[WireTensor] = []
    for name, value in inputs.items():
        form = model.inputs.get(name)
        if form is None:
            raise RequestError(f"there is no input `{name}`\n  {signature}", pipeline=model.name)
        convert = converter(form.type)
        try:
            if form.batched:
                rows = cast("Sequence[object]", value)
                item: Item = [convert(row, {}) for row in rows]
            else:
                item = convert(value, {})
        except Mismatch as error:
            raise RequestError(f"`{name}` {error}\n  {signature}", pipeline=model.name) from None
        tensors += result_tensors(form, item)
    return tuple(tensors)


def results_of(model: Model, tensors: list[Given[bytes]]) -> dict[str, Item]:
    """Turn the tensors of an answer to results, in the order of the signature."""
    answer = replace(model, inputs=model.outputs, shape_inputs=model.shape_outputs)
    items = read_inputs(answer, tensors, read_raw)
    return {name: items.get(name) for name in model.outputs}
