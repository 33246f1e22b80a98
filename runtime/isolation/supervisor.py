"""When a worker that has died is started again, and who waits for it. Decisions; no clock.

The first start after it has served well is at once; when it dies again before it has, each start
waits twice as long as the one before, up to half a minute.
"""

from dataclasses import dataclass, replace
from typing import Final

SETTLED: Final = 10.0
ANSWERS: Final = 100
"""After so many seconds of service, or answers, a worker has served well, and what was before is
forgotten: a function that crashes once in many calls is not kept down for it."""

PATIENCE: Final = 2.0
"""A call waits so many seconds at most for a worker that is down."""

_FIRST, _LONGEST = 0.1, 30.0


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a worker. `deaths` are those in a row; `due` is when it is to be started
    or was, None while it serves; `since` is when it began to serve; `takes` how long its last
    start took."""

    deaths: int = 0
    due: float | None = 0.0
    since: float = 0.0
    takes: float = 0.0


def started(standing: Standing, now: float) -> Standing:
    """Note that a worker is being started."""
    return replace(standing, due=now)


def served(standing: Standing, now: float) -> Standing:
    """Note that a worker can be asked."""
    takes = 0.0 if standing.due is None else now - standing.due
    return replace(standing, due=None, since=now, takes=takes)


def died(standing: Standing, now: float, answers: int = 0) -> Standing:
    """Note that a worker has ended after so many answers, or could not be started; `due` says
    when it is to be."""
    long = now - standing.since >= SETTLED
    well = standing.due is None and (long or answers >= ANSWERS)
    deaths = 1 if well else standing.deaths + 1
    return replace(standing, deaths=deaths, due=now + delay(deaths))


def delay(deaths: int) -> float:
    """Return how long the start after so many deaths in a row waits."""
    return 0.0 if deaths <= 1 else min(_LONGEST, _FIRST * 2.0 ** min(deaths - 2, 16))


def expected(standing: Standing, now: float) -> float:
    """Return when a worker is likely to serve, if not yet."""
    return now if standing.due is None else max(now, standing.due + standing.takes)
