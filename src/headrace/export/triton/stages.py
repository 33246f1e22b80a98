"""Segments as models of Triton's: which can be, under which names, configured how.

A model takes an item, or rows of items. Triton knows one way to hold rows, axis 0 of every tensor:

    form      max_batch_size   dims of f32[3, H] with its batch axis at 0    for
    ROWS      n                [3, -1]                                       rows that meet
    ITEM      0                [3, -1], reshaped to [1, 3, -1]               ensembles without rows
    WHOLE     0                [-1, 3, -1]                                   rows on other axes
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeGuard

from ...compiler.plan import ModelSegment, Plan, Queueing, Segment
from ...dsl.types import DType, Field, OptionalType, TensorType
from ...runtime.protocols.datatypes import DATATYPES
from .config import Json

MEETING = 16
"""Rows of one request that share a call where the plan runs each alone: a call of Triton's costs
more than what small batches lose on a CPU."""


class Form(Enum):
    """In the order in which a caller with rows prefers them."""

    ROWS = "rows"
    WHOLE = "whole"
    ITEM = "item"


@dataclass(frozen=True, slots=True)
class Served:
    """A segment as a model: `rows` is its max_batch_size, 0 where the form has none."""

    name: str
    segment: ModelSegment
    form: Form
    rows: int


def can_be_served(segment: Segment) -> TypeGuard[ModelSegment]:
    """Whether a segment can be a model of its own."""
    return isinstance(segment, ModelSegment) and kept_back(segment) is None


def kept_back(segment: ModelSegment) -> str | None:
    """Return why a segment cannot be a model of its own, None where it can."""
    if segment.kind != "onnx":
        return f"it is of kind `{segment.kind}`"
    inputs = zip(segment.signature.params, segment.input_axes, strict=True)
    outputs = zip(segment.signature.results, segment.output_axes, strict=True)
    for field, axis in (*inputs, *outputs):
        if tensor_of(field).dtype is DType.BF16:
            return f"`{field.name}` is bf16"
        if axis is None and not tensor_of(field).dims:
            return f"`{field.name}` is a scalar for all rows"
    return None


def form_for_rows(segment: ModelSegment) -> Form:
    """Return the form in which a segment takes rows."""
    axes = {*segment.input_axes, *segment.output_axes}
    return Form.ROWS if axes == {0} else Form.WHOLE


def together(segment: ModelSegment) -> int:
    """Return how many rows of one request go in one call."""
    if not segment.stackable:
        return 1
    return segment.batching.maximum if segment.batching else max(segment.group, MEETING)


class Models:
    """The models of one repository: one for each segment and form that is asked for."""

    def __init__(self, plan: Plan) -> None:
        self._segments = plan.segments
        self._pipelines = {pipeline.name for pipeline in plan.pipelines}
        self._taken = set(self._pipelines)
        self._made: dict[tuple[int, Form], Served] = {}

    def __iter__(self) -> Iterator[Served]:
        return iter(self._made.values())

    def serve(self, number: int, form: Form | None = None, rows: int = 1) -> None:
        """Let there be a model of a segment, if it can be one, that takes at least so many rows;
        without a `form` rows as they come."""
        segment = self._segments[number]
        if not can_be_served(segment):
            return
        form = form or form_for_rows(segment)
        rows = max(rows, together(segment)) if form is Form.ROWS else 0
        made = self._made.get((number, form))
        if made is None:
            made = Served(self._name(segment.name), segment, form, rows)
        self._made[number, form] = replace(made, rows=max(made.rows, rows))

    def of(self, number: int, form: Form | None = None) -> Served | None:
        """Return the model of a segment; without a `form` that which takes rows, of two."""
        forms = Form if form is None else (form,)
        return next((self._made[number, one] for one in forms if (number, one) in self._made), None)

    def _name(self, wanted: str) -> str:
        """Return a name that no other model has; Triton's are those of folders."""
        plain = "".join(one if one.isalnum() or one in "_-." else "_" for one in wanted)
        stem = f"{plain}_model" if plain in self._pipelines else plain
        name, number = stem, 2
        while name in self._taken:
            name, number = f"{stem}_{number}", number + 1
        self._taken.add(name)
        return name


def stage_config(served: Served, *, python: bool) -> Json:
    """Return the configuration of a model of a segment, run by Triton's Python or ONNX backend."""
    segment = served.segment
    inputs = zip(segment.input_names, segment.signature.params, segment.input_axes, strict=True)
    outputs = zip(segment.output_names, segment.signature.results, segment.output_axes, strict=True)
    config: Json = {
        "name": served.name,
        "backend": "python" if python else "onnxruntime",
        "max_batch_size": served.rows,
        "input": [_tensor(*one, served.form) | _optional(one[1]) for one in inputs],
        "output": [_tensor(*one, served.form) for one in outputs],
        "instance_group": [_instances(segment, python=python)],
    }
    if served.form is Form.ROWS and segment.batching is not None:
        config["dynamic_batching"] = _batching(segment)
    if segment.service.cache is not None:
        config["response_cache"] = {"enable": True}
    if segment.service.threads is not None:
        count = {"string_value": str(segment.service.threads)}
        config["parameters"] = {"intra_op_thread_count": count}
    if not python and (accelerators := _accelerators(segment)):
        config["optimization"] = {"execution_accelerators": accelerators}
    return config


