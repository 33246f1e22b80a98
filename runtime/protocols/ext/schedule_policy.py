"""Extension: a request's own time limit and priority."""

from typing import NamedTuple

from ..parameters import Parameters, whole

NAMES = ("schedule_policy",)


class Urgency(NamedTuple):
    """`timeout` is in seconds, None without limit; priority 1 is the highest, 0 the default."""

    timeout: float | None
    priority: int


def read_urgency(parameters: Parameters) -> Urgency:
    """Read `timeout` (microseconds, 0 is none) and `priority`."""
    microseconds = whole(parameters, "timeout")
    timeout = microseconds / 1e6 if microseconds else None
    return Urgency(timeout, whole(parameters, "priority") or 0)
