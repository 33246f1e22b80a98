"""A pipeline's configuration, in the words of the protocol."""

from collections.abc import Iterator, Sequence
from typing import Any

from ...compiler.plan import ModelSegment, PythonSegment, Segment
from ...compiler.plan_walk import segments_of
from ...dsl.types import DType, TensorType
from .datatypes import DATATYPES
from .forms import Form
from .models import Model
from .signature import SIGNATURE, write_signature


def model_config(model: Model) -> dict[str, Any]:  # Any: JSON
    """Return the JSON form of `ModelConfig`. `dims` are without the batch axis."""
    if model.described is not None:
        return dict(model.described.config)
    optional = {p.field.name for p in model.pipeline.parameters if p.has_default}
    inputs = [
        tensor | _of_input(tensor["dims"], form.optional or form.name in optional)
        for form in model.inputs.values()
        for tensor in _tensors(form)
    ]
    config: dict[str, Any] = {  # Any: JSON
        "name": model.name,
        "platform": "headrace",
        "backend": "headrace",
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": model.pipeline.batch or 0,
        "input": inputs,
        "output": [tensor for form in model.outputs.values() for tensor in _tensors(form)],
        "instance_group": _instances(model),
        "model_transaction_policy": {"decoupled": model.pipeline.stream},
        "parameters": {SIGNATURE: {"string_value": write_signature(model.pipeline, model.version)}},
    }
    if model.pipeline.idle is not None:
        config["sequence_batching"] = _sequences(model)
    elif batching := _batching(model):  # the two are one field of the protocol
        config["dynamic_batching"] = batching
    return config


def _sequences(model: Model) -> dict[str, Any]:  # Any: JSON
    """Say how long a silent sequence is kept, how many there may be, and what is kept of each."""
    pipeline = model.pipeline
    said = pipeline.sequencing
    strategy = {"oldest": {}}  # requests of different sequences meet as they come
    if said is not None and said.most is not None:
        strategy = {"oldest": {"max_candidate_sequences": said.most}}
    if said is not None and said.slots is not None:
        strategy = {"direct": {}}
    return {
        "max_sequence_idle_microseconds": round((pipeline.idle or 0.0) * 1e6),
        **strategy,
        "state": [
            {
                "input_name": state.field.name,
                "output_name": state.field.name,
                "data_type": _data_type(kind.dtype),
                "dims": [dim if isinstance(dim, int) else -1 for dim in kind.dims],
            }
            for state in pipeline.states
            if isinstance(kind := state.field.type, TensorType)
        ],
    }


def _data_type(dtype: DType) -> str:
    name = DATATYPES[dtype].name
    return f"TYPE_{'STRING' if name == 'BYTES' else name}"


def _tensors(form: Form) -> Iterator[dict[str, Any]]:  # Any: JSON
    for name, datatype, shape in form.metadata():
        dims = shape[1:] if form.batched and len(shape) > 1 and name == form.name else shape
        kind = "STRING" if datatype.name == "BYTES" else datatype.name
        yield {"name": name, "data_type": f"TYPE_{kind}", "dims": list(dims)}


def _of_input(dims: Sequence[int], optional: bool) -> dict[str, Any]:  # Any: JSON
    """Return what is said of inputs alone. Clients that send pictures ask where the colours are."""
    match dims:
        case [3, _, last] if last != 3:
            order = "NCHW"
        case [first, _, 3] if first != 3:
            order = "NHWC"
        case _:
            order = "NONE"
    return {"format": f"FORMAT_{order}", "optional": optional}


def _segments(model: Model) -> tuple[Segment, ...]:
    """Return the segments that the pipeline runs, in the order of the plan."""
    used = set(segments_of(model.pipeline.body))
    return tuple(segment for i, segment in enumerate(model.plan.segments) if i in used)


def _instances(model: Model) -> list[dict[str, Any]]:  # Any: JSON
    groups: list[dict[str, Any]] = []  # Any: JSON
    for segment in _segments(model):
        if isinstance(segment, ModelSegment):
            device, _, index = segment.device.partition(":")
            where = {"gpus": [int(index or 0)]} if device == "gpu" else {}
            kind = "KIND_GPU" if device == "gpu" else "KIND_CPU"
            count = segment.instances or 1
            groups.append({"name": segment.name, "kind": kind, "count": count, **where})
    return groups


def _batching(model: Model) -> dict[str, Any]:  # Any: JSON
    """Return the queues of all stages in one: every preferred size, the longest wait."""
    batchings = [
        segment.batching
        for segment in _segments(model)
        if isinstance(segment, ModelSegment | PythonSegment) and segment.batching is not None
    ]
    if not batchings:
        return {}
    return {
        "preferred_batch_size": sorted({size for each in batchings for size in each.prefer}),
        "max_queue_delay_microseconds": round(max(each.wait for each in batchings) * 1e6),
    }
