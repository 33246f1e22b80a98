"""What pipelines keep between the requests of a sequence: decisions, without a clock or a lock.

A sequence *lives* from its first request until its END or a silence of `idle` seconds; so many
live at once as there are *places*. A request takes its *turn* in its sequence: the first in line
may begin, the others wait until those before them are finished. One that starts a sequence while no
place is free waits in the *back-log*, in order, until another is forgotten. `begin` gives what the
request before has left; `finish` takes what this one leaves, or nothing where it failed.

`START` begins anew, whatever was kept; a request that neither starts nor finds anything kept is
refused, so that nobody gets an answer from zeros who believes to go on. Whatever may let others go
(`finish`, `end`, `expire`) returns their turns, so that each is told once. Nothing here takes
longer the more sequences there are.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .request import Code, Fault, InSequence
from .rows import Value

Key: TypeAlias = int | str
States: TypeAlias = Sequence[Value]


@dataclass(frozen=True, slots=True)
class Places:
    """At most `most` sequences live, and `backlog` wait to; silent ones are kept for `idle` s.

    With `numbered` places a sequence is told which is its own, from 0.
    """

    idle: float
    most: int
    backlog: int = 0
    numbered: bool = False


class Turn:
    """A request's place in its sequence. `go` is called when it comes first after waiting.

    `cut` says that what it leaves is not to be gone on from: one that starts anew was behind it,
    and has failed. It is `over` once it is finished, but lasts while it is `held`; `left` is what
    is kept then.
    """

    __slots__ = ("after", "before", "cut", "entry", "go", "held", "left", "over", "sequence")

    def __init__(self, sequence: InSequence, entry: "_Entry") -> None:
        self.sequence, self.entry = sequence, entry
        self.before: Turn | None = None
        self.after: Turn | None = None
        self.go: Callable[[], None] | None = None
        self.cut = self.over = False
        self.held = 0
        self.left: States | None = None

    @property
    def slot(self) -> int | None:
        """The number of its sequence's place, where places have one and it has come to one."""
        return self.entry.slot


class _Entry:
    """One sequence; `first` and `last` are the ends of its line of turns.

    `values` are None before its first request has succeeded and after its END; `ended` says that
    nothing is to be kept when its last turn is over.
    """

    __slots__ = ("ended", "first", "key", "last", "lives", "slot", "values")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.values: States | None = None
        self.first: Turn | None = None
        self.last: Turn | None = None
        self.lives = self.ended = False
        self.slot: int | None = None

    def append(self, turn: Turn) -> None:
        turn.before, self.last = self.last, turn
        if turn.before is None:
            self.first = turn
        else:
            turn.before.after = turn

    def remove(self, turn: Turn) -> None:
        before, after = turn.before, turn.after
        if before is None:
            self.first = after
        else:
            before.after = after
        if after is None:
            self.last = before
        else:
            after.before = before
        turn.before = turn.after = None

    @property
    def ready(self) -> Turn | None:
        """The turn that may begin. One that starts needs a place; one that does not, where no place
        has been got, has nothing to go on from and may be told so."""
        first = self.first
        return first if first is not None and (self.lives or not first.sequence.start) else None