def left_out(served: Served, *, python: bool) -> list[str]:
    """Return what the plan says of a stage and Triton cannot be told."""
    segment, said = served.segment, list[str]()
    if segment.service.warmup:
        said.append("is not warmed up")
    if segment.batching is not None and segment.batching.padding is not None:
        said.append("meets rows of its own shape only: Triton does not pad")
    if segment.batching is None and segment.queueing is not None:
        said.append("has no bound of its queue")
    if segment.service.isolation is not None or segment.service.cpus:
        said.append("runs in Triton's own process, on any core")
    if segment.service.in_process:
        said.append("has a process of its own")
    if python and segment.device != "cpu":
        said.append(f"runs on the CPU, not on {segment.device}: that is what `--onnx python` has")
    return [f"`{served.name}` {one}" for one in said]


def tensor_of(field: Field) -> TensorType:
    """Return the type of a model's value, which may be optional."""
    kind = field.type.item if isinstance(field.type, OptionalType) else field.type
    if not isinstance(kind, TensorType):
        raise AssertionError(f"`{field.name}` is no tensor")
    return kind


def real_dims(field: Field, axis: int | None, form: Form) -> list[int]:
    """Return the dims that the model itself takes or gives, in form ROWS without the batch axis."""
    dims = _item_dims(field)
    if axis is not None and form is not Form.ROWS:
        dims.insert(axis, 1 if form is Form.ITEM else -1)
    return dims


def _item_dims(field: Field) -> list[int]:
    return [dim if isinstance(dim, int) else -1 for dim in tensor_of(field).dims]


def _tensor(name: str, field: Field, axis: int | None, form: Form) -> Json:
    kind, real = tensor_of(field), real_dims(field, axis, form)
    shown = real if form is Form.WHOLE else _item_dims(field)
    shown = shown or [1]  # Triton has no scalars
    datatype = DATATYPES[kind.dtype].name
    tensor: Json = {
        "name": name,
        "data_type": f"TYPE_{'STRING' if datatype == 'BYTES' else datatype}",
        "dims": shown,
    }
    return tensor if shown == real else tensor | {"reshape": {"shape": real}}


def _optional(field: Field) -> Json:
    return {"optional": True} if isinstance(field.type, OptionalType) else {}


def _instances(segment: ModelSegment, *, python: bool) -> Json:
    device, _, index = segment.device.partition(":")
    group: Json = {"kind": "KIND_CPU", "count": segment.instances or 1}
    if device == "gpu" and not python:
        group |= {"kind": "KIND_GPU", "gpus": [int(index or 0)]}
    if segment.service.resources:
        resources = [{"name": name, "count": n} for name, n in segment.service.resources]
        weight = {"priority": segment.service.weight} if segment.service.weight else {}
        group["rate_limiter"] = {"resources": resources, **weight}
    return group


def _batching(segment: ModelSegment) -> Json:
    batching, queue, priority = segment.batching, segment.queueing, segment.service.priority
    if batching is None:
        raise AssertionError("it has no queue")
    found: Json = {"max_queue_delay_microseconds": round(batching.wait * 1e6)}
    if batching.prefer:
        found["preferred_batch_size"] = list(batching.prefer)
    if priority is not None:
        found["priority_levels"] = priority.levels
        found["default_priority_level"] = priority.default
    if queue is not None:
        found["default_queue_policy"] = _policy(queue)
        found["priority_queue_policy"] = {
            str(level): _policy(bounds) for level, bounds in queue.levels
        }
    return found


def _policy(queue: Queueing) -> Json:
    return {
        "timeout_action": "DELAY" if queue.on_timeout == "delay" else "REJECT",
        "default_timeout_microseconds": round((queue.timeout or 0) * 1e6),
        "allow_timeout_override": queue.override,
        "max_queue_size": queue.size,
    }


def _accelerators(segment: ModelSegment) -> Json:
    match segment.backend:
        case "tensorrt" | "tensorrt_rtx" | "onnx_tensorrt" | "onnx_tensorrt_rtx":
            return {"gpu_execution_accelerator": [{"name": "tensorrt"}]}
        case "openvino":
            return {"cpu_execution_accelerator": [{"name": "openvino"}]}
        case _:
            return {}
