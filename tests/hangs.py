"""End a run in which a test hangs, and show where each of its threads is.

pytest's `faulthandler_timeout` starts a thread for each test and waits for it to end: 14 ms of
every test where the machine has other work. Here one is started anew only when a tenth of the time
is over, so that a test has nine tenths of it at least.
"""

import faulthandler
import os
import sys
import time
from collections.abc import Generator

import pytest

SECONDS = 600.0


class Watchdog:
    """A plugin that ends the process when no test has begun for so long."""

    def __init__(self) -> None:
        assert sys.__stderr__ is not None
        self._stderr = os.dup(sys.__stderr__.fileno())  # a test's own is captured
        self._since: float | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        now = time.monotonic()
        if self._since is None or now - self._since > SECONDS / 10:
            faulthandler.dump_traceback_later(SECONDS, file=self._stderr, exit=True)
            self._since = now
        return (yield)

    def pytest_exception_interact(self) -> None:
        """Watch anew from the next test on: pytest has called it off."""
        self._since = None

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        os.close(self._stderr)
