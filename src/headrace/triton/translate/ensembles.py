"""The steps of an ensemble as statements, each after those whose tensors it reads."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..complete import served
from ..subject import Subject
from .decoupled import call_decoupled, is_decoupled
from .draft import Draft, refuse
from .members import members
from .names import Names
from .stages import call, stage_of


@dataclass(frozen=True, slots=True)
class Ask:
    """A member that is asked: by whom, and `place` where that is written. `arguments` and `wanted`
    go by the member's names. `rows` says whether each line is of one row of many; `inside` names
    the ensembles that are being written, outermost first."""

    by: Subject
    place: tuple[str | int, ...]
    member: Subject
    version: int  # 0 or less: the newest
    arguments: Mapping[str, str]
    wanted: Mapping[str, str]
    rows: bool
    inside: tuple[str, ...] = ()


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
    values = dict(arguments)
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
        made = ask(draft, _step(draft, subject, ready, values, wanted, within))
        outputs = subject.config.ensemble_scheduling.step[ready].output_map
        values |= {outputs[name]: value for name, value in made.items()}
    for name in wanted:
        if name not in values:
            raise refuse(
                subject,
                f"nothing makes `{name}`",
                "ensemble_scheduling",
                help="let a step give it, or leave it out of the outputs",
            )
    return {name: values[name] for name in wanted}


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
    return Ask(
        ensemble,
        place,
        member,
        step.model_version,
        {name: values[tensor] for name, tensor in sorted(step.input_map.items())},
        {name: outputs.get(tensor, tensor) for name, tensor in sorted(step.output_map.items())},
        ensemble.config.max_batch_size > 0 and not draft.stream,
        inside,
    )


def ask(draft: Draft, one: Ask) -> dict[str, str]:
    """Write what asks a member; return the expressions of the wanted outputs, by its names."""
    batches = one.member.config.max_batch_size > 0
    if draft.stream and (one.member.is_ensemble or is_decoupled(one.member)):
        batches = False  # whole requests go in, their batch axis included
    if batches == one.rows:
        return _call(draft, one)
    if batches:
        return _for_each(draft, one)
    raise refuse(
        one.by,
        f"`{one.by.name}` takes several rows in a request, but `{one.member.name}` takes one",
        *one.place,
        help="write `max_batch_size: 0` for it",
    )


def _call(draft: Draft, one: Ask) -> dict[str, str]:
    if one.member.is_ensemble:
        draft.nested[one.member.name, str(_version(one))] += 1
        return call_ensemble(draft, one.member, one.arguments, one.wanted, one.inside)
    version = _version(one)
    if is_decoupled(one.member):
        name = one.member.name
        return call_decoupled(draft, one.member, version, name, one.arguments, one.wanted)
    stage = stage_of(draft, one.member, version, one.member.name)
    return call(draft, stage, one.arguments, one.wanted)


def _for_each(draft: Draft, one: Ask) -> dict[str, str]:
    """Call a member that batches for each item of the first axis, which the tensors of who asks
    have as one of their own."""
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
        made = _call(draft, replace(one, arguments=items, rows=True))
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
