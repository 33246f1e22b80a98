"""The sequences of one pipeline, shared by threads and by engines: a lock around their store.

Whoever lets a turn come calls its `go`, without the lock.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Final, cast

import numpy as np

from ..compiler.plan import PipelinePlan
from ..stdlib.op import Item
from .literals import literal_item
from .request import Code, EngineClosed, Fault, InSequence, RequestError
from .rows import Rows, Value
from .sequences import Key, Places, SequenceStore, States, Turn
from .until import seconds_until

_IDS: Final = {"id": (str, "texts"), "number": (int, "numbers of 64 bits")}
"""What ids are where a pipeline reads them, by what it calls them."""


class Sequences:
    """`clock` is the engine's; `most` bounds how many sequences live at once where the schedule
    says nothing."""

    def __init__(self, pipeline: PipelinePlan, most: int, clock: Callable[[], float]) -> None:
        initial = [literal_item(one.initial, one.field.type) for one in pipeline.states]
        self._store = SequenceStore(pipeline.name, initial, places_of(pipeline, most))
        self._pipeline, self._clock = pipeline.name, clock
        self._kept_inside = keeps_inside(pipeline)
        self._ids = next((_IDS[one.name] for one in pipeline.controls if one.name in _IDS), None)
        self._lock = threading.Lock()
        self._fewer = threading.Condition(self._lock)
        self._retired = False
        self._callers: set[threading.Event] = set()
        self._watchers: list[Callable[[], None]] = []
        self._closed = False

    def __len__(self) -> int:
        """Return how many sequences live."""
        with self._lock:
            return len(self._store)

    @property
    def waiting(self) -> int:
        """How many sequences wait for a place."""
        with self._lock:
            return self._store.waiting

    @property
    def numbered(self) -> bool:
        """Whether the ids of its sequences are to be numbers."""
        return self._ids == _IDS["number"]

    def ask(self, sequence: InSequence) -> Turn:
        """Give a request its turn; raises Fault when it cannot have one. `finish` must follow."""
        if self._ids is not None:
            self._require_id(sequence.id, *self._ids)
        self.expire()
        with self._lock:
            if self._retired and sequence.start and sequence.id not in self._store:
                raise EngineClosed
            return self._store.ask(sequence)

    def knows(self, key: Key) -> bool:
        """Whether a sequence lives, or waits to."""
        with self._lock:
            return key in self._store

    def retire(self) -> None:
        """Let no further sequence begin: `ask` raises EngineClosed. Those that live go on."""
        with self._lock:
            self._retired = True

    def wait_until_empty(self) -> None:
        """Wait until all sequences have ended or fallen silent, or nothing is served any more."""
        while True:
            self.expire()
            with self._lock:
                if self._closed or not (len(self._store) or self._store.waiting):
                    return
                until = self._store.next_expiry()
                self._fewer.wait(seconds_until(until, self._clock()))

    def _require_id(self, key: Key, kind: type, called: str) -> None:
        """Raise RequestError where an id is not what the pipeline reads ids as."""
        fits = isinstance(key, kind) and (isinstance(key, str) or 0 <= key < 1 << 64)
        if not fits:
            raise RequestError(
                f"the ids of its sequences are {called}, for it reads them; {key!a} is none",
                pipeline=self._pipeline,
            )

    def may_begin(self, turn: Turn) -> bool:
        """Whether a turn has come; once so, it stays so."""
        with self._lock:
            return self._store.may_begin(turn)

    def ready(self, turn: Turn, go: Callable[[], None]) -> bool:
        """Whether a turn has come; if not, `go` is called by whoever lets it come."""
        with self._lock:
            if self._store.may_begin(turn):
                return True
            turn.go = go
            return False

    def wait(self, turn: Turn, deadline: float | None) -> None:
        """Wait until a turn has come; raises Fault when it is too late by then.

        It forgets what is silent for too long itself: there may be nobody else to do so.
        """
        if self.may_begin(turn):
            return
        come = threading.Event()
        if self.ready(turn, come.set):
            return
        with self._lock:
            self._callers.add(come)
        try:
            while not self.may_begin(turn):
                self._wait(come, deadline)
        finally:
            with self._lock:
                self._callers.discard(come)

    def _wait(self, come: threading.Event, deadline: float | None) -> None:
        """Wait once, until something has happened or its time has come."""
        now, times = self._clock(), [self.next_expiry(), deadline]
        if self._closed:
            raise Fault(Code.UNAVAILABLE, "the engine was closed", pipeline=self._pipeline)
        if deadline is not None and now >= deadline:
            raise Fault(
                Code.DEADLINE,
                "the time was up before its turn in its sequence had come",
                pipeline=self._pipeline,
            )
        until = min((time for time in times if time is not None), default=None)
        come.wait(seconds_until(until, now))
        self.expire()

    def begin(self, turn: Turn) -> States:
        """Return the states that a request begins with; raises Fault when there are none."""
        with self._lock:
            return self._store.begin(turn)

    def finish(self, turn: Turn, left: Sequence[Rows] | None) -> None:
        """Keep what a request leaves (None: it failed) and let those go whose turn has come."""
        values = None if left is None else tuple(copied(column.item(0)) for column in left)
        now = self._clock()
        with self._lock:
            going = self._store.finish(turn, values, now)
            self._tell_fewer()
        _let_go(going)

    def hold(self, turn: Turn) -> bool:
        """Whether something of a request may run: then the next has to wait for it, though it may
        be cancelled or late meanwhile. `release` follows.

        Only where models or functions keep something of a sequence themselves, and would find it
        changed behind the next one; else what runs for nobody changes nothing.
        """
        if not self._kept_inside:
            return True
        with self._lock:
            return self._store.hold(turn)

    def release(self, turn: Turn) -> None:
        """Note that something has run, which `hold` has allowed."""
        if not self._kept_inside:
            return
        now = self._clock()
        with self._lock:
            going = self._store.release(turn, now)
            self._tell_fewer()
        _let_go(going)

    def watch(self, look: Callable[[], None]) -> None:
        """Let `look` be called when a request is over while sequences wait for a place, which may
        come when another has been silent for long enough."""
        with self._lock:
            self._watchers = [*self._watchers, look]

    def end(self, key: Key) -> None:
        """Forget a sequence once those of its requests that are under way are finished."""
        with self._lock:
            going = self._store.end(key)
            self._tell_fewer()
        _let_go(going)

    def expire(self) -> None:
        """Forget the sequences that have been silent for too long."""
        now = self._clock()
        with self._lock:
            going = self._store.expire(now)
        _let_go(going)

    def forget_silent(self) -> None:
        """Let those that wait for places have them when no request goes on with what is silent."""
        with self._lock:
            going = self._store.forget_silent()
            self._tell_fewer()
        _let_go(going)

    def next_expiry(self) -> float | None:
        """Return when the next sequence is forgotten if it stays silent."""
        with self._lock:
            return self._store.next_expiry()

    def close(self) -> None:
        """Let those who wait in threads of their own know that nothing is served any more."""
        with self._lock:
            self._closed = True
            self._tell_fewer()
            callers = list(self._callers)
        for come in callers:
            come.set()

    def _tell_fewer(self) -> None:
        """Wake who waits for the last sequence to end. The lock is held."""
        if self._retired:
            self._fewer.notify_all()


def keeps_inside(pipeline: PipelinePlan) -> bool:
    """Whether functions or models may keep something of a sequence themselves: they are told of it,
    or find it in a row of its own, or else nothing would be kept at all."""
    slots = pipeline.sequencing is not None and pipeline.sequencing.slots is not None
    alone = pipeline.idle is not None and not pipeline.states
    return bool(pipeline.controls) or slots or alone


def places_of(pipeline: PipelinePlan, most: int) -> Places:
    """Return how many sequences live and wait; `most` where the schedule does not say it."""
    assert pipeline.idle is not None
    said = pipeline.sequencing
    if said is None:
        return Places(pipeline.idle, most)
    if said.slots is not None:
        return Places(pipeline.idle, said.slots, said.backlog or 0, numbered=True)
    return Places(pipeline.idle, said.most or most, said.backlog or 0)


def copied(item: Value) -> Value:
    """Return a state as a value of its own: neither a caller's array nor a part of a batch.

    What is in a device's memory stays there, and is nobody else's already (`in_sequence.py`).
    """
    if isinstance(item, np.ndarray):
        return item.copy()
    if isinstance(item, list):
        return [cast("Item", copied(one)) for one in item]
    return item


def _let_go(turns: Sequence[Turn]) -> None:
    for turn in turns:
        if turn.go is not None:
            turn.go()
