"""The steps of an ensemble as statements, each after those whose tensors it reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..complete import PYTHON, served
from ..subject import Subject
from .axes import axes_of, fit_all
from .decoupled import call_decoupled, is_decoupled
from .draft import Draft, Stage, refuse
from .members import members
from .names import Names
from .stages import call, stage_of


@dataclass(frozen=True, slots=True)
class Ask:
    """A member that is asked: by whom, and `place` where that is written. `arguments` and `wanted`
    go by the member's names. `rows` says whether each line is of one row of many; `inside` names
    the ensembles that are being written, outermost first. `axes` says how many axes arguments have,
    where they may be others than the member's, and `absent` which of them may not be there."""

    by: Subject
    place: tuple[str | int, ...]
    member: Subject
    version: int  # 0 or less: the newest
    arguments: Mapping[str, str]
    wanted: Mapping[str, str]
    rows: bool
    inside: tuple[str, ...] = ()
    axes: Mapping[str, int] = field(default_factory=dict[str, int])
    absent: frozenset[str] = frozenset()


def call_ensemble(
    draft: Draft,
    subject: Subject,
    arguments: Mapping[str, str],
    wanted: Mapping[str, str],
    inside: tuple[str, ...] = (),
) -> dict[str, str]:
    """Write the steps that make the wanted outputs; return their expressions."""
    if subject.name in inside:
        raise refuse(
            subject,
            f"the ensemble `{subject.name}` is a step of itself",
            "ensemble_scheduling",
            help="take that step out",
        )
    within = (*inside, subject.name)
    draft.cached = draft.cached or subject.config.response_cache.enable
    values, leading = dict(arguments), _leading(draft, subject)
    axes = axes_of(subject.config.input, leading)
    steps = _needed(subject, wanted)
    while steps:
        # What answers any number of times comes last: all that follows is in its loop.
        ready = min(
            (i for i in steps if _is_ready(subject, i, values)),
            key=lambda i: _answers_often(subject, i),
            default=None,
        )
        if ready is None:
            raise _stuck(subject, steps[0], values)
        steps.remove(ready)
        one = _step(draft, subject, ready, values, axes, wanted, within)
        made, ahead = _ask(draft, one)
        outputs = subject.config.ensemble_scheduling.step[ready].output_map
        given = axes_of(one.member.config.output, ahead)
        values |= {outputs[name]: value for name, value in made.items()}
        axes |= {outputs[name]: given[name] for name in made}
    for name in wanted:
        if name not in values:
            raise refuse(
                subject,
                f"nothing makes `{name}`",
                "ensemble_scheduling",
                help="let a step give it, or leave it out of the outputs",
            )
    last = axes_of(subject.config.output, leading)
    return fit_all({name: values[name] for name in wanted}, axes, last)


def _leading(draft: Draft, subject: Subject) -> int:
    """Return how many axes the tensors of an ensemble have in front of an item."""
    return int(subject.config.max_batch_size > 0 and (draft.stream or draft.mixed))


def _needed(subject: Subject, wanted: Mapping[str, str]) -> list[int]:
    """Return the steps that the wanted tensors come from, in the order of the configuration."""
    steps = subject.config.ensemble_scheduling.step
    tensors, found = set(wanted), set[int]()
    grown = True
    while grown:
        grown = False
        for number, step in enumerate(steps):
            if number not in found and tensors & set(step.output_map.values()):
                found.add(number)
                tensors |= set(step.input_map.values())
                grown = True
    return sorted(found)


def _answers_often(subject: Subject, number: int) -> bool:
    step = subject.config.ensemble_scheduling.step[number]
    member = subject.others.named(step.model_name)
    return member is not None and any(map(is_decoupled, members(member)))


def _is_ready(subject: Subject, number: int, values: Mapping[str, str]) -> bool:
    step = subject.config.ensemble_scheduling.step[number]
    return all(tensor in values for tensor in step.input_map.values())


def _stuck(subject: Subject, number: int, values: Mapping[str, str]) -> Exception:
    step = subject.config.ensemble_scheduling.step[number]
    name = min(one for one in step.input_map.values() if one not in values)
    return refuse(
        subject,
        f"nothing makes `{name}` before step {number}, `{step.model_name}`, reads it",
        *("ensemble_scheduling", "step", number, "input_map"),
        help="let an input of the ensemble, or a step that does not wait for this one, give it",
    )


def _step(
    draft: Draft,
    ensemble: Subject,
    number: int,
    values: Mapping[str, str],
    axes: Mapping[str, int],
    outputs: Mapping[str, str],
    inside: tuple[str, ...],
) -> Ask:
    step = ensemble.config.ensemble_scheduling.step[number]
    place = ("ensemble_scheduling", "step", number)
    member = draft.around.others.named(step.model_name)
    if member is None:
        raise refuse(
            ensemble,
            f"there is no model `{step.model_name}`, or its configuration is wrong",
            *(*place, "model_name"),
            help="look what is said of it",
        )
    absent = {one.name for one in ensemble.config.input if one.optional}
    return Ask(
        ensemble,
        place,
        member,
        step.model_version,
        {name: values[tensor] for name, tensor in sorted(step.input_map.items())},
        {name: outputs.get(tensor, tensor) for name, tensor in sorted(step.output_map.items())},
        ensemble.config.max_batch_size > 0 and not _leading(draft, ensemble),
        inside,
        {name: axes[tensor] for name, tensor in step.input_map.items()},
        frozenset(name for name, tensor in step.input_map.items() if tensor in absent),
    )


