"""What pipelines keep between the requests of a sequence: decisions, without a clock or a lock.

A request takes its *turn* in its sequence; the first in line may begin, the others wait until
those before them are finished. `begin` gives what the request before has left; `finish` takes what
this one leaves, or nothing where it failed, and says whose turn is next. A sequence that nobody
speaks of for `idle` seconds is forgotten. `START` begins anew, whatever was kept; a request that
neither starts nor finds anything kept is refused, so that nobody gets an answer from zeros who
believes to go on.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from .request import Code, Fault, InSequence
from .rows import Rows

Key: TypeAlias = int | str


class Turn:
    """A request's place in its sequence. `go` is called when it comes first after waiting."""

    __slots__ = ("entry", "go", "sequence")

    def __init__(self, sequence: InSequence, entry: "_Entry") -> None:
        self.sequence, self.entry = sequence, entry
        self.go: Callable[[], None] | None = None


class _Entry:
    """One sequence. `values` are None before its first request has succeeded and after its END;
    `ended` says that nothing is to be kept when its last turn is over."""

    __slots__ = ("ended", "turns", "values")

    def __init__(self) -> None:
        self.values: Sequence[Rows] | None = None
        self.turns: deque[Turn] = deque()
        self.ended = False


class SequenceStore:
    """The sequences of one pipeline, at most `most`, with what is kept of each for `idle` s."""

    def __init__(self, pipeline: str, initial: Sequence[Rows], idle: float, most: int) -> None:
        self._pipeline, self._initial, self._idle, self._most = pipeline, initial, idle, most
        self._entries: dict[Key, _Entry] = {}
        self._until: dict[Key, float] = {}  # of sequences without turns, the soonest first

    def __len__(self) -> int:
        """Return how many sequences are known."""
        return len(self._entries)

    def ask(self, sequence: InSequence, now: float) -> Turn:
        """Give a request its turn; raises Fault when it cannot have one."""
        self.expire(now)
        entry = self._entries.get(sequence.id)
        if entry is None:
            if not sequence.start:
                raise self._not_begun(sequence.id)
            if len(self._entries) >= self._most:
                raise Fault(
                    Code.OVERLOADED,
                    f"{self._most} sequences are open already, which is the most; end some, or "
                    "try again later",
                    pipeline=self._pipeline,
                )
            entry = self._entries[sequence.id] = _Entry()
        if sequence.start:
            entry.ended = False
        turn = Turn(sequence, entry)
        entry.turns.append(turn)
        self._until.pop(sequence.id, None)
        return turn

    def is_first(self, turn: Turn) -> bool:
        """Whether all requests before this one are finished."""
        return turn.entry.turns[0] is turn

    def begin(self, turn: Turn) -> Sequence[Rows]:
        """Return the states that a request begins with; raises Fault when there are none."""
        if turn.sequence.start:
            turn.entry.values = None  # should this one fail, nothing older is taken for its own
            return self._initial
        if turn.entry.values is None:
            raise self._not_begun(turn.sequence.id)
        return turn.entry.values

    def finish(self, turn: Turn, values: Sequence[Rows] | None, now: float) -> Turn | None:
        """Keep what a request leaves (None: it failed); return the turn that may begin now."""
        entry, key = turn.entry, turn.sequence.id
        was_first = entry.turns[0] is turn
        entry.turns.remove(turn)
        if values is not None:
            entry.values = None if turn.sequence.end else values
        if entry.turns:
            return entry.turns[0] if was_first else None
        if entry.values is None or entry.ended:
            del self._entries[key]
        else:
            self._until[key] = now + self._idle
        return None

    def end(self, key: Key) -> None:
        """Forget a sequence once those of its requests that are under way are finished."""
        entry = self._entries.get(key)
        if entry is None:
            return
        entry.ended = True
        if not entry.turns:
            del self._entries[key]
            del self._until[key]

    def expire(self, now: float) -> int:
        """Forget the sequences that have been silent for too long; return how many."""
        over: list[Key] = []
        for key, until in self._until.items():
            if until > now:
                break
            over.append(key)
        for key in over:
            del self._entries[key]
            del self._until[key]
        return len(over)

    def next_expiry(self) -> float | None:
        """Return when the next sequence is forgotten if it stays silent."""
        return next(iter(self._until.values()), None)

    def _not_begun(self, key: Key) -> Fault:
        shown = f"{key!a}" if isinstance(key, str) else str(key)
        return Fault(
            Code.INVALID,
            f"nothing is kept of sequence {shown}: it was not started, has ended, or was silent "
            f"for {self._idle:g} s; its first request says so with sequence_start",
            pipeline=self._pipeline,
        )
