"""A plan without the models that Triton runs.

Each such segment has another backend, `triton_bls`, and instead of a model a note: which model of
Triton's, in what form, and the segment as it was. So a plan of a few kilobytes can run in
tritonserver, and `restore` makes the plan that was exported of it and the models beside it.
"""

import json
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, assert_never

from google.protobuf.message import DecodeError

from ...compiler import plan_file
from ...compiler.literal_codec import Attachments
from ...compiler.plan import (
    ON_DEVICES,
    Block,
    BranchStep,
    CallStep,
    CheckStep,
    EachStep,
    EmitStep,
    LoopStep,
    ModelSegment,
    Plan,
    PythonSegment,
    Segment,
    SpreadStep,
    Step,
    SwitchStep,
    TogetherStep,
    TransferStep,
    TryStep,
)
from ...compiler.plan_codec import Codecs
from ...compiler.plan_walk import segments_of
from ...compiler.policies import NO_SERVICE
from .model_file import model_file, outputs_of, restored
from .stages import Models, Served, together

BACKEND = "triton_bls"
PLAN_FILE = "headrace.plan"
"""What the plan is called, at the root of the repository and in models that carry it."""
ONNX_FILE = "model.onnx"


def lighten(plan: Plan, models: Models, *, restorable: bool = True) -> Plan:
    """Return the plan with notes in the place of models that Triton runs; `restorable` ones say how
    a model is made again of its file."""
    blobs = dict(plan.blobs)
    segments = list(plan.segments)
    for number, segment in enumerate(plan.segments):
        served = models.of(number)
        if served is not None and isinstance(segment, ModelSegment):
            note = _note(served, blobs[segment.model] if restorable else None)
            digest = sha256(note).hexdigest()
            blobs[digest] = note
            segments[number] = replace(
                segment,
                model=digest,
                backend=BACKEND,
                kind=BACKEND,
                batching=None,
                queueing=None,
                group=together(segment),
                pads=(),
                service=NO_SERVICE,
                told=True,
            )
    return _with_blobs(replace(plan, segments=tuple(segments)), blobs)


def carried(light: Plan, name: str) -> Plan:
    """Return what of a light plan one pipeline needs, all of it on the host."""
    pipeline = light.pipeline(name)
    used = segments_of(pipeline.body)
    numbers = {old: new for new, old in enumerate(used)}
    states = tuple(replace(state, device="cpu") for state in pipeline.states)
    alone = replace(pipeline, body=_on_host(pipeline.body, numbers), states=states, unseen=())
    segments = tuple(_segment_on_host(light.segments[old]) for old in used)
    plan = replace(
        light,
        pipelines=(alone,),
        segments=segments,
        memory=(),
        explanation=(),
        declined=(),
    )
    return _with_blobs(plan, dict(light.blobs))


def restore(folder: Path) -> Plan | None:
    """Return the plan whose export a repository is, None where it is of no export.

    Raises PlanError where the plan is not as it was written, or a model is missing or another.
    """
    path = folder / PLAN_FILE
    if not path.is_file():
        return None
    light = plan_file.read(path)
    blobs = dict(light.blobs)
    segments = list(light.segments)
    for index, segment in enumerate(light.segments):
        if isinstance(segment, ModelSegment) and segment.backend == BACKEND:
            note = json.loads(blobs.pop(segment.model))
            was: ModelSegment = _codecs().of(ModelSegment, ModelSegment).decode(note["segment"])
            segments[index] = was
            model = folder / note["model"] / "1" / ONNX_FILE
            content = _content(note, _read(model))
            digest = sha256(content).hexdigest()
            if digest != was.model:
                message = f"{model} is another model than that which was exported"
                raise plan_file.PlanError(plan_file.ALTERED, message, "export the plan again")
            blobs[digest] = content
    return _with_blobs(replace(light, segments=tuple(segments)), blobs)


def _note(served: Served, content: bytes | None) -> bytes:
    """Return what stands for a model; `was` is how to make it of its file: None is the file itself,
    else what its outputs were, or all of it where serialising it again gives other bytes."""
    segment = _codecs().of(ModelSegment, ModelSegment).encode(served.segment)
    was = None
    if content is not None and (file := model_file(served, content)) != content:
        outputs = outputs_of(content)
        same = restored(file, outputs) == content
        was = {"outputs": _text(outputs)} if same else {"content": _text(content)}
    note = {"model": served.name, "form": served.form.value, "segment": segment, "was": was}
    return json.dumps(note, sort_keys=True).encode()


def _text(content: bytes) -> str:
    return b64encode(content).decode("ascii")


def _content(note: dict[str, Any], file: bytes) -> bytes:  # Any: JSON
    """Return the bytes that a model had in the plan, of its file."""
    match note["was"]:
        case {"content": text}:
            return b64decode(text)
        case {"outputs": text}:
            try:
                return restored(file, b64decode(text))
            except DecodeError:  # it is no model any more, and has another digest
                return file
        case _:
            return file


def _codecs() -> Codecs:
    return Codecs(Attachments())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        raise plan_file.PlanError(plan_file.UNREADABLE, message) from error


def _with_blobs(plan: Plan, blobs: dict[str, bytes]) -> Plan:
    """Return the plan with those of the blobs that a segment names."""
    named: set[str] = set()
    for segment in plan.segments:
        match segment:
            case ModelSegment():
                named.add(segment.model)
            case PythonSegment():
                named.add(segment.source)
            case _:
                pass
    return replace(plan, blobs=tuple((one, blobs[one]) for one in sorted(named)))


def _segment_on_host(segment: Segment) -> Segment:
    if isinstance(segment, ModelSegment) and segment.backend in ON_DEVICES:
        backend = segment.backend if segment.kind == "kernel" else "onnx"
        return replace(segment, device="cpu", backend=backend)
    return segment


def _on_host(block: Block, numbers: dict[int, int]) -> Block:
    return replace(block, steps=tuple(_moved(step, numbers) for step in block.steps))


def _moved(step: Step, numbers: dict[int, int]) -> Step:
    """Return a step that calls segments by their new numbers and copies to no device."""
    match step:
        case CallStep():
            return replace(step, segment=numbers[step.segment])
        case TransferStep():
            return replace(step, device="cpu")
        case BranchStep():
            then, orelse = _on_host(step.then, numbers), _on_host(step.orelse, numbers)
            return replace(step, then=then, orelse=orelse)
        case TryStep():
            body, orelse = _on_host(step.body, numbers), _on_host(step.orelse, numbers)
            return replace(step, body=body, orelse=orelse)
        case SwitchStep():
            cases = tuple((held, _on_host(block, numbers)) for held, block in step.cases)
            return replace(step, cases=cases, default=_on_host(step.default, numbers))
        case EachStep() | LoopStep():
            return replace(step, body=_on_host(step.body, numbers))
        case TogetherStep() | SpreadStep():
            blocks = tuple(_on_host(block, numbers) for block in step.blocks)
            return replace(step, blocks=blocks)
        case EmitStep() | CheckStep():
            return step
        case _:
            assert_never(step)
