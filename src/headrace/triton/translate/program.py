"""A model of a repository as the text of a `.pipe` file: all of it, in the canonical form."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...dsl.diagnostic import CompileError
from ...dsl.format import format_module
from ...dsl.parse import parse
from ...dsl.source import Source
from ...runtime.protocols.models import ModelKey
from ..subject import Subject
from .axes import is_mixed
from .decoupled import call_decoupled, is_decoupled
from .draft import Draft, Surroundings, refuse
from .ensembles import call_ensemble
from .members import members
from .names import Names, renamed
from .resources import find_scarce
from .schedule import duration, sequence_settings
from .scripts.program import follow
from .scripts.values import NeedsWhole
from .sequences import has_sequences
from .stages import call, stage_of
from .tensors import Tensor, tensor, written
from .unserved import find_unserved


@dataclass(frozen=True, slots=True)
class Program:
    """A model in one version. `files` are those that the source names; it calls the pipeline
    `pipeline`, inputs by the names in `inside`, and what runs first `stage`. `script` says that it
    is what a script does, of which a stage runs as often as there are rows. `models` and `nested`
    say of which models it is made, as those of its draft."""

    subject: Subject
    version: int
    text: str
    files: tuple[Path, ...]
    pipeline: str
    inside: Mapping[str, str]
    stage: str
    script: bool = False
    models: Mapping[str, ModelKey] = field(default_factory=dict[str, ModelKey])
    nested: Mapping[ModelKey, int] = field(default_factory=dict[ModelKey, int])


def translate(subject: Subject, version: int, around: Surroundings) -> Program:
    """Write a model as a source; raises CompileError with what of it cannot be served."""
    draft, pipeline, inside = _begin(subject, around)
    config = subject.config
    draft.sequence = _sequence(subject)
    draft.stream = any(map(is_decoupled, members(subject)))
    plain = draft.sequence is None and not draft.stream
    draft.whole = draft.mixed = plain and is_mixed(members(subject))
    single = draft.sequence is not None and config.max_batch_size > 0 and not draft.stream
    arguments = {name: f"{own}[0]" if single else own for name, own in inside.items()}
    wanted = {one.name: one.name for one in config.output}
    if subject.is_ensemble:
        made = call_ensemble(draft, subject, arguments, wanted)
    elif draft.stream:
        made = call_decoupled(draft, subject, version, subject.name, arguments, wanted)
    else:
        stage = stage_of(draft, subject, version, f"run_{subject.name}")
        made = call(draft, stage, arguments, wanted)
    if single:
        made = {name: f"expand_dims({value}, axis = 0)" for name, value in made.items()}
    text = _text(draft, subject, pipeline, inside, made)
    stage = next(iter(draft.settings.stages))
    return Program(
        subject,
        version,
        text,
        tuple(draft.files),
        pipeline,
        inside,
        stage,
        models=draft.models,
        nested=draft.nested,
    )


def translate_script(
    subject: Subject, version: int, source: str, around: Surroundings, *, whole: bool = False
) -> Program:
    """Write what a script does as a source; raises Kept with why it cannot be, and CompileError.
    `whole` is for one that looks into tensors: it gets requests with their batch axis."""
    draft, pipeline, inside = _begin(subject, around)
    draft.whole = whole
    try:
        followed = follow(draft, subject, source, inside)
    except NeedsWhole:
        return translate_script(subject, version, source, around, whole=True)
    text = _text(draft, subject, pipeline, inside, followed.made)
    files = tuple(draft.files)
    return Program(subject, version, text, files, pipeline, inside, followed.always, script=True)


def _begin(subject: Subject, around: Surroundings) -> tuple[Draft, str, dict[str, str]]:
    """Return an empty draft, and the names of the pipeline and its inputs."""
    draft = Draft(around)
    made_of, counted = members(subject), around.serving.resources
    mistakes = [mistake for one in made_of for mistake in find_unserved(one)]
    if counted is not None:
        mistakes += [mistake for one in made_of for mistake in find_scarce(one, counted)]
    if mistakes:
        raise CompileError(mistakes)
    for one in made_of:
        _require_told(one)
    pipeline = draft.names.fresh(subject.name)
    return draft, pipeline, {one.name: draft.names.fresh(one.name) for one in subject.config.input}


def _require_told(subject: Subject) -> None:
    """Refuse a model of which it is not known what it takes and gives, once it has been asked."""
    for side in ("input", "output"):
        tensors = list(getattr(subject.config, side))
        if not tensors or not all(one.data_type and one.dims for one in tensors):
            raise refuse(
                subject,
                f"nothing says which {side}s `{subject.name}` has",
                side,
                help=f'write `{side} [ {{ name: "x" data_type: TYPE_FP32 dims: [ 3 ] }} ]`',
            )


def _text(
    draft: Draft, subject: Subject, pipeline: str, inside: dict[str, str], made: dict[str, str]
) -> str:
    """Return all of a source."""
    config = subject.config
    inputs, outputs = list(map(tensor, config.input)), list(map(tensor, config.output))
    named = Names()
    results = {one.name: named.fresh(one.name) for one in outputs}
    head = _head(draft, subject, pipeline, inputs, inside, outputs, results)
    _join_last(draft, made)
    returned = ", ".join(f"{results[name]} = {value}" for name, value in made.items())
    lines = [*draft.states, *_ended(draft, returned)]
    if draft.sequence is not None:
        draft.settings.pipeline += sequence_settings(draft.sequence.config)
    draft.settings.count()
    body = "\n".join(lines)
    text = "\n".join(
        [
            *_notes(subject),
            *draft.items,
            "",
            f"{head} {{\n{body}\n}}",
            "",
            draft.settings.text(pipeline),
        ]
    )
    return _formatted(subject.name, text)


def _head(
    draft: Draft,
    subject: Subject,
    pipeline: str,
    inputs: list[Tensor],
    inside: dict[str, str],
    outputs: list[Tensor],
    results: dict[str, str],
) -> str:
    config = subject.config
    front, whole = (), draft.stream or draft.whole
    if config.max_batch_size > 0 and (draft.sequence is not None or whole):
        front = (-1,) if whole else (1,)
    params = [
        f"{renamed(one.name, inside[one.name])}: "
        + written(one.dtype, (*front, *one.dims), optional=one.optional)
        for one in inputs
    ]
    given = [
        f"{renamed(one.name, results[one.name])}: {written(one.dtype, (*front, *one.dims))}"
        for one in outputs
    ]
    arrow = "-> stream" if draft.stream else "->"
    name = renamed(subject.name, pipeline)
    head = f"pipeline {name}({', '.join(params)}) {arrow} ({', '.join(given)})"
    if draft.sequence is not None:
        idle = draft.sequence.config.sequence_batching.max_sequence_idle_microseconds
        return f"{head} per sequence idle {duration(idle)}"
    rows = config.max_batch_size > 0 and not whole
    return f"{head} batch {config.max_batch_size}" if rows else head


def _join_last(draft: Draft, made: dict[str, str]) -> None:
    """Let what is given be the last call itself, where nothing else is made of it."""
    target, _, expression = draft.lines[-1].partition(" = ") if draft.lines else ("", "", "")
    if list(made.values()) == [target] and not draft.following:
        draft.lines.pop()
        made.update(dict.fromkeys(made, expression))


def _ended(draft: Draft, returned: str) -> list[str]:
    """Return the statements of the pipeline, with what it gives."""
    if not draft.stream:
        following = [f"next {', '.join(draft.following)}"] if draft.following else []
        return [*draft.lines, *following, f"return {returned}"]
    draft.lines.append(f"emit {returned}")
    draft.close()
    return draft.lines


def _sequence(subject: Subject) -> Subject | None:
    """Return the model by whose sequences requests go: itself, or the one member that has some."""
    found = [one for one in members(subject) if has_sequences(one)]
    if len(found) > 1:
        raise refuse(
            subject,
            f"`{found[0].name}` and `{found[1].name}` both have sequences",
            "ensemble_scheduling",
            help="serve them as models of their own",
        )
    return found[0] if found else None


def _notes(subject: Subject) -> list[str]:
    """Return the comments of the configuration."""
    lines = [line.strip() for line in subject.model.config.source.text.splitlines()]
    notes = [line for line in lines if line.startswith("#")]
    return [*notes, ""] if notes else []


def _formatted(name: str, text: str) -> str:
    return format_module(parse(Source(f"{name}.pipe", text)))
