"""The other side of the wire: a server's model as its clients see it.

The border of a pipeline is the same on both sides: a client checks its inputs as the engine does,
turns them to tensors as a server does its results, and reads results as a server reads inputs.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ...compiler.plan import Parameter, PipelinePlan, Plan
from ...dsl.types import ANY_DIM, DType, Field, TensorType
from ...stdlib.op import Item
from ..accept import Acceptor
from ..present import Presenter
from ..request import Code, Fault, RequestError
from ..rows import Rows, Value
from .datatypes import DATATYPES
from .forms import Form, Kind
from .inputs import Given, read_inputs
from .models import model_of
from .raw import read_raw
from .results import WireTensor, result_tensors
from .signature import read_signature, signature_in, signature_of


class Remote:
    """A pipeline of a server: what it takes and gives, and how both travel."""

    def __init__(self, pipeline: PipelinePlan) -> None:
        self.pipeline = pipeline
        self.model = model_of(Plan("", (pipeline,), (), (), (), (), ()), pipeline, "")
        outputs, shapes = self.model.outputs, self.model.shape_outputs
        self._answer = replace(self.model, inputs=outputs, shape_inputs=shapes)
        self._accept = Acceptor(pipeline).accept
        names = [parameter.field.name for parameter in pipeline.parameters]
        self._inputs = tuple((i, self.model.inputs[name]) for i, name in enumerate(names))
        self._presenters = {
            field.name: Presenter(pipeline, i) for i, field in enumerate(pipeline.results)
        }

    def tensors(self, inputs: Mapping[str, object]) -> tuple[tuple[WireTensor, ...], int]:
        """Turn a caller's inputs to tensors, and tell how many rows they are; RequestError, with
        the signature, when they do not fit. What is left out is the server's to fill in."""
        columns = self._accept(inputs)
        tensors = tuple(
            tensor
            for i, form in self._inputs
            if form.name in inputs
            for tensor in result_tensors(form, _whole(columns[i], form))
        )
        return tensors, columns[0].count if columns else 1

    def results(
        self, tensors: list[Given[bytes]], rows: int, wanted: Sequence[str]
    ) -> dict[str, Item]:
        """Turn the tensors of an answer to results, in the order of the signature; what is optional
        and absent is None, for each of the `rows` that were asked for.

        Raises Fault UNSUPPORTED where it is no answer of this pipeline, or lacks of what is wanted.
        """
        try:
            items = read_inputs(self._answer, tensors, read_raw, sys.maxsize)
        except RequestError as error:
            raise self._unlike(_of_outputs(error.message)) from None
        for name in wanted:
            form = self._answer.inputs[name]
            if name not in items and not form.optional:
                raise self._unlike(f"it has no output `{name}`")
        many = self.pipeline.batch is not None
        for name, item in items.items():
            if isinstance(item, np.ndarray):
                self._check_sizes(self._answer.inputs[name], item.shape, rows)
        columns = {name: _column(item, many) for name, item in items.items()}
        absent = cast("Item", [None] * rows) if many else None
        return {
            name: presenter.present(columns[name]) if name in columns else absent
            for name, presenter in self._presenters.items()
        }

    def _check_sizes(self, form: Form, shape: tuple[int, ...], rows: int) -> None:
        """Hold a tensor to the sizes that its type names, and to the rows that were asked for."""
        dims = form.dims if form.kind is Kind.TENSOR else ()
        wants = (rows, *dims) if form.batched else dims
        if any(size not in (have, -1) for size, have in zip(wants, shape, strict=False)):
            raise self._unlike(f"output `{form.name}` is {list(wants)}, and came as {list(shape)}")

    def _unlike(self, why: str) -> Fault:
        message = f"the answer is none of `{self.model.name}`: {why}"
        return Fault(Code.UNSUPPORTED, message)


def _of_outputs(message: str) -> str:
    """Return what is said of inputs as said of outputs, which are read as they are."""
    return re.sub(r"^(there is no )?input |(?<=; the )inputs are", _as_output, message)


def _as_output(found: re.Match[str]) -> str:
    return found[0].replace("input", "output")


def _whole(column: Rows, form: Form) -> Item:
    """Return the value of a column as it travels: one item, or all rows."""
    if not form.batched:
        return cast("Item", column.item(0))  # of a caller's value, which is on the host
    if column.count == 0 and form.kind is Kind.TENSOR:
        return np.empty((0, *(max(size, 0) for size in form.dims)), form.datatype.numpy)
    if column.is_stacked:
        return cast("Item", column.stack())
    return cast("Item", column.items())


def _column(item: Item, many: bool) -> Rows:
    if not many:
        return Rows.one(item)
    if isinstance(item, np.ndarray):
        return Rows.stacked(item)
    return Rows.of(cast("list[Value]", item))


def remote_pipeline(config: Mapping[str, Any]) -> PipelinePlan:  # Any: JSON
    """Return the pipeline that a ModelConfig (in its JSON form) describes, as far as it can be
    known.

    A server of headrace tells its signature; of another, scalars, tensors and bytes are made of
    what its configuration says.
    """
    if (signature := signature_in(config)) is not None:
        return read_signature(config["name"], signature)
    inputs = tuple(
        Parameter(_field(tensor), tensor.get("optional", False), None)
        for tensor in config.get("input", ())
    )
    results = tuple(map(_field, config.get("output", ())))
    kept = config.get("sequence_batching")
    return signature_of(
        config["name"],
        inputs,
        results,
        batch=int(config.get("max_batch_size", 0)) or None,
        stream=config.get("model_transaction_policy", {}).get("decoupled", False),
        idle=None if kept is None else int(kept.get("max_sequence_idle_microseconds", 0)) / 1e6,
    )


def _field(tensor: Mapping[str, Any]) -> Field:  # Any: JSON
    datatype = tensor["data_type"].removeprefix("TYPE_")
    dtype = DType.BYTES if datatype == "STRING" else _dtype(datatype)
    sizes = tuple(map(int, tensor.get("dims", ())))
    dims = () if sizes == (1,) else tuple(ANY_DIM if size < 0 else size for size in sizes)
    return Field(tensor["name"], TensorType(dtype, dims))


def _dtype(datatype: str) -> DType:
    for dtype, known in DATATYPES.items():
        if known.name == datatype:
            return dtype
    raise Fault(Code.UNSUPPORTED, f"the server's datatype {datatype!a} is unknown")
