"""One model as a `model` item and a call of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...dsl.literals import write_string
from ..complete import ONNX, PYTHON, model_file
from ..config import Message
from ..onnx_file import read_onnx
from ..subject import Subject
from .draft import Draft, Stage, refuse
from .names import Names, renamed
from .resources import totals
from .schedule import stage_settings
from .sequences import begins_anew, begun, keep, read_controls, read_states, told
from .tensors import Tensor, reshaped, tensor, written

KINDS = {
    "onnxruntime": "onnx",
    "pytorch": "torch",
    "tensorflow": "tensorflow",
    "openvino": "openvino",
    "tensorrt": "tensorrt",
    "python": "triton_python",
}
_GATHERED = "triton_ragged"


def stage_of(draft: Draft, subject: Subject, version: int, wanted: str) -> Stage:
    """Return a model's stage; its item is written when it is first asked for."""
    known = draft.stages.get((subject.name, version))
    if known is not None:
        return known
    path = file_of(draft, subject, version)
    config = subject.config
    inputs = tuple(_taken(tensor(one), config.backend) for one in config.input)
    outputs = tuple(map(tensor, config.output))
    stage = Stage(
        draft.names.fresh(wanted),
        subject,
        inputs,
        outputs,
        read_controls(subject, _ranks(path)),
        read_states(subject),
    )
    draft.stages[subject.name, version] = stage
    draft.models[stage.name] = subject.name, str(version)
    draft.items.append(_item(draft, stage, path))
    python = config.backend == "python"
    said = stage_settings(
        subject.model.message,
        config,
        draft.around.serving,
        batches=stage.batches,
        python=python,
        cached=draft.cached,
    )
    draft.settings.totals |= totals(config, draft.around.serving.resources or ())
    draft.settings.stages[stage.name] = said
    return stage


def _taken(one: Tensor, backend: str) -> Tensor:
    """Return an input as a stage takes it: nothing opens what may be absent, so that a Python
    model's own stage gives that its other shape."""
    return replace(one, inner=one.dims) if one.optional and backend == PYTHON else one


def gathers(config: Message) -> bool:
    """Whether rows of different sizes run in one line, or tensors tell of a batch as a whole."""
    ragged = any(one.allow_ragged_batch for one in config.input) and config.max_batch_size > 0
    return config.backend == ONNX and bool(ragged or config.batch_input or config.batch_output)


def call(
    draft: Draft, stage: Stage, arguments: Mapping[str, str], wanted: Mapping[str, str]
) -> dict[str, str]:
    """Write a call with arguments by the model's names; return the outputs' expressions.

    `wanted` are the outputs that are read, each with a name that would suit it.
    """
    given = {
        one.name: reshaped(arguments[one.name], one.dims, one.inner)
        for one in stage.inputs
        if one.name in arguments
    }
    alone = begins_anew(stage.subject)
    given |= {one.tensor.name: told(one, alone=alone) for one in stage.controls}
    states = {one.before.name: begun(one) if alone else keep(draft, one) for one in stage.states}
    given |= states
    complete = all(one.name in given for one in stage.inputs)
    takes = [*stage.inputs, *(one.tensor for one in stage.controls)]
    takes += [one.before for one in stage.states]
    words = [
        given[one.name] if complete else f"{stage.inside[one.name]} = {given[one.name]}"
        for one in takes
        if one.name in given
    ]
    gives = _gives(stage)
    following = () if alone else stage.states
    needed = {*wanted, *(one.after for one in following)}
    targets = {
        one.name: draft.names.fresh(wanted.get(one.name, f"next_{one.name}"))
        for one in gives
        if one.name in needed
    }
    left = ", ".join(targets.get(one.name, "_") for one in gives)
    draft.lines.append(f"{left} = {stage.name}({', '.join(words)})")
    draft.following += [f"{states[one.before.name]} = {targets[one.after]}" for one in following]
    return {
        one.name: reshaped(targets[one.name], one.inner, one.dims)
        for one in gives
        if one.name in wanted
    }


def file_of(draft: Draft, subject: Subject, version: int) -> Path:
    """Return the file of a version; raises CompileError where no backend runs it."""
    config = subject.config
    if config.backend not in KINDS:
        raise refuse(
            subject,
            f"`{subject.name}` runs on `{config.backend}`, which is not served",
            "backend",
            help=f"backends are {', '.join(KINDS)}; a model on another server is "
            '`model m = remote "grpc://host:8001/NAME" (...) -> (...)` in a .pipe file',
        )
    path = model_file(subject.model, config, version)
    if path is None:
        raise refuse(
            subject,
            f"`{subject.name}` has no version {version}",
            "version_policy",
            help="add a folder with that number",
        )
    if path.is_dir() and config.backend == "onnxruntime":
        path = path / "model.onnx"
    draft.files.append(path)
    return path


def _ranks(path: Path) -> dict[str, int]:
    """Return how many axes an ONNX file gives its inputs."""
    found = read_onnx(path) if path.suffix == ".onnx" else None
    if found is None:
        return {}
    tensors = (*found.inputs, *found.defaults)
    return {one.name: len(one.dims) for one in tensors if one.dims is not None}


def _gives(stage: Stage) -> list[Tensor]:
    """Return what a model gives: outputs, and what states become that is no output."""
    known = {one.name for one in stage.outputs}
    after = [
        Tensor(one.after, one.before.dtype, one.before.dims, one.before.inner)
        for one in stage.states
        if one.after not in known
    ]
    return [*stage.outputs, *after]


def _item(draft: Draft, stage: Stage, path: Path) -> str:
    config = stage.subject.config
    takes = [*stage.inputs, *(one.tensor for one in stage.controls)]
    takes += [one.before for one in stage.states]
    params = _declared(takes, stage.inside)
    results = _declared(_gives(stage), {})
    place = write_string(draft.around.locate(path))
    none = "" if stage.batches else " batch none"
    kind = _GATHERED if gathers(config) else KINDS[config.backend]
    return f"model {stage.name} = {kind} {place} ({params}) -> ({results}){none}"


def _declared(tensors: Sequence[Tensor], inside: dict[str, str]) -> str:
    """Return parameters or results, and note in `inside` what each is called in the source."""
    names = Names()
    inside.update({one.name: names.fresh(one.name) for one in tensors})
    return ", ".join(
        f"{renamed(one.name, inside[one.name])}: "
        + written(one.dtype, one.inner, optional=one.optional)
        for one in tensors
    )
