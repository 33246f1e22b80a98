"""Whether a new request is taken in: room for its inputs, and time enough until its deadline.

A line moves at the rate at which requests have left it lately, whatever holds them up: the time
that the first of a line waits to be started is seen once for each, and its mean, times those that
are ahead, is what a new one will wait. So nothing need be known of workers, instances and batches.
One that finds nobody ahead is not refused for its time: it goes to show how fast the line moves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from .forecast import START, Forecast, Recent

_MARGIN: Final = 1.25
"""A mean is exceeded half of the time, and who is refused costs nothing, who is late his work. As
long as the line does not run dry nothing is lost by keeping it a little shorter."""


FULL: Final = "the inputs of requests under way fill the memory set aside"


@dataclass(frozen=True, slots=True)
class Intake:
    """How much is taken in. `queue_size` bounds the requests of a pipeline that wait to start,
    where its schedule says nothing; `bytes_in_flight` the inputs of all that have no answer yet;
    `predict` says whether what cannot be in time is refused, or dropped before it runs."""

    queue_size: int = 1024
    bytes_in_flight: int = 1 << 30
    predict: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not taken in, and after how many seconds it had better come again; None
    where that is not known."""

    reason: str
    retry_after: float | None


class Admission:
    """What one engine promises. `forecasts` are the pipelines', in their order, None where nothing
    is predicted."""

    __slots__ = ("_forecasts", "_moves")

    def __init__(self, forecasts: Sequence[Forecast | None]) -> None:
        self._forecasts = forecasts
        self._moves = [Recent() for _ in forecasts]

    def started(self, pipeline: int, waited: float) -> None:
        """Note that one has left its line, having been the first there for so long."""
        self._moves[pipeline].see(waited)

    def wait(self, pipeline: int, ahead: int) -> float | None:
        """Return how long one waits behind so many; None when that is not known."""
        if ahead == 0:
            return 0.0
        mean = self._moves[pipeline].mean
        return None if mean is None else ahead * mean

    def full(self, pipeline: int, ahead: int) -> Refusal:
        """Return why a request is not taken in for which there is no room."""
        wait, forecast = self.wait(pipeline, ahead), self._forecasts[pipeline]
        service = 0.0 if forecast is None else forecast.mean(START)
        return Refusal(FULL, (wait or 0.0) + service or None)

    def refuses(self, pipeline: int, ahead: int, left: float | None) -> Refusal | None:
        """Return why there is no time for a request; None when there is. `ahead` are those that
        wait and go first, `left` the seconds until its deadline."""
        wait, forecast = self.wait(pipeline, ahead), self._forecasts[pipeline]
        if left is None or ahead == 0 or wait is None or forecast is None:
            return None
        seconds = _MARGIN * (wait + forecast.mean(START))
        if seconds <= left:
            return None
        forecast.doubt(START)
        return Refusal(
            f"it may take {seconds:.3g} s, and its deadline is in {left:.3g} s", seconds - left
        )
