"""Members with several answers to a request: each answer goes on alone and meets no other's."""

from collections.abc import Iterator

from ...dsl.diagnostic import Diagnostic
from ..ensemble import Step, is_decoupled, steps
from ..subject import Subject

_CODE = "HR628"


def check(subject: Subject) -> Iterator[Diagnostic]:
    """Follow each tensor back to the last decoupled step that it comes from."""
    if not subject.is_ensemble:
        return
    origin: dict[str, int | None] = {one.name: None for one in subject.config.input}
    waiting = list(steps(subject))
    while ready := [one for one in waiting if set(one.config.input_map.values()) <= origin.keys()]:
        for step in ready:
            waiting.remove(step)
            origins = {origin[name] for name in step.config.input_map.values()}
            if len(origins) > 1:
                yield _mixed(subject, step, origin)
            came = step.number if is_decoupled(step.model) else next(iter(origins), None)
            origin |= dict.fromkeys(step.config.output_map.values(), came)
    yield from _mixed_outputs(subject, origin)


def _mixed_outputs(subject: Subject, origin: dict[str, int | None]) -> Iterator[Diagnostic]:
    """Yield what is wrong where the answers of several decoupled steps would be one."""
    first: tuple[str, int] | None = None
    for number, one in enumerate(subject.config.output):
        came = origin.get(one.name)
        if came is None:
            continue
        first = first or (one.name, came)
        if came != first[1]:
            yield subject.error(
                _CODE,
                f"`{first[0]}` and `{one.name}` do not come as often as each other",
                *("output", number, "name"),
                help="give outputs of one decoupled model, or of what follows it",
            )


def _mixed(subject: Subject, step: Step, origin: dict[str, int | None]) -> Diagnostic:
    made = subject.config.ensemble_scheduling.step
    parts = [
        f"`{name}` comes "
        + ("with the request" if (by := origin[name]) is None else f"from `{made[by].model_name}`")
        for _, name in sorted(step.config.input_map.items())
    ]
    return subject.error(
        _CODE,
        f"`{step.model.name}` waits for tensors that do not come as often as each other",
        *step.path,
        "model_name",
        notes=("; ".join(parts),),
        help="lead what this step needs through the decoupled model",
    )
