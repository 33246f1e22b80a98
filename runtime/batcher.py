"""Which rows run together, and when: decisions only, no clock, no threads, no tensors.

Entries are rows of one work that wait in front of a stage. Only entries of equal key (equal
shapes, or such as may be filled up to the same) share a batch; `gather.py` bounds the padding. A
class of entries (`line.py`) is ready when it fills a batch or a preferred size, or when one of them
has waited long enough for company: `wait`, or until it is `urgent`. Batches are counted in rows:
an entry is cut only when it is larger than a batch, or when preferred sizes say that the size is
what matters. Within a class order is first come, first served, by priority level (1 is the
highest), behind those whose time in the queue ran out under `on_timeout = delay`; what would be too
much padding lets those behind it go first. How many wait, and how long, is `queue_policy.py`'s.

`Batcher` also serves as the line in front of a pipeline: batches of one entry of one row.

However many wait, what each call costs depends on what it returns alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Generic, NamedTuple

from ..compiler.policies import Batching, Queueing
from .agenda import Agenda
from .gather import gather
from .line import Entry, Line, Owner, Rank
from .queue_policy import QueuePolicy

FIRST: Rank = (False, 0)
"""The rank of what goes before all levels."""
_LOOKED_AT = 4
"""So many times as many entries as a batch has rows are looked at for rows of one size."""


class Slice(NamedTuple, Generic[Owner]):
    """Rows `start` to `stop` (exclusive) of an entry."""

    entry: Entry[Owner]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Batch(Generic[Owner]):
    slices: tuple[Slice[Owner], ...]
    rows: int


class Batcher(Generic[Owner]):
    """One queue, with `rows` that have not been taken. Every method that depends on time takes it
    as `now`, in seconds, which never goes back."""

    def __init__(self, batching: Batching, queueing: Queueing | None = None) -> None:
        self.rows = 0
        self._maximum, self._wait = batching.maximum, batching.wait
        self._prefer = tuple(sorted(batching.prefer))
        self._enough = min(self._prefer[0], self._maximum) if self._prefer else self._maximum
        self._waste = batching.padding.waste if batching.padding is not None else None
        self._policy = QueuePolicy(queueing) if queueing is not None else None
        self._lines: dict[object, Line[Owner]] = {}
        self._owners: dict[Owner, Sequence[Entry[Owner]]] = {}
        self._left: dict[Owner, int] = {}  # of those with several entries
        self._expiries: Agenda[float, Entry[Owner]] = Agenda(_waits)
        self._ready: Agenda[tuple[Rank, float], Line[Owner]] = Agenda(_is_ready)
        self._coming: Agenda[float, Line[Owner]] = Agenda(_is_coming)
        self._numbers = count()

    @property
    def waiting(self) -> int:
        """How many owners have rows that have not been taken."""
        return len(self._owners)

    def immediate(self, rows: int, *, alone: bool = False) -> bool:
        """Whether so many rows would be a batch at once, with no others to join them. `alone` says
        that nobody else can come, for whom they would wait."""
        whole = self._target(rows) == rows
        return not self._owners and (alone or self._wait == 0) and whole

    def owners(self) -> list[Owner]:
        """Return the owners that have rows that have not been taken."""
        return list(self._owners)

    def add(self, entries: Sequence[Entry[Owner]], now: float, idle: int = 0) -> bool:
        """Queue the rows of one owner; False, and nothing queued, when its level is full.

        `idle` is how many owners could be served at this moment: they do not count as waiting.
        """
        owner, level = entries[0].owner, entries[0].level
        if self._policy is not None:
            if not self._policy.admits(level, idle):
                return False
            self._policy.enter(level)
        self._owners[owner] = entries
        if len(entries) > 1:
            self._left[owner] = len(entries)
        for entry in entries:
            self._put(entry, now)
        return True

    def put_back(self, entry: Entry[Owner], now: float) -> None:
        """Queue rows of an owner, others of which may be here, that have run and are to run again:
        they go first, wait for nobody, and have their place whatever there is room for."""
        entry.rank, entry.urgent = FIRST, now
        owner = entry.owner
        others = [one for one in self._owners.get(owner, ()) if not one.gone]
        if others:
            self._left[owner] = len(others) + 1
        elif self._policy is not None:
            self._policy.enter(entry.level)
        self._owners[owner] = [*others, entry]
        self._put(entry, now)

    def _put(self, entry: Entry[Owner], now: float) -> None:
        entry.arrived, entry.number = now, next(self._numbers)
        line = self._lines.get(entry.key)
        if line is None:
            line = self._lines[entry.key] = Line(entry.key)
        line.add(entry)
        self.rows += entry.count
        if self._wait or not line.is_ready or entry.rank < line.rank:
            self._settle(line, now)  # else it was ready before, and is as urgent as it was
        if entry.deadline is not None or self._policy is not None:
            self._watch(entry)

    def hurry(self, now: float) -> None:
        """Let nothing that is here wait for company any longer: nobody else can come."""
        while (found := self._coming.first()) is not None:
            self._make_ready(found[1], min(now, found[0]))

    def take(self, now: float) -> Batch[Owner] | None:
        """Return the batch to run now, the longest ready first; None when none is ready."""
        line = self._first_ready(now)
        return None if line is None else self._cut(line, now)

    def head(self, now: float) -> tuple[Rank, float] | None:
        """Return how urgent the batch is that `take` would return: rank, and ready since."""
        line = self._first_ready(now) if self._owners else None
        return None if line is None else (line.rank, line.ready)

    def next_due(self) -> float | None:
        """Return when the next batch is ready, or since when one is; None when nothing waits."""
        first = self._ready.first()
        if first is not None:
            return first[1].ready
        coming = self._coming.first()
        return None if coming is None else coming[0]

    def next_expiry(self) -> float | None:
        """Return when time runs out for the next entry; None when it never does."""
        found = self._expiries.first()
        return None if found is None else found[0]

    def ahead(self, level: int) -> int:
        """How many entries go before one of a level that comes now."""
        return sum(line.ahead((False, level)) for line in self._lines.values())

    def expire(self, now: float) -> list[tuple[Owner, bool]]:
        """Drop the owners whose time is up by `now`; put back the delayed ones.

        Returned are those dropped, and of each whether it was its deadline.
        """
        dropped: list[tuple[Owner, bool]] = []
        while (found := self._expiries.first()) is not None and found[0] <= now:
            entry = found[1]
            self._expiries.pop()
            over = entry.deadline is not None and entry.deadline <= now
            if over or not (entry.taken or self._delays(entry)):
                dropped.append((entry.owner, over))
                self.cancel(entry.owner, now)
                continue
            if not entry.taken:  # else it has left the queue as far as its timeout goes
                line = self._lines[entry.key]
                line.delay(entry)
                self._settle(line, now)
            if entry.deadline is not None:
                self._expiries.add(entry.deadline, entry)
        return dropped

    def _delays(self, entry: Entry[Owner]) -> bool:
        return self._policy is not None and self._policy.bound(entry.level).delays

    def cancel(self, owner: Owner, now: float) -> None:
        """Forget the rows of an owner that have not been taken."""
        for entry in self._owners.get(owner, ()):
            if entry.gone:
                continue
            line = self._lines[entry.key]
            self.rows -= entry.remaining
            self._leave(line, entry)
            self._settle(line, now)

    def _first_ready(self, now: float) -> Line[Owner] | None:
        while (coming := self._coming.first()) is not None and coming[0] <= now:
            self._make_ready(coming[1], coming[0])
        found = self._ready.first()
        return None if found is None else found[1]

    def _make_ready(self, line: Line[Owner], since: float) -> None:
        line.is_ready, line.ready = True, since
        self._ready.add((line.rank, since), line)

    def _cut(self, line: Line[Owner], now: float) -> Batch[Owner]:
        taken = self._gather(line, self._target(line.rows))
        if self._waste is not None:
            filled = sum(rows for _, rows in taken)
            if self._target(filled) != filled:
                taken = self._gather(line, self._target(filled))
        slices: list[Slice[Owner]] = []
        filled = 0
        for entry, rows in taken:
            filled += rows
            start, stop = entry.taken, entry.taken + rows
            slices.append(Slice(entry, start, stop))
            entry.taken = stop
            if stop == entry.count:
                self._leave(line, entry)
        line.rows -= filled
        self.rows -= filled
        line.filled = None  # what is left is no more urgent than others that fill a batch now
        self._settle(line, now)
        return Batch(tuple(slices), filled)

    def _gather(self, line: Line[Owner], target: int) -> list[tuple[Entry[Owner], int]]:
        if self._waste is None:
            return self._gather_in_order(line, target)
        entries = list(islice(line, _LOOKED_AT * target))
        waiting = ((entry.remaining, entry.size) for entry in entries)
        taken = gather(waiting, target, 0 if self._prefer else self._maximum, self._waste)
        return [(entries[index], rows) for index, rows in taken]

    def _gather_in_order(self, line: Line[Owner], target: int) -> list[tuple[Entry[Owner], int]]:
        """Do as `gather` does where nothing is padded."""
        taken: list[tuple[Entry[Owner], int]] = []
        whole = 0 if self._prefer else self._maximum
        for entry in line:
            left = entry.count - entry.taken
            rows = min(left, target)
            if rows < left <= whole and taken:
                break
            taken.append((entry, rows))
            target -= rows
            if not target:
                break
        return taken

    def _target(self, rows: int) -> int:
        """Return how many of the waiting rows the next batch may hold."""
        rows = min(rows, self._maximum)
        if not self._prefer:
            return rows
        return max((size for size in self._prefer if size <= rows), default=rows)

    def _leave(self, line: Line[Owner], entry: Entry[Owner]) -> None:
        line.remove(entry)
        owner = entry.owner
        if self._left and owner in self._left:
            self._left[owner] -= 1
            if self._left[owner]:
                return
            del self._left[owner]
        del self._owners[owner]
        if self._policy is not None:
            self._policy.leave(entry.level)

    def _settle(self, line: Line[Owner], now: float) -> None:
        """Find out anew when the next batch of a line is ready."""
        if not line:
            line.is_open = False
            del self._lines[line.key]
            return
        line.filled = (now if line.filled is None else line.filled) if self._fills(line) else None
        ready, rank = line.due(self._wait), line.first_rank()
        if line.filled is not None and line.filled < ready:
            ready = line.filled
        if ready <= now:
            if not line.is_ready or ready != line.ready or rank != line.rank:
                line.rank = rank
                self._make_ready(line, ready)
        else:
            if line.is_ready or ready != line.ready:
                line.is_ready, line.ready = False, ready
                self._coming.add(ready, line)
            line.rank = rank

    def _fills(self, line: Line[Owner]) -> bool:
        if line.rows < self._enough:
            return False
        if self._waste is None:
            return True
        return sum(rows for _, rows in self._gather(line, self._enough)) >= self._enough

    def _watch(self, entry: Entry[Owner]) -> None:
        timeout = None
        if self._policy is not None:
            timeout = self._policy.bound(entry.level).timeout(entry.limited)
        expiry = None if timeout is None else entry.arrived + timeout
        if entry.deadline is not None and (expiry is None or entry.deadline < expiry):
            expiry = entry.deadline
        if expiry is not None:
            self._expiries.add(expiry, entry)


def _waits(_expiry: float, entry: Entry[Owner]) -> bool:
    return not entry.gone


def _is_ready(key: tuple[Rank, float], line: Line[Owner]) -> bool:
    return line.is_open and line.is_ready and key == (line.rank, line.ready)


def _is_coming(ready: float, line: Line[Owner]) -> bool:
    return line.is_open and not line.is_ready and ready == line.ready
