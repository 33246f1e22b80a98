"""A request from its first attempt to its answer: time, retries, and how another thread ends it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from ..runtime.request import Code, Fault
from .retry import Budget, Timing
from .wire import Cancellation, Failed, cancelled, late

Result = TypeVar("Result")


def attempted(
    attempt: Callable[[float | None], Result],
    address: str,
    budget: Budget,
    timing: Timing,
    due: float | None,
    cancellation: Cancellation | None,
) -> Result:
    """Return what `attempt` gives, which takes the seconds that are left; raises Fault.

    What may be sent again is, as long as there is time, before `due` on the clock.
    """
    retry = 0
    budget.begin()
    while True:
        try:
            result = attempt(left(address, due, timing))
        except Failed as failed:
            retry += 1
            wait = budget.wait_before(retry, failed, timing.draw())
            if wait is None or (due is not None and timing.now() + wait >= due):
                raise failed.fault from failed.__cause__
            timing.wait(threading.Event() if cancellation is None else cancellation.asked, wait)
            if cancellation is not None and cancellation.asked.is_set():
                raise cancelled().fault from None
            budget.sent_again()
        else:
            budget.succeed()
            return result


def left(address: str, due: float | None, timing: Timing) -> float | None:
    """Return the seconds until `due`; Failed when there are none."""
    if due is None:
        return None
    seconds = due - timing.now()
    if seconds <= 0:
        raise late(address)
    return seconds


class Promise(Future[Result]):
    """The future of a request: cancelling works until the answer is there, at the server too."""

    def __init__(self) -> None:
        super().__init__()
        self.cancellation = Cancellation()

    def cancel(self) -> bool:
        was_cancelled = super().cancel()
        if was_cancelled:
            self.cancellation.cancel()
        return was_cancelled

    def keep(self, make: Callable[[], Result]) -> None:
        """Become what `make` gives or raises, unless it was cancelled."""
        if self.cancelled():
            self.set_running_or_notify_cancel()
            return
        try:
            result = make()
        except BaseException as error:
            if self.set_running_or_notify_cancel():
                self.set_exception(error)
        else:
            if self.set_running_or_notify_cancel():
                self.set_result(result)

    def refuse(self, fault: Fault) -> None:
        """Become a fault, unless it was cancelled."""
        if self.set_running_or_notify_cancel():
            self.set_exception(fault)


def closed() -> Fault:
    """Return the fault of a request to a client that was closed."""
    return Fault(Code.UNAVAILABLE, "the client is closed")
