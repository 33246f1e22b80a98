"""Child processes that are to go on: each has a thread that starts it, and starts it anew."""

import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from socket import socketpair
from typing import Final

from ..runtime.isolation.supervisor import Standing, died, served, started

_LATE: Final = 15.0
"""Seconds over its grace that a child has to end before it is killed."""

_READ: Final = 1 << 12


class Children:
    """`start` and then `stop`, or `kill`. `told` is what the first child has printed."""

    def __init__(
        self, count: int, command: Callable[[int, int], list[str]], say: Callable[[str], None]
    ) -> None:
        """`command` is that of a child by its number and its end of a socket, on which it writes
        what it prints, and a zero byte when it serves. `say` is told of children that end."""
        self._count, self._command, self._say = count, command, say
        self._changed = threading.Condition()
        self._running: dict[int, _Child] = {}
        self._keepers: list[threading.Thread] = []
        self._up: set[int] = set()
        self._failed: tuple[int, int | None] | None = None
        self._closing, self._well = False, True
        self.told = ""

    def start(self) -> tuple[int, int | None] | None:
        """Start the first, and when it serves the others; return when all do. Where one ends before
        it does: its number, and its status, None where there was no process."""
        for some in (range(1), range(1, self._count)):
            for number in some:
                keeper = threading.Thread(
                    target=self._keep, args=(number,), name=f"headrace-process-{number}"
                )
                keeper.start()
                self._keepers.append(keeper)
            with self._changed:
                self._changed.wait_for(lambda: self._failed or len(self._up) == len(self._keepers))
                if self._failed is not None:
                    return self._failed
        return None

    @property
    def serve(self) -> bool:
        """Whether all have come to serve."""
        return len(self._up) == self._count

    def stop(self, grace: float) -> bool:
        """Let all end what they have begun; False where one did not, or ended otherwise."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            for child in self._running.values():
                child.stop()
        until = time.monotonic() + grace + _LATE
        for keeper in self._keepers:
            keeper.join(max(0.0, until - time.monotonic()))
        return self._well and not any(keeper.is_alive() for keeper in self._keepers)

    def kill(self) -> None:
        """End all at once, and start none anew."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
            for child in self._running.values():
                child.process.kill()

    def _keep(self, number: int) -> None:
        standing = Standing()
        while True:
            standing = started(standing, time.monotonic())
            child, status = self._started(number), None
            if child is not None:
                if child.serves():
                    standing = served(standing, time.monotonic())
                    self._serves(number, child)
                status = child.process.wait()
            standing = died(standing, time.monotonic())
            with self._changed:
                self._ended(number, status)
                due = standing.due or 0.0
                if self._failed or self._closing:
                    return
                wait = max(0.0, due - time.monotonic())
                soon = "now" if wait < 0.05 else f"in {wait:.1f} s"
                self._say(f"process {number} {_how(status)}, and is started again {soon}")
                if self._changed.wait_for(lambda: self._closing, wait):
                    return

    def _started(self, number: int) -> "_Child | None":
        with self._changed:
            if self._closing:
                return None
            try:
                child = _Child(number, self._command)
            except OSError:
                return None
            self._running[number] = child
            return child

    def _serves(self, number: int, child: "_Child") -> None:
        with self._changed:
            self.told = self.told or child.told
            self._up.add(number)
            self._changed.notify_all()
            if self._closing:
                child.stop()

    def _ended(self, number: int, status: int | None) -> None:
        """Note the end of a child. The condition is held."""
        child = self._running.pop(number, None)
        if child is not None:
            child.close()
            if self._closing and child.is_up:
                self._well = self._well and status == 0
        if number not in self._up and self._failed is None:
            self._failed = number, status
            self._changed.notify_all()


class _Child:
    """A process and our end of its socket; `is_up` once it serves."""

    def __init__(self, number: int, command: Callable[[int, int], list[str]]) -> None:
        """Start it; raises OSError."""
        self._link, theirs = socketpair()
        with theirs:
            try:
                self.process = subprocess.Popen(
                    command(number, theirs.fileno()),
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except BaseException:
                self._link.close()
                raise
        self.told, self.is_up = "", False

    def serves(self) -> bool:
        """Return True when it serves, False when it has ended before."""
        content = bytearray()
        with suppress(OSError):
            while part := self._link.recv(_READ):
                content += part
                if content.endswith(b"\0"):
                    self.told, self.is_up = content[:-1].decode().rstrip("\n"), True
                    return True
        return False

    def stop(self) -> None:
        """Let it end what it has begun; one that has begun nothing ends at once."""
        if not self.is_up:
            self.process.kill()
            return
        with suppress(OSError):  # it has ended
            self._link.sendall(b"\0")

    def close(self) -> None:
        self._link.close()


def _how(status: int | None) -> str:
    if status is None:
        return "could not be started"
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
