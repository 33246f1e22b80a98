"""When a request that has failed is sent again.

Only where nothing of it was done: it did not reach the server, or the server has refused it before
it began, as with a full queue. Waits grow and are drawn at random, so that clients do not come back
all at once; what a server asks for is waited for besides.

That retries do not make an overload worse is the task of the budget, which is that of gRPC's retry
throttling (gRFC A6, "Throttling Retry Attempts and Hedged RPCs"): each failure costs a token, each
success gives back a part of one, and nothing is sent again while half of them or fewer are left.
Whatever servers do, there is then at most one retry for `1 / ratio` answers in the long run.
"""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from .wire import Failed


@dataclass(frozen=True, slots=True)
class Retries:
    """`attempts` counts the first one. Before the n-th retry there is a wait from 0 to the lesser
    of `first * growth ** (n - 1)` and `longest`, in seconds. `tokens` is the budget of a client,
    and `ratio` what a success gives back of it."""

    attempts: int = 4
    first: float = 0.1
    growth: float = 2.0
    longest: float = 2.0
    tokens: float = 10.0
    ratio: float = 0.1

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first < 0 or self.growth < 1 or self.longest < 0:
            raise ValueError(
                f"{self} makes no sense: at least 1 attempt, waits from 0, growth from 1"
            )
        if self.tokens <= 0 or not 0 < self.ratio <= 1:
            raise ValueError(f"{self} makes no sense: tokens above 0, ratio above 0 and up to 1")

    def wait(self, retry: int, drawn: float) -> float:
        """Return the wait before a retry, from 1, for a number drawn from 0 to 1."""
        return drawn * min(self.first * self.growth ** (retry - 1), self.longest)


NEVER = Retries(attempts=1)


class Counts(NamedTuple):
    """What a client has done: requests, those that were sent again (each time), and those that were
    not because the budget was used up."""

    requests: int = 0
    retries: int = 0
    throttled: int = 0


class Timing(NamedTuple):
    """The clock, the wait and the chance of a client. `wait` waits for an event, at most so many
    seconds."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[threading.Event, float], object] = threading.Event.wait
    draw: Callable[[], float] = random.random


class Budget:
    """What a client may still send again; requests of all its threads share it."""

    def __init__(self, retries: Retries) -> None:
        self._retries, self._tokens = retries, retries.tokens
        self._lock = threading.Lock()
        self._counts = Counts()

    @property
    def counts(self) -> Counts:
        """What has happened so far."""
        return self._counts

    def begin(self) -> None:
        """Count a request."""
        with self._lock:
            self._counts = self._counts._replace(requests=self._counts.requests + 1)

    def succeed(self) -> None:
        """Note an answer."""
        retries = self._retries
        with self._lock:
            self._tokens = min(retries.tokens, self._tokens + retries.ratio)

    def wait_before(self, retry: int, failed: Failed, drawn: float) -> float | None:
        """Return how long to wait before a request is sent again; None where it is not."""
        if not failed.untouched:
            return None
        retries = self._retries
        with self._lock:
            self._tokens = max(0.0, self._tokens - 1)
            if retry >= retries.attempts:
                return None
            if self._tokens <= retries.tokens / 2:
                self._counts = self._counts._replace(throttled=self._counts.throttled + 1)
                return None
        return retries.wait(retry, drawn) + (failed.fault.retry_after or 0.0)

    def sent_again(self) -> None:
        """Count a retry."""
        with self._lock:
            self._counts = self._counts._replace(retries=self._counts.retries + 1)
