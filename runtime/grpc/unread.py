"""Answers that callers have not read yet, held to so many bytes in all.

A caller that asks and does not read, which HTTP/2 lets it do call by call, would have the server
keep each answer for as long as it likes. When there are too many bytes of them, the connection that
has waited longest to read one is closed, so that others have room, as silent connections of HTTP
are. Where that is the caller's own, it gets an error in place of its answer.

grpcio ends no call that it has an answer for, and closes no single connection; so this looks for
the socket among the files of the process (on Linux), and shuts it down.
"""

import asyncio
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from .call import CallError
from .status import Status

_LOG = logging.getLogger(__name__)
_FILES: Final = Path("/proc/self/fd")
_OVER_TCP: Final = (socket.AF_INET, socket.AF_INET6)
SMALL: Final = 1 << 12
"""Bytes of an answer up to which a call holds more beside it."""


class _Answer(NamedTuple):
    size: int
    peer: str


class Unread:
    """The answers of one event loop, by the tasks that send them."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._answers: dict[asyncio.Task[Any], _Answer] = {}  # Any: tasks are the carrier's

    def hold(self, context: Any, size: int) -> None:  # Any: as grpcio's stubs
        """Count an answer that the current task sends, until `read`, or until the task ends.

        Raises CallError where its own connection leaves too much unread.
        """
        if size <= SMALL:
            return
        task, peer = asyncio.current_task(), str(context.peer())
        assert task is not None
        while self._held + size > self._most and self._answers:
            oldest = next(iter(self._answers.values())).peer
            if oldest == peer or not _shut_down(oldest):
                raise CallError(
                    Status.RESOURCE_EXHAUSTED,
                    f"{self._held} bytes of answers wait to be read, the limit is {self._most}",
                )
            _LOG.info("%s reads no answers and is closed", oldest)
            for other in [one for one, answer in self._answers.items() if answer.peer == oldest]:
                self.read(other)
        self._answers[task] = _Answer(size, peer)
        self._held += size
        task.add_done_callback(self.read)

    def read(self, task: "asyncio.Task[Any] | None" = None) -> None:  # Any: as above
        """Note that what a task sends, the current one if none is given, has been read."""
        task = task or asyncio.current_task()
        if task is not None and (answer := self._answers.pop(task, None)) is not None:
            self._held -= answer.size
            task.remove_done_callback(self.read)


def _shut_down(peer: str) -> bool:
    """End the connection to a peer, as grpcio names it: `ipv4:1.2.3.4:5`, `ipv6:%5B::1%5D:5`; False
    where it cannot be found."""
    kind, _, address = unquote(peer).partition(":")
    name, _, number = address.rpartition(":")
    if not kind.startswith("ip") or not number.isdecimal() or not _FILES.exists():
        return False
    wanted = name.strip("[]"), int(number)
    for entry in [*_FILES.iterdir()]:  # they are more while they are looked at
        with suppress(OSError):
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as connection:
                if connection.family not in _OVER_TCP:
                    continue
                host, port, *_ = connection.getpeername()
                if (host.removeprefix("::ffff:"), port) == wanted:  # a socket may take both kinds
                    connection.shutdown(socket.SHUT_RDWR)
                    return True
    return False
