"""Versions on their way out: each ends what it has begun, is closed, and leaves its counts.

no sequence begins there ─▶ those that live end ─▶ no route ─▶ no request inside ─▶ closed

Its memory goes back to the system then (`heap.py`).
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace

from ..engine import Engine
from .counts import NOTHING, Counted, Totals, closed, total
from .heap import give_back
from .version import Version


class Drains:
    """A thread for each version that drains. `ended` is called when no sequence lives on one any
    more, so that no route need lead there."""

    def __init__(self, ended: Callable[[], None]) -> None:
        self._ended = ended
        self._lock = threading.Lock()
        self._versions: list[Version] = []
        self._counted = NOTHING
        self._threads: set[threading.Thread] = set()

    @property
    def versions(self) -> Sequence[Version]:
        """Those that are not closed."""
        with self._lock:
            return tuple(self._versions)

    def begin(self, version: Version) -> None:
        """Let a version drain, to which no route leads but those of its sequences."""
        version.draining = True
        name = f"headrace-drain-{version.app}"
        thread = threading.Thread(target=self._drain, args=([version],), name=name, daemon=True)
        with self._lock:
            self._versions.append(version)
            self._threads.add(thread)
        thread.start()

    def totals(self, live: Iterable[Version]) -> Totals:
        """Return what these, those that drain and those that are closed have counted."""
        with self._lock:
            versions = [*live, *self._versions]
            return total(map(_counted, versions), self._counted)

    def close(self) -> None:
        """Let sequences not be waited for, and return when all that drains is closed."""
        with self._lock:
            versions, threads = list(self._versions), list(self._threads)
        for version in versions:
            for sequences in version.sequences:
                sequences.close()
        for thread in threads:
            thread.join()

    def _drain(self, going: list[Version]) -> None:
        """Let go of the one version in the list: a thread holds its arguments until it ends, and
        sessions are freed with the last who holds them."""
        done = self._let_go(going.pop())
        give_back()
        with self._lock:
            self._threads.discard(threading.current_thread())
        done.set_result(None)

    def _let_go(self, version: Version) -> "Future[None]":
        for sequences in version.sequences:
            sequences.retire()
        for sequences in version.sequences:
            sequences.wait_until_empty()
        version.ended = True
        self._ended()
        for shadow in version.shadows.values():
            shadow.close()
        version.engine.drain()
        with self._lock:
            self._versions.remove(version)
            counts = _counted(version)
            rest = replace(counts, snapshot=closed(counts.snapshot))
            self._counted = total([rest], self._counted)
        if version.owned:
            version.engine.close()
        return version.closed


def _counted(version: Version) -> Counted:
    number = str(version.number)
    return Counted(version.engine.metrics, version.app, number, version.attributions)


def drained(engines: Sequence[Engine], timeout: float | None, clock: Callable[[], float]) -> bool:
    """Let no engine take requests, and wait for those under way; False if they took longer."""
    until = None if timeout is None else clock() + timeout
    ended = [engine.drain(0.0) for engine in engines]  # all at once, and then wait
    for index, engine in enumerate(engines):
        if not ended[index]:
            ended[index] = engine.drain(None if until is None else max(0.0, until - clock()))
    return all(ended)
