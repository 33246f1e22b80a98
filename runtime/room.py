"""The bytes of inputs that may be in flight: those of requests that workers have, and of those that
are run at once by the threads that receive them."""

import threading


class Room:
    """Room for `bound` bytes, of which so many are `held`. Any thread may take and give."""

    __slots__ = ("_bound", "_lock", "held")

    def __init__(self, bound: int) -> None:
        self.held = 0
        self._bound, self._lock = bound, threading.Lock()

    def take(self, size: int) -> bool:
        """Whether there is room for so many, which are held then; `give` must follow."""
        with self._lock:
            if self.held + size > self._bound:
                return False
            self.held += size
            return True

    def give(self, size: int) -> None:
        """Give back what was taken."""
        with self._lock:
            self.held -= size

    def too_large(self, size: int) -> bool:
        """Whether inputs are more than is ever taken in."""
        return size > self._bound
