"""Models that answer any number of times: one stage begins, the next gives answer after answer.

```
responses = m_open(x)
loop (more: bool = true) max 1_000_000_000 {
    there, y = m_next(responses)
    if there {
        emit y = y
    }
    next more = there
    stop when not there
}
```

They take and give whole requests, the batch axis included, for their answers are of no row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...dsl.literals import write_string
from ..complete import PYTHON
from ..subject import Subject
from .draft import Control, Draft, refuse
from .names import Names, renamed
from .resources import totals
from .schedule import stage_settings
from .sequences import read_controls, told
from .stages import KINDS, file_of
from .tensors import Tensor, reshaped, tensor, written

_MOST = "1_000_000_000"  # answers to one request


def is_decoupled(subject: Subject) -> bool:
    return subject.config.model_transaction_policy.decoupled


@dataclass(frozen=True, slots=True)
class _Parts:
    """The two models that one is: what `begin` takes, by the names that are `inside`, the
    `controls` among it, and what `follow` gives."""

    begin: str
    follow: str
    inputs: tuple[Tensor, ...]
    controls: tuple[Control, ...]
    inside: Mapping[str, str]
    outputs: tuple[Tensor, ...]


def call_decoupled(
    draft: Draft,
    subject: Subject,
    version: int,
    wanted_name: str,
    arguments: Mapping[str, str],
    wanted: Mapping[str, str],
) -> dict[str, str]:
    """Write what begins, and a loop around all that follows; return the outputs' expressions."""
    _refuse(subject)
    parts = _declare(draft, subject, version, wanted_name)
    responses, there = draft.names.fresh("responses"), draft.names.fresh("there")
    carried = draft.names.fresh("more")
    targets = {one.name: draft.names.fresh(wanted.get(one.name, one.name)) for one in parts.outputs}
    draft.lines.append(f"{responses} = {parts.begin}({_words(parts, arguments)})")
    left = ", ".join(targets[one.name] if one.name in wanted else "_" for one in parts.outputs)
    draft.open(
        f"loop ({carried}: bool = true) max {_MOST}",
        f"{there}, {left} = {parts.follow}({responses})",
        there,
        [f"next {carried} = {there}", f"stop when not {there}"],
    )
    given = {one.name: one for one in parts.outputs}
    return {name: reshaped(targets[name], given[name].inner, given[name].dims) for name in wanted}


def _refuse(subject: Subject) -> None:
    """Raise CompileError where a model cannot be two stages."""
    config = subject.config
    if config.backend != PYTHON:
        raise refuse(
            subject,
            f"`{subject.name}` answers any number of times, which `{config.backend}` does not",
            *("model_transaction_policy", "decoupled"),
            help="leave it out, or move the model to the Python backend",
        )
    if config.sequence_batching.state:
        raise refuse(
            subject,
            f"`{subject.name}` answers any number of times, and which of its answers gives a state "
            "is not said",
            *("sequence_batching", "state"),
            help="let the model keep it, by the id of the sequence",
        )


def _declare(draft: Draft, subject: Subject, version: int, wanted_name: str) -> _Parts:
    """Write the declarations of both models, and the settings of what begins."""
    config, place = subject.config, draft.around.locate(file_of(draft, subject, version))
    begin, follow = (draft.names.fresh(f"{wanted_name}_{part}") for part in ("open", "next"))
    draft.models[begin] = subject.name, str(version)  # it is executed once, whatever it gives
    batches = config.max_batch_size > 0
    controls = tuple(
        replace(one, tensor=_of_request(one.tensor, 1, batches=batches))
        for one in read_controls(subject, {})
    )
    inputs = (
        *(_of_request(tensor(one), -1, batches=batches) for one in config.input),
        *(one.tensor for one in controls),
    )
    outputs = tuple(_of_request(tensor(one), -1, batches=batches) for one in config.output)
    names, results = Names(), Names()
    inside = {one.name: names.fresh(one.name) for one in inputs}
    handle, more = results.fresh("handle"), results.fresh("more")
    takes = _listed(inputs, inside)
    given = [replace(one, dims=one.inner) for one in outputs]
    gives = _listed(given, {one.name: results.fresh(one.name) for one in outputs})
    kind = KINDS[config.backend]
    draft.items += [
        f"model {begin} = {kind} {write_string(place + ':open')} ({takes}) -> "
        f"({handle}: i64) batch none",
        f"model {follow} = {kind} {write_string(place + ':next')} ({handle}: i64) -> "
        f"({more}: bool, {gives}) batch none",
    ]
    draft.settings.stages[begin] = stage_settings(
        subject.model.message, config, draft.around.serving, batches=False, python=True
    )
    draft.settings.totals |= totals(config, draft.around.serving.resources or ())
    return _Parts(begin, follow, inputs, controls, inside, outputs)


def _words(parts: _Parts, arguments: Mapping[str, str]) -> str:
    """Return what begins is called with: by name where not all of it is given."""
    given = {**arguments, **{one.tensor.name: told(one) for one in parts.controls}}
    complete = all(one.name in given for one in parts.inputs)
    return ", ".join(
        given[one.name] if complete else f"{parts.inside[one.name]} = {given[one.name]}"
        for one in parts.inputs
        if one.name in given
    )


def _of_request(one: Tensor, rows: int, *, batches: bool) -> Tensor:
    """Return a tensor with the axis of the rows of a request, where it has one."""
    return replace(one, dims=(rows, *one.dims), inner=(rows, *one.inner)) if batches else one


def _listed(tensors: Sequence[Tensor], inside: Mapping[str, str]) -> str:
    return ", ".join(
        f"{renamed(one.name, inside[one.name])}: "
        + written(one.dtype, one.dims, optional=one.optional)
        for one in tensors
    )
