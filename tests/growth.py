"""How much longer something takes when there is more of it.

A ratio, each side at its quickest and turn by turn, so that neither the machine nor what else it
does is measured. Ask of 8 times as much: what grows with its square takes 64 times as long.
"""

from collections.abc import Callable
from time import thread_time


def times_as_long(large: Callable[[], object], small: Callable[[], object]) -> float:
    """Return how many times as long `large` takes as `small`."""
    pairs = [(_seconds(small), _seconds(large)) for _ in range(3)]
    return min(long for _, long in pairs) / min(short for short, _ in pairs)


def _seconds(work: Callable[[], object]) -> float:
    start = thread_time()
    work()
    return thread_time() - start
