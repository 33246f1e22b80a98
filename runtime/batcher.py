"""Which rows run together, and when: decisions only, no clock, no threads, no tensors.

Entries are rows of one work that wait in front of a stage. Only entries of equal key (equal
shapes, or such as may be filled up to the same) share a batch; `gather.py` bounds the padding. A
class of entries is ready when it fills a batch or a preferred size, or when its oldest entry has
waited `wait`. Batches are counted in rows: an entry is cut only when it is larger than a batch, or
when preferred sizes say that the size is what matters. Within a class order is first come, first
served, by priority level (1 is the highest), behind those whose time in the queue ran out under
`on_timeout = delay`; what would be too much padding lets those behind it go first.

`Batcher` also serves as the line in front of a pipeline: batches of one entry of one row.
"""

import heapq
from bisect import insort
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

from ..compiler.plan import Batching, Queueing
from .gather import gather

Owner = TypeVar("Owner", bound=Hashable)


@dataclass(slots=True, eq=False)
class Entry(Generic[Owner]):
    """`count` rows of one class. `owner` is the work that they belong to; `part` is the owner's
    own number for them. `deadline` is when they are not to be run any more. `size` is how large
    each row is, where those of one class differ: a batch makes them as large as its largest."""

    owner: Owner
    count: int
    key: Hashable = None
    part: int = 0
    level: int = 1
    deadline: float | None = None
    size: int = 0
    arrived: float = field(default=0.0, init=False)
    taken: int = field(default=0, init=False)
    late: bool = field(default=False, init=False)
    gone: bool = field(default=False, init=False)
    number: int = field(default=0, init=False)

    @property
    def remaining(self) -> int:
        return self.count - self.taken


@dataclass(frozen=True, slots=True)
class Slice(Generic[Owner]):
    """Rows `start` to `stop` (exclusive) of an entry."""

    entry: Entry[Owner]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Batch(Generic[Owner]):
    slices: tuple[Slice[Owner], ...]
    rows: int


class _Line(Generic[Owner]):
    """The waiting entries of one class, in the order in which they are served. Unless `mixed`
    they are all of one rank, so that the first is the oldest."""

    __slots__ = ("entries", "mixed", "rank", "ready", "rows")

    def __init__(self) -> None:
        self.mixed = False
        self.entries: list[Entry[Owner]] = []
        self.rows = 0
        self.ready = 0.0
        self.rank: tuple[bool, int] = (False, 0)


