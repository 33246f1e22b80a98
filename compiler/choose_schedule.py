"""Which schedule holds for each pipeline: the one asked for, the only one, or "default"."""

from collections.abc import Sequence

from ..dsl import ast
from ..dsl.diagnostic import Diagnostic, Label, Refusal
from ..dsl.nearest import nearest

DEFAULT = "default"  # also the name of a schedule without `on "..."`


class ScheduleError(Refusal):
    """The schedule that was asked for does not exist (HR409)."""


def schedule_name(schedule: ast.Schedule) -> str:
    return schedule.target.value if schedule.target is not None else DEFAULT


def check_schedules(
    schedules: Sequence[ast.Schedule], pipelines: Sequence[str]
) -> list[Diagnostic]:
    """Report schedules of pipelines that there are not, and two of one name for one pipeline."""
    diagnostics: list[Diagnostic] = []
    seen: dict[tuple[str, str], ast.Schedule] = {}
    for schedule in schedules:
        pipeline, name = schedule.pipeline, schedule_name(schedule)
        if pipeline.text not in pipelines:
            meant = nearest(pipeline.text, pipelines)
            diagnostics.append(
                Diagnostic(
                    "HR416",
                    f"there is no pipeline `{pipeline.text}` to schedule",
                    Label(pipeline.span),
                    help=f"did you mean `{meant}`?" if meant else None,
                )
            )
        first = seen.setdefault((pipeline.text, name), schedule)
        if first is not schedule:
            diagnostics.append(
                Diagnostic(
                    "HR417",
                    f"`{pipeline.text}` has two schedules named {name!r}",
                    Label((schedule.target or pipeline).span, "again here"),
                    (Label((first.target or first.pipeline).span, "first here"),),
                )
            )
    return diagnostics


def choose_schedule(
    schedules: Sequence[ast.Schedule], pipeline: str, wanted: str | None
) -> ast.Schedule | Diagnostic | None:
    """Return the schedule of one pipeline, None when it runs by defaults, or why it is unclear.

    With `wanted`, a pipeline that has no schedule of that name runs by defaults.
    """
    own = {schedule_name(s): s for s in schedules if s.pipeline.text == pipeline}
    if wanted is not None:
        return own.get(wanted)
    if len(own) <= 1:
        return next(iter(own.values()), None)
    if DEFAULT in own:
        return own[DEFAULT]
    first, *others = own.values()
    return Diagnostic(
        "HR409",
        f"`{pipeline}` has {len(own)} schedules and none is named {DEFAULT!r}",
        Label((first.target or first.pipeline).span),
        tuple(Label((other.target or other.pipeline).span) for other in others),
        notes=(f"choose one of {', '.join(sorted(own))}",),
        help=f"compile with `--schedule {min(own)}`",
    )


def check_wanted(schedules: Sequence[ast.Schedule], wanted: str | None) -> None:
    """Raise ScheduleError when no pipeline has a schedule of the name that was asked for."""
    names = sorted({schedule_name(schedule) for schedule in schedules})
    if wanted is None or wanted in names:
        return
    meant = nearest(wanted, names)
    there = f"there are {', '.join(names)}" if names else "the file has none"
    raise ScheduleError(
        "HR409",
        f"there is no schedule {wanted!r}; {there}",
        f"did you mean `--schedule {meant}`?" if meant else None,
    )
