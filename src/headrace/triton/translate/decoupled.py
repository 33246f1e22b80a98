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

from collections.abc import Mapping

from ...dsl.literals import write_string
from ..subject import Subject
from .draft import Draft, refuse
from .names import Names, renamed
from .schedule import stage_settings
from .stages import KINDS, file_of
from .tensors import tensor, written

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
    if config.backend != "python" or config.HasField("sequence_batching"):
        raise refuse(
            subject,
            f"`{subject.name}` answers any number of times, which "
            + (
                f"`{config.backend}` does not"
                if config.backend != "python"
                else "is not served together with sequences"
            ),
            *("model_transaction_policy", "decoupled"),
            help="leave it out, or move the model to the Python backend"
            if config.backend != "python"
            else "leave out `sequence_batching`: the model is told the id of the sequence anyway",
        )
    front = (-1,) if config.max_batch_size > 0 else ()
    place = draft.around.locate(file_of(draft, subject, version))
    begin, follow = (draft.names.fresh(f"{wanted_name}_{part}") for part in ("open", "next"))
    inputs, outputs = list(map(tensor, config.input)), list(map(tensor, config.output))
    names, given = Names(), Names()
    inside = {one.name: names.fresh(one.name) for one in inputs}
    handle, more = given.fresh("handle"), given.fresh("more")
    results = {one.name: given.fresh(one.name) for one in outputs}
    params = ", ".join(
        f"{renamed(one.name, inside[one.name])}: "
        + written(one.dtype, (*front, *one.dims), optional=one.optional)
        for one in inputs
    )
    gives = ", ".join(
        f"{renamed(one.name, results[one.name])}: {written(one.dtype, (*front, *one.dims))}"
        for one in outputs
    )
    kind = KINDS[config.backend]
    draft.items += [
        f"model {begin} = {kind} {write_string(place + ':open')} ({params}) -> "
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
