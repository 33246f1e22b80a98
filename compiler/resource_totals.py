"""How much there is of the resources that schedules name: of all pipelines together."""

from collections.abc import Sequence

from ..dsl import ast
from ..dsl.diagnostic import CompileError, Diagnostic, Label
from ..dsl.source import Span
from .graph import Settings


def total_resources(
    schedules: Sequence[tuple[ast.Schedule, Settings]],
) -> tuple[tuple[str, int], ...]:
    """Return the totals that the schedules give; raises CompileError where two give different ones,
    or where a stage of one takes more than another leaves."""
    totals: dict[str, tuple[int, Span]] = {}
    mistakes: list[Diagnostic] = []
    for schedule, settings in schedules:
        for name, total in settings.resources:
            span = _span(schedule, None, name)
            first, before = totals.setdefault(name, (total, span))
            if total != first:
                message = f"there is {total} `{name}` here and {first} in another schedule"
                other = Label(before, f"{first} here")
                mistakes.append(Diagnostic("HR406", message, Label(span, "it is one"), (other,)))
    for schedule, settings in schedules:
        for stage, one in settings.stages:
            for name, taken in one.service.resources:
                total, span = totals.get(name, (taken, None))
                if taken > total and span is not None and name not in dict(settings.resources):
                    message = f"`{stage}` takes {taken} `{name}`, and there is {total}"
                    label = Label(_span(schedule, stage, name), "it could never run")
                    mistakes.append(
                        Diagnostic("HR406", message, label, (Label(span, f"{total} here"),))
                    )
    if mistakes:
        raise CompileError(mistakes)
    return tuple(sorted((name, total) for name, (total, _) in totals.items()))


def _span(schedule: ast.Schedule, stage: str | None, name: str) -> Span:
    """Return where a schedule says how much there is of a resource, or a stage takes."""
    settings = schedule.settings
    path = ("resources", name) if stage is None else (stage, "resources", name)
    found: ast.Setting | None = None
    for key in path:
        found = next(setting for setting in settings if setting.key.text == key)
        settings = found.settings or ()
    return found.span if found is not None else schedule.span