class SequenceStore:
    """The sequences of one pipeline, with what is kept of each."""

    def __init__(self, pipeline: str, initial: States, places: Places) -> None:
        self._pipeline, self._initial, self._places = pipeline, initial, places
        self._entries: dict[Key, _Entry] = {}
        self._waiting: OrderedDict[Key, _Entry] = OrderedDict()  # the back-log
        self._silent: OrderedDict[Key, float] = OrderedDict()  # until when; the soonest first
        self._free = list(range(places.most)) if places.numbered else []  # a heap
        self._over = False

    def __len__(self) -> int:
        """Return how many sequences live."""
        return len(self._entries) - len(self._waiting)

    def __contains__(self, key: Key) -> bool:
        """Whether a sequence lives, or waits to."""
        return key in self._entries

    @property
    def waiting(self) -> int:
        """How many sequences wait for a place."""
        return len(self._waiting)

    def ask(self, sequence: InSequence) -> Turn:
        """Give a request its turn; raises Fault when it cannot have one. `expire` comes before."""
        entry = self._entries.get(sequence.id)
        if entry is None:
            if not sequence.start:
                raise self._not_begun(sequence)
            entry = self._enter(sequence)
        if sequence.start:
            entry.ended = False
        turn = Turn(sequence, entry)
        entry.append(turn)
        self._silent.pop(sequence.id, None)
        return turn

    def may_begin(self, turn: Turn) -> bool:
        """Whether all requests before this one are finished, and its sequence has its place."""
        return turn.entry.ready is turn

    def begin(self, turn: Turn) -> States:
        """Return the states that a request begins with; raises Fault when there are none."""
        if turn.sequence.start:
            return self._initial
        if turn.entry.values is None:
            raise self._not_begun(turn.sequence)
        return turn.entry.values

    def finish(self, turn: Turn, values: States | None, now: float) -> Sequence[Turn]:
        """Keep what a request leaves (None: it failed); return the turns that may begin now: none
        while something of it still runs, of which nobody will hear."""
        turn.over, turn.left = True, values
        return () if turn.held else self._end_turn(turn, values, now)

    def hold(self, turn: Turn) -> bool:
        """Let a turn last while something of its request runs; False when it is over already, and
        nothing is to run. `release` follows."""
        turn.held += not turn.over
        return not turn.over

    def release(self, turn: Turn, now: float) -> Sequence[Turn]:
        """Note that something has run; return the turns that may begin now."""
        turn.held -= 1
        return self._end_turn(turn, turn.left, now) if turn.over and not turn.held else ()

    def _end_turn(self, turn: Turn, values: States | None, now: float) -> Sequence[Turn]:
        entry, before = turn.entry, turn.before
        was_first = before is None
        entry.remove(turn)
        if values is not None:
            entry.values = None if turn.sequence.end or turn.cut else values
        elif turn.sequence.start or turn.cut:  # nothing older is taken for what it would have left
            if before is None:
                entry.values = None
            else:
                before.cut = True
        if entry.first is not None:
            ready = entry.ready
            return (ready,) if was_first and ready is not None else ()
        if entry.values is None or entry.ended or self._over:
            return self._forget(entry)
        self._silent[entry.key] = now + self._places.idle
        return ()

    def end(self, key: Key) -> Sequence[Turn]:
        """Forget a sequence once those of its requests that are under way are finished; return the
        turns that may begin now."""
        entry = self._entries.get(key)
        if entry is None:
            return ()
        entry.ended = True
        return self._forget(entry) if entry.first is None else ()

    def expire(self, now: float) -> Sequence[Turn]:
        """Forget the sequences that have been silent for too long; return the turns that may begin
        now."""
        going: list[Turn] = []
        while (until := self.next_expiry()) is not None and until <= now:
            going += self._forget(self._entries[next(iter(self._silent))])
        return going

    def forget_silent(self) -> Sequence[Turn]:
        """Forget what is silent, and from now on whatever becomes so: nobody will go on with it.
        Return the turns that may begin now."""
        self._over = True
        going: list[Turn] = []
        while self._silent:
            going += self._forget(self._entries[next(iter(self._silent))])
        return going

    def next_expiry(self) -> float | None:
        """Return when the next sequence is forgotten if it stays silent."""
        return next(iter(self._silent.values()), None)

    def _enter(self, sequence: InSequence) -> _Entry:
        """Take in a sequence that is not known, which gets a place or waits for one."""
        entry, places = _Entry(sequence.id), self._places
        if len(self) < places.most:  # then none waits
            self._place(entry)
        elif len(self._waiting) < places.backlog:
            self._waiting[entry.key] = entry
        else:
            waiting = f", and {places.backlog} wait for a place" if places.backlog else ""
            raise Fault(
                Code.OVERLOADED,
                f"{places.most} sequences are open already, which is the most{waiting}; end some, "
                "or try again later",
                pipeline=self._pipeline,
            )
        self._entries[entry.key] = entry
        return entry

    def _place(self, entry: _Entry) -> None:
        entry.lives = True
        if self._places.numbered:
            entry.slot = heapq.heappop(self._free)

    def _forget(self, entry: _Entry) -> Sequence[Turn]:
        """Drop a sequence without turns; return the turns of that which gets its place."""
        del self._entries[entry.key]
        self._silent.pop(entry.key, None)
        if not entry.lives:
            del self._waiting[entry.key]
            return ()
        if entry.slot is not None:
            heapq.heappush(self._free, entry.slot)
        if not self._waiting:
            return ()
        _, following = self._waiting.popitem(last=False)
        self._place(following)
        ready = following.ready  # one that does not start has been let go already
        return (ready,) if ready is not None and ready.sequence.start else ()

    def _not_begun(self, sequence: InSequence) -> Fault:
        shown = f"{sequence.id!a}" if isinstance(sequence.id, str) else str(sequence.id)
        cure = (
            "its first request says so with sequence_start"
            if sequence.remote
            else "`restart()` lets its next call begin it anew, as does another `sequence()`"
        )
        return Fault(
            Code.INVALID,
            f"nothing is kept of sequence {shown}: it was not started, has ended, or was silent "
            f"for {self._places.idle:g} s; {cure}",
            pipeline=self._pipeline,
        )