def ask(draft: Draft, one: Ask) -> dict[str, str]:
    """Write what asks a member; return the expressions of the wanted outputs, by its names."""
    return _ask(draft, one)[0]


def _ask(draft: Draft, one: Ask) -> tuple[dict[str, str], int]:
    """Write what asks a member; return also how many axes its outputs have in front of an item."""
    batches = one.member.config.max_batch_size > 0
    # Whole requests go into these, their batch axis included.
    whole = (draft.stream and is_decoupled(one.member)) or (
        (draft.stream or draft.mixed) and one.member.is_ensemble
    )
    if not whole and batches and one.rows:
        return _call(draft, one), 0
    if not whole and batches:
        return _for_rows(draft, one)
    if not whole and one.rows:
        raise refuse(
            one.by,
            f"`{one.by.name}` takes several rows in a request, but `{one.member.name}` takes one",
            *one.place,
            help="write `max_batch_size: 0` for it",
        )
    leading = int(whole and batches)
    wanted = axes_of(one.member.config.input, leading)
    return _call(draft, replace(one, arguments=fit_all(one.arguments, one.axes, wanted))), leading


def _call(draft: Draft, one: Ask) -> dict[str, str]:
    if one.member.is_ensemble:
        draft.nested[one.member.name, str(_version(one))] += 1
        return call_ensemble(draft, one.member, one.arguments, one.wanted, one.inside)
    version = _version(one)
    if is_decoupled(one.member):
        name = one.member.name
        return call_decoupled(draft, one.member, version, name, one.arguments, one.wanted)
    stage = stage_of(draft, one.member, version, one.member.name)
    if draft.each:
        _gather(draft, stage)
    return call(draft, stage, one.arguments, one.wanted)


def _gather(draft: Draft, stage: Stage) -> None:
    """Let rows that a loop gives a model run together, as they have come in one request. A Python
    model would be shown other requests too, which only a queue of its own lets meet."""
    most, said = stage.subject.config.max_batch_size, draft.settings.stages[stage.name]
    queued = any(one.startswith("batch ") for one in said)
    if most > 1 and not queued and stage.subject.config.backend != PYTHON:
        said.insert(0, f"batch {{ max = {most} }}")


def _for_rows(draft: Draft, one: Ask) -> tuple[dict[str, str], int]:
    """Call a member that batches, for one row or for each of those that it is given."""
    rows = axes_of(one.member.config.input, 1)
    axes = {name: one.axes.get(name, rows[name]) for name in one.arguments}
    if all(axes[name] < rows[name] for name in axes):
        return _call(draft, replace(one, rows=True)), 0
    return _for_each(draft, replace(one, arguments=fit_all(one.arguments, axes, rows))), 1


def _for_each(draft: Draft, one: Ask) -> dict[str, str]:
    """Call a member that batches for each item of the first axis, which the tensors of who asks
    have as one of their own."""
    for name in sorted(one.absent):
        raise refuse(
            one.by,
            f"rows of `{one.arguments[name]}` go to `{one.member.name}` one by one, and it may be "
            "left out",
            *(*one.place, "input_map", name),
            help=f"give `{one.by.name}` and `{one.member.name}` the same `max_batch_size`",
        )
    if one.member.config.HasField("sequence_batching"):
        raise refuse(
            one.by,
            f"`{one.member.name}` has sequences, but `{one.by.name}` has `max_batch_size: 0`",
            *one.place,
            help="give it the member's `max_batch_size`",
        )
    items = {name: draft.names.fresh(f"each_{name}") for name in one.arguments}
    rows = draft.names.fresh(f"{one.member.name}_rows")
    lists = ", ".join(one.arguments.values())
    over = f"zip({lists})" if len(one.arguments) > 1 else lists
    with draft.block(f"{rows} = for {', '.join(items.values())} in {over}"):
        outer, draft.each = draft.each, True
        made = _call(draft, replace(one, arguments=items, rows=True))
        draft.each = outer
        own = Names()
        fields = {name: own.fresh(one.wanted[name]) for name in made}
        said = ", ".join(f"{fields[name]} = {value}" for name, value in made.items())
        draft.lines.append(f"yield {said}")
    return {name: f"{rows}.{fields[name]}" for name in made}


def _version(one: Ask) -> int:
    """Return the version that is asked for: one that is served."""
    versions = served(one.member.model, one.member.config)
    if one.version > 0 and one.version in versions:
        return one.version
    if one.version <= 0 and versions:
        return versions[-1]
    asked = f"version {one.version}" if one.version > 0 else "version"
    listed = ", ".join(map(str, versions)) or "none"
    raise refuse(
        one.by,
        f"`{one.member.name}` serves no {asked}",
        *(*one.place, "model_version"),
        help=f"served are {listed}",
    )
