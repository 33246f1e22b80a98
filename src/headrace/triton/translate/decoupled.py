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
from dataclasses import replace

from ...dsl.literals import write_string
from ..complete import PYTHON
from ..subject import Subject
from .draft import Draft, refuse
from .names import Names, renamed
from .schedule import stage_settings
from .sequences import read_controls, told
from .stages import KINDS, file_of
from .tensors import Tensor, tensor, written

_MOST = "1_000_000_000"  # answers to one request


def is_decoupled(subject: Subject) -> bool:
    return subject.config.model_transaction_policy.decoupled


def call_decoupled(
    draft: Draft,
    subject: Subject,
    version: int,
    wanted_name: str,
    arguments: Mapping[str, str],
    wanted: Mapping[str, str],
) -> dict[str, str]:
    """Write what begins, and a loop around all that follows; return the outputs' expressions."""
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
    place = draft.around.locate(file_of(draft, subject, version))
    begin, follow = (draft.names.fresh(f"{wanted_name}_{part}") for part in ("open", "next"))
    batches = config.max_batch_size > 0
    inputs = [_of_request(tensor(one), -1, batches=batches) for one in config.input]
    outputs = [_of_request(tensor(one), -1, batches=batches) for one in config.output]
    controls = [
        replace(one, tensor=_of_request(one.tensor, 1, batches=batches))
        for one in read_controls(subject, {})
    ]
    inputs += [one.tensor for one in controls]
    arguments = {**arguments, **{one.tensor.name: told(one) for one in controls}}
    names, given = Names(), Names()
    inside = {one.name: names.fresh(one.name) for one in inputs}
    handle, more = given.fresh("handle"), given.fresh("more")
    results = {one.name: given.fresh(one.name) for one in outputs}
    kind, takes, gives = KINDS[config.backend], _listed(inputs, inside), _listed(outputs, results)
    draft.items += [
        f"model {begin} = {kind} {write_string(place + ':open')} ({takes}) -> "
        f"({handle}: i64) batch none",
        f"model {follow} = {kind} {write_string(place + ':next')} ({handle}: i64) -> "
        f"({more}: bool, {gives}) batch none",
    ]
    draft.settings.stages[begin] = stage_settings(
        subject.model.message, config, draft.around.serving, batches=False, python=True
    )
    responses, there = draft.names.fresh("responses"), draft.names.fresh("there")
    carried = draft.names.fresh("more")
    targets = {one.name: draft.names.fresh(wanted.get(one.name, one.name)) for one in outputs}
    complete = all(one.name in arguments for one in inputs)
    words = [
        arguments[one.name] if complete else f"{inside[one.name]} = {arguments[one.name]}"
        for one in inputs
        if one.name in arguments
    ]
    draft.lines.append(f"{responses} = {begin}({', '.join(words)})")
    left = ", ".join(targets[one.name] if one.name in wanted else "_" for one in outputs)
    draft.open(
        f"loop ({carried}: bool = true) max {_MOST}",
        f"{there}, {left} = {follow}({responses})",
        there,
        [f"next {carried} = {there}", f"stop when not {there}"],
    )
    return {name: targets[name] for name in wanted}


def _of_request(one: Tensor, rows: int, *, batches: bool) -> Tensor:
    """Return a tensor with the axis of the rows of a request, where it has one."""
    return replace(one, dims=(rows, *one.dims)) if batches else one


def _listed(tensors: Sequence[Tensor], inside: Mapping[str, str]) -> str:
    return ", ".join(
        f"{renamed(one.name, inside[one.name])}: "
        + written(one.dtype, one.dims, optional=one.optional)
        for one in tensors
    )
