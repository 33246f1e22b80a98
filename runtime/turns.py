"""The sequences of one pipeline, shared by threads and by engines: a lock around their store.

Whoever finishes a turn calls the `go` of the next one, without the lock.
"""

import threading
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from ..compiler.plan import PipelinePlan
from ..stdlib.op import Item
from .flow import Block, Flow, Group
from .literals import literal_item
from .request import Code, Fault, InSequence
from .rows import Rows, Value
from .sequences import Key, SequenceStore, Turn


class Sequences:
    """`clock` is the engine's; `most` bounds how many sequences are kept at once."""

    def __init__(self, pipeline: PipelinePlan, most: int, clock: Callable[[], float]) -> None:
        initial = [Rows.one(literal_item(one.initial, one.field.type)) for one in pipeline.states]
        assert pipeline.idle is not None
        self._store = SequenceStore(pipeline.name, initial, pipeline.idle, most)
        self._lock = threading.Lock()
        self._clock = clock

    def __len__(self) -> int:
        """Return how many sequences are known."""
        with self._lock:
            return len(self._store)

    def ask(self, sequence: InSequence) -> Turn:
        """Give a request its turn; raises Fault when it cannot have one. `finish` must follow."""
        with self._lock:
            return self._store.ask(sequence, self._clock())

    def is_first(self, turn: Turn) -> bool:
        """Whether all requests before this one are finished; once so, it stays so."""
        with self._lock:
            return self._store.is_first(turn)

    def ready(self, turn: Turn, go: Callable[[], None]) -> bool:
        """Whether a turn has come; if not, `go` is called by whoever finishes the one before."""
        with self._lock:
            if self._store.is_first(turn):
                return True
            turn.go = go
            return False

    def wait(self, turn: Turn, deadline: float | None) -> None:
        """Wait until a turn has come; raises Fault when it is too late by then."""
        come = threading.Event()
        if self.ready(turn, come.set):
            return
        timeout = None if deadline is None else max(0.0, deadline - self._clock())
        if not come.wait(timeout):
            raise Fault(Code.DEADLINE, "the time was up while earlier requests of its sequence ran")

    def begin(self, turn: Turn) -> Sequence[Rows]:
        """Return the states that a request begins with; raises Fault when there are none."""
        with self._lock:
            return self._store.begin(turn)

    def finish(self, turn: Turn, left: Sequence[Rows] | None) -> None:
        """Keep what a request leaves (None: it failed) and let the next one go."""
        values = None if left is None else [Rows.one(copied(column.item(0))) for column in left]
        with self._lock:
            following = self._store.finish(turn, values, self._clock())
            go = None if following is None else following.go
        if go is not None:
            go()

    def end(self, key: Key) -> None:
        """Forget a sequence once those of its requests that are under way are finished."""
        with self._lock:
            self._store.end(key)

    def expire(self) -> None:
        """Forget the sequences that have been silent for too long."""
        with self._lock:
            self._store.expire(self._clock())

    def next_expiry(self) -> float | None:
        """Return when the next sequence is forgotten if it stays silent."""
        with self._lock:
            return self._store.next_expiry()

    def start(self, turn: Turn, block: Block, columns: Sequence[Rows], group: Group) -> Flow:
        """Return the walk of a request, which takes its states when it begins."""
        states = self.begin(turn)
        walk: Flow = block.start([*columns, *states], group)
        return (yield from walk)


def copied(item: Value) -> Value:
    """Return a state as a value of its own: neither a caller's array nor a part of a batch."""
    if isinstance(item, np.ndarray):
        return item.copy()
    if isinstance(item, list):
        return [cast("Item", copied(one)) for one in item]
    return item
