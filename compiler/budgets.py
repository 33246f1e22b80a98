"""Memory budgets of a schedule against what a pipeline needs."""

from collections.abc import Sequence

from ..dsl import ast
from ..dsl.diagnostic import CompileError, Diagnostic, Label, Severity
from .plan import MemoryPlan
from .schedule_values import device_key


def check_budgets(schedule: ast.Schedule, memory: Sequence[MemoryPlan]) -> list[Diagnostic]:
    """Raise CompileError for every device that is over its budget; return warnings."""
    entries = next((s.settings for s in schedule.settings if s.key.text == "memory"), None) or ()
    budgets = {device_key(entry.key): entry for entry in entries}
    over: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    for one in memory:
        if one.budget is None:
            continue
        span = budgets[one.device].span
        if one.peak > one.budget:
            bound = f"no layout can be under {one.lower_bound:,} bytes"
            over.append(
                Diagnostic(
                    "HR421",
                    f"`{one.pipeline}` needs {one.peak:,} bytes on {one.device}, and its budget is"
                    f" {one.budget:,}",
                    Label(span, f"{one.peak - one.budget:,} bytes too few"),
                    notes=(bound,),
                )
            )
        elif one.unplanned:
            listed = ", ".join(f"`{name}`" for name in one.unplanned)
            warnings.append(
                Diagnostic(
                    "HR422",
                    "the budget does not cover values whose size is known only when they are made",
                    Label(span),
                    notes=(f"on {one.device}: {listed}",),
                    severity=Severity.WARNING,
                )
            )
    if over:
        raise CompileError(over)
    return warnings
