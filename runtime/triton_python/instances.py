"""Instances of a model in the engine's own process, in the place of a pool of workers."""

import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import cast

from ..isolation.pool import Holder
from ..request import Code
from ..stage import StageGone
from .asked import Run
from .inside import ModelInside


class Instances:
    """Calling it lets one that is free execute a run, once there is one. `close` ends them."""

    is_up = True

    def __init__(self, make: Callable[[int], ModelInside], count: int) -> None:
        """Make so many by their numbers; raises what one cannot be made for."""
        self.rehearses = False
        self._lock = threading.Lock()  # entered as such, which no function of Python's does
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self._busy: dict[ModelInside, Holder | None] = {}
        with ExitStack() as opened:
            self._free = [opened.enter_context(closing(make(i))) for i in range(count)]
            self._opened = opened.pop_all()

    def call(self, holder: Holder | None, *arguments: object) -> object:
        """Let one execute a run for a holder."""
        one = self._take(holder)
        try:
            one.call(cast("Run", arguments[0]))
        finally:
            with self._lock:
                del self._busy[one]
                self._free.append(one)
                if self._waiting:
                    self._changed.notify_all()
        return None

    def _take(self, holder: Holder | None) -> ModelInside:
        with self._lock:
            while True:
                if holder is not None and holder.closing:
                    raise StageGone(Code.UNAVAILABLE, "the engine was closed")
                if self._free:
                    # in turn where as many runs are to warm up all
                    one = self._free.pop(0 if self.rehearses else -1)
                    self._busy[one] = holder
                    return one
                self._waiting += 1
                self._changed.wait()
                self._waiting -= 1

    def wake(self) -> None:
        """Let whoever waits for one look whether he still wants it."""
        with self._changed:
            self._changed.notify_all()

    def kill(self, holder: Holder) -> None:
        """Let those that are at what a holder has asked wait for nothing; more cannot be done."""
        with self._changed:
            busy = [one for one, asks in self._busy.items() if asks is holder]
        for one in busy:
            one.interrupt()

    def close(self) -> None:
        """End them; nobody is asking."""
        self._opened.close()
