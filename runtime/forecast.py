"""How long what is left of a request will take, by what it took others lately.

Two figures for two questions. Whether something cannot finish any more is asked of the *least*: no
request is given up that might have been in time, if it were as quick as the quickest. When
something had better begin, and how long a line takes to move, is asked of the *mean*.

The least is that of the last 64 to 128 that were seen: a minimum over a sliding window, in two
halves, as TCP BBR keeps the round-trip time of a path (Cardwell et al., "BBR", ACM Queue 14(5),
2016). A mean of all would drop half of what is just in time, and a least of ever would keep what
was true of an empty machine or a small input. Neither is told before some were seen, for the first
are often slow. A figure of which nothing new is seen because all is given up on account of it is
forgotten after a few times, so that the next one tries again.
"""

from collections.abc import Mapping
from typing import Final

START: Final = -1
"""Where a request is before the first stage that it waits for."""

_HALF = 64
_ENOUGH = 8
_DOUBTS = 16
_WEIGHT = 1 / 32


class Recent:
    """`least` and `mean` of a time that was seen again and again; None before the eighth."""

    __slots__ = ("_doubts", "_former", "_latter", "_mean", "_seen")

    def __init__(self) -> None:
        self._forget()

    @property
    def mean(self) -> float | None:
        return None if self._seen < _ENOUGH else self._mean

    @property
    def least(self) -> float | None:
        if self._seen < _ENOUGH:
            return None
        if self._former is None or (self._latter is not None and self._latter < self._former):
            return self._latter
        return self._former

    def see(self, seconds: float) -> None:
        """Take one more into account."""
        self._doubts = 0
        if self._seen % _HALF == 0:
            self._former, self._latter = self._latter, None
        self._seen += 1
        if self._latter is None or seconds < self._latter:
            self._latter = seconds
        self._mean += (seconds - self._mean) * max(_WEIGHT, 1 / self._seen)

    def doubt(self) -> None:
        """Note that something was given up because of this."""
        self._doubts += 1
        if self._doubts >= _DOUBTS:
            self._forget()

    def _forget(self) -> None:
        self._mean = 0.0
        self._former: float | None = None
        self._latter: float | None = None
        self._seen = self._doubts = 0


class Forecast:
    """Of one pipeline: the seconds from where a request is until its answer.

    It is at the stage for which it waits, or at `START`. With more than one way from there to the
    end the least is that of the shortest, and of several turns that of the last.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: dict[int, Recent] = {}

    def least(self, at: int) -> float:
        """What it takes at least from there, once it goes on; 0 when nothing is known."""
        recent = self._left.get(at)
        return 0.0 if recent is None else recent.least or 0.0

    def mean(self, at: int) -> float:
        """What it takes from there, once it goes on; 0 when nothing is known."""
        recent = self._left.get(at)
        return 0.0 if recent is None else recent.mean or 0.0

    def answered(self, begun: Mapping[int, float], now: float) -> None:
        """Note that a request has its answer, which has gone on from each place when it says."""
        for at, since in begun.items():
            if at not in self._left:
                self._left[at] = Recent()
            self._left[at].see(now - since)

    def doubt(self, at: int) -> None:
        """Note that a request was given up there because of the least."""
        if (recent := self._left.get(at)) is not None:
            recent.doubt()
