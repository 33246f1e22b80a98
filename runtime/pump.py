"""A thread for what is to be done behind who asks for it."""

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Pump:
    """A thread, once there is something for it, that does what it is handed, one after the other:
    who hands it over may hold a lock, and must not wait."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[], None]) -> None:
        """Let something be done there, behind all that was handed over before."""
        self._queue.put(work)
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def close(self) -> None:
        self._queue.put(None)
        with self._starting:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            work()
            del work  # a thread that waits holds on to no one's values
