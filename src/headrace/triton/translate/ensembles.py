"""The steps of an ensemble as statements, each after those whose tensors it reads."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..complete import served
from ..config import Message
from ..subject import Subject
from .decoupled import call_decoupled, is_decoupled
from .draft import Draft, refuse
from .members import members
from .names import Names
from .stages import call, stage_of


@dataclass(frozen=True, slots=True)
class Context:
    """Where steps are written: `rows` says whether each line is of one row of many, and `inside`
    names the ensembles that are being written, outermost first."""

    rows: bool
    inside: tuple[str, ...] = ()


def call_ensemble(
    draft: Draft,
    subject: Subject,
    arguments: Mapping[str, str],
    wanted: Mapping[str, str],
    context: "Context | None" = None,
) -> dict[str, str]:
    """Write the steps that make the wanted outputs; return their expressions."""
    inside = () if context is None else context.inside
    if subject.name in inside:
        raise refuse(
            subject,
            f"the ensemble `{subject.name}` is a step of itself",
            "ensemble_scheduling",
            help="take that step out",
        )
    rows = subject.config.max_batch_size > 0 and not draft.stream
    within = Context(rows, (*inside, subject.name))
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
        values |= _step(draft, subject, ready, values, wanted, within)
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
    context: Context,
) -> dict[str, str]:
    step = ensemble.config.ensemble_scheduling.step[number]
    member = draft.around.others.named(step.model_name)
    if member is None:
        raise refuse(
            ensemble,
            f"there is no model `{step.model_name}`, or its configuration is wrong",
            *("ensemble_scheduling", "step", number, "model_name"),
            help="look what is said of it",
        )
    arguments = {name: values[tensor] for name, tensor in sorted(step.input_map.items())}
    wanted = {name: outputs.get(tensor, tensor) for name, tensor in sorted(step.output_map.items())}
    batches = member.config.max_batch_size > 0
    if draft.stream and (member.is_ensemble or is_decoupled(member)):
        batches = False  # whole requests go in, their batch axis included
    if batches == context.rows:
        made = _call(draft, ensemble, number, member, arguments, wanted, context)
    elif batches:
        made = _for_each(draft, ensemble, number, member, arguments, wanted, context)
    else:
        raise refuse(
            ensemble,
            f"`{ensemble.name}` takes several rows in a request, but `{member.name}` takes one",
            *("ensemble_scheduling", "step", number),
            help="write `max_batch_size: 0` for the ensemble",
        )
    return {step.output_map[name]: value for name, value in made.items()}


def _call(
    draft: Draft,
    ensemble: Subject,
    number: int,
    member: Subject,
    arguments: Mapping[str, str],
    wanted: Mapping[str, str],
    context: Context,
) -> dict[str, str]:
    if member.is_ensemble:
        return call_ensemble(draft, member, arguments, wanted, context)
    version = _version(ensemble, number, member)
    if is_decoupled(member):
        return call_decoupled(draft, member, version, member.name, arguments, wanted)
    return call(draft, stage_of(draft, member, version, member.name), arguments, wanted)


def _for_each(
    draft: Draft,
    ensemble: Subject,
    number: int,
    member: Subject,
    arguments: Mapping[str, str],
    wanted: Mapping[str, str],
    context: Context,
) -> dict[str, str]:
    """Call a member that batches for each item of the first axis, which the ensemble's tensors
    have as one of their own."""
    if member.config.HasField("sequence_batching"):
        raise refuse(
            ensemble,
            f"`{member.name}` has sequences, but `{ensemble.name}` has `max_batch_size: 0`",
            *("ensemble_scheduling", "step", number),
            help="give the ensemble the member's `max_batch_size`",
        )
    items = {name: draft.names.fresh(f"each_{name}") for name in arguments}
    rows = draft.names.fresh(f"{member.name}_rows")
    lists = ", ".join(arguments.values())
    over = f"zip({lists})" if len(arguments) > 1 else lists
    with draft.block(f"{rows} = for {', '.join(items.values())} in {over}"):
        made = _call(draft, ensemble, number, member, items, wanted, Context(True, context.inside))
        own = Names()
        fields = {name: own.fresh(wanted[name]) for name in made}
        said = ", ".join(f"{fields[name]} = {value}" for name, value in made.items())
        draft.lines.append(f"yield {said}")
    return {name: f"{rows}.{fields[name]}" for name in made}


def _version(ensemble: Subject, number: int, member: Subject) -> int:
    """Return the version that a step asks for: one that is served."""
    step: Message = ensemble.config.ensemble_scheduling.step[number]
    versions = served(member.model, member.config)
    if step.model_version > 0 and step.model_version in versions:
        return step.model_version
    if step.model_version <= 0 and versions:
        return versions[-1]
    asked = f"version {step.model_version}" if step.model_version > 0 else "version"
    listed = ", ".join(map(str, versions)) or "none"
    raise refuse(
        ensemble,
        f"`{member.name}` serves no {asked}",
        *("ensemble_scheduling", "step", number, "model_version"),
        help=f"served are {listed}",
    )