class Batcher(Generic[Owner]):
    """One queue. Every method that depends on time takes it as `now`, in seconds."""

    def __init__(self, batching: Batching, queueing: Queueing | None = None) -> None:
        self._maximum, self._wait = batching.maximum, batching.wait
        self._prefer = tuple(sorted(batching.prefer))
        self._waste = batching.padding.waste if batching.padding is not None else None
        self._size = queueing.size if queueing is not None else None
        self._timeout = queueing.timeout if queueing is not None else None
        self._delays = queueing is not None and queueing.on_timeout == "delay"
        self._lines: dict[Hashable, _Line[Owner]] = {}
        self._owners: dict[Owner, list[Entry[Owner]]] = {}
        self._expiries: list[tuple[float, int, Entry[Owner]]] = []
        self._numbers = count()

    @property
    def waiting(self) -> int:
        """How many owners have rows that have not been taken."""
        return len(self._owners)

    @property
    def rows(self) -> int:
        """How many rows have not been taken."""
        return sum(line.rows for line in self._lines.values())

    def immediate(self, rows: int) -> bool:
        """Whether so many rows would be a batch at once, with no others to join them."""
        whole = self._target(rows) == rows
        return not self._owners and self._wait == 0 and whole

    def owners(self) -> list[Owner]:
        """Return the owners that have rows that have not been taken."""
        return list(self._owners)

    def add(self, entries: Sequence[Entry[Owner]], now: float, idle: int = 0) -> bool:
        """Queue the rows of one owner; False, and nothing queued, when the queue is full.

        `idle` is how many owners could be served at this moment: they do not count as waiting.
        """
        if self._size is not None and self.waiting >= self._size + idle:
            return False
        for entry in entries:
            entry.arrived, entry.number = now, next(self._numbers)
            self._owners.setdefault(entry.owner, []).append(entry)
            line = self._lines.get(entry.key)
            if line is None:
                line = self._lines[entry.key] = _Line()
            line.mixed = line.mixed or (bool(line.entries) and line.rank != (False, entry.level))
            insort(line.entries, entry, key=_order)
            line.rows += entry.count
            self._settle(line, now)
            expiry = self._expiry(entry)
            if expiry is not None:
                heapq.heappush(self._expiries, (expiry, entry.number, entry))
        return True

    def take(self, now: float) -> Batch[Owner] | None:
        """Return the batch to run now, the longest ready first; None when none is ready."""
        found: tuple[tuple[bool, int], float, Hashable] | None = None
        for key, line in self._lines.items():
            if line.ready <= now and (
                found is None or (line.rank, line.ready) < (found[0], found[1])
            ):
                found = (line.rank, line.ready, key)
        return None if found is None else self._cut(found[2], now)

    def head(self, now: float) -> tuple[tuple[bool, int], float] | None:
        """Return how urgent the batch is that `take` would return: rank, and ready since."""
        if not self._lines:
            return None
        ready = [(line.rank, line.ready) for line in self._lines.values() if line.ready <= now]
        return min(ready, default=None)

    def next_due(self) -> float | None:
        """Return when the next batch is ready; None when nothing waits."""
        return min((line.ready for line in self._lines.values()), default=None)

    def next_expiry(self) -> float | None:
        """Return when time runs out for the next entry; None when it never does."""
        while self._expiries and self._stale(self._expiries[0][2]):
            heapq.heappop(self._expiries)
        return self._expiries[0][0] if self._expiries else None

    def expire(self, now: float) -> list[Owner]:
        """Drop the owners whose time is up by `now` and return them; put back the delayed ones."""
        dropped: list[Owner] = []
        while self._expiries and self._expiries[0][0] <= now:
            _, _, entry = heapq.heappop(self._expiries)
            if self._stale(entry):
                continue
            over = entry.deadline is not None and entry.deadline <= now
            if over or not (entry.taken or self._delays):
                dropped.append(entry.owner)
                self.cancel(entry.owner, now)
                continue
            if not entry.taken:  # else it has left the queue as far as `timeout` goes
                self._delay(entry, now)
            if entry.deadline is not None:
                heapq.heappush(self._expiries, (entry.deadline, entry.number, entry))
        return dropped

    def cancel(self, owner: Owner, now: float) -> None:
        """Forget the rows of an owner that have not been taken."""
        for entry in self._owners.pop(owner, ()):
            entry.gone = True
            line = self._lines.get(entry.key)
            if line is not None and entry in line.entries:
                line.entries.remove(entry)
                line.rows -= entry.remaining
                self._settle_or_drop(entry.key, line, now)

    def _cut(self, key: Hashable, now: float) -> Batch[Owner]:
        line = self._lines[key]
        taken = self._gather(line, self._target(line.rows))
        fitting = _rows(taken)
        if self._waste is not None and self._target(fitting) != fitting:
            taken = self._gather(line, self._target(fitting))
        slices: list[Slice[Owner]] = []
        for index, rows in taken:
            entry = line.entries[index]
            slices.append(Slice(entry, entry.taken, entry.taken + rows))
            entry.taken += rows
        for index, _ in reversed(taken):
            if not line.entries[index].remaining:
                self._leave(line.entries.pop(index))
        filled = _rows(taken)
        line.rows -= filled
        self._settle_or_drop(key, line, now)
        return Batch(tuple(slices), filled)

    def _gather(self, line: _Line[Owner], target: int) -> list[tuple[int, int]]:
        waiting = ((entry.remaining, entry.size) for entry in line.entries)
        return gather(waiting, target, 0 if self._prefer else self._maximum, self._waste)

    def _target(self, rows: int) -> int:
        """Return how many of the waiting rows the next batch may hold."""
        rows = min(rows, self._maximum)
        return max((size for size in self._prefer if size <= rows), default=rows)

    def _leave(self, entry: Entry[Owner]) -> None:
        entry.gone = True
        rest = self._owners[entry.owner]
        rest.remove(entry)
        if not rest:
            del self._owners[entry.owner]

    def _settle_or_drop(self, key: Hashable, line: _Line[Owner], now: float) -> None:
        if line.entries:
            self._settle(line, now)
        else:
            del self._lines[key]

    def _settle(self, line: _Line[Owner], now: float) -> None:
        line.rank = _order(line.entries[0])[:2]
        waiting = line.entries if line.mixed else line.entries[:1]
        due = min(entry.arrived for entry in waiting) + self._wait
        enough = min(self._prefer[0], self._maximum) if self._prefer else self._maximum
        filled = line.rows >= enough
        if filled and self._waste is not None:
            filled = _rows(self._gather(line, enough)) >= enough
        line.ready = min(due, now) if filled else due

    def _expiry(self, entry: Entry[Owner]) -> float | None:
        times = [] if entry.deadline is None else [entry.deadline]
        if self._timeout is not None and not entry.late:
            times.append(entry.arrived + self._timeout)
        return min(times, default=None)

    def _delay(self, entry: Entry[Owner], now: float) -> None:
        line = self._lines[entry.key]
        line.entries.remove(entry)
        entry.late = line.mixed = True
        insort(line.entries, entry, key=_order)
        self._settle(line, now)

    def _stale(self, entry: Entry[Owner]) -> bool:
        return entry.gone


def _rows(taken: Sequence[tuple[int, int]]) -> int:
    return sum(rows for _, rows in taken)


def _order(entry: "Entry[Owner]") -> tuple[bool, int, int]:
    return (entry.late, entry.level, entry.number)
