"""The rows that wait in front of a stage and may share its executions, in the order of service.

They are served by rank: those that have not waited too long before those that have, then by level,
then as they came. Nothing here is searched: what leaves from the middle costs what leaves first.
"""

import math
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeAlias, TypeVar

from .agenda import Agenda

Owner = TypeVar("Owner", bound=Hashable)
Rank: TypeAlias = tuple[bool, int]


class Entry(Generic[Owner]):
    """`count` rows of one class. `owner` is the work that they belong to; `part` is the owner's
    own number for them. `size` is how large each row is, where those of one class differ: a batch
    makes them as large as its largest.

    `deadline` is when they are not to be run any more; `limited` says that the caller has set a
    limit himself. They wait for company no longer than until `urgent`. Of the rows so many are
    `taken`; once it is `gone` it waits no more.
    """

    __slots__ = (
        "arrived",
        "count",
        "deadline",
        "gone",
        "key",
        "level",
        "limited",
        "number",
        "owner",
        "part",
        "rank",
        "size",
        "taken",
        "urgent",
    )

    def __init__(
        self,
        owner: Owner,
        count: int,
        key: Hashable = None,
        part: int = 0,
        level: int = 1,
        deadline: float | None = None,
        size: int = 0,
        urgent: float | None = None,
        limited: bool = False,
    ) -> None:
        self.owner, self.count, self.key, self.part = owner, count, key, part
        self.level, self.deadline, self.size = level, deadline, size
        self.urgent, self.limited = urgent, limited
        self.arrived, self.number, self.taken, self.gone = 0.0, 0, 0, False
        self.rank: Rank = (False, level)

    @property
    def remaining(self) -> int:
        return self.count - self.taken


class Line(Generic[Owner]):
    """The waiting entries of one class, `rows` in all. What the batcher knows of it: `filled` is
    since when they fill a batch; `rank` says how urgent the next one is and `ready` from when it
    may be taken, which has come when `is_ready`. It is `is_open` until the last has left."""

    __slots__ = (
        "_ranks",
        "_urgent",
        "filled",
        "is_open",
        "is_ready",
        "key",
        "rank",
        "ready",
        "rows",
    )

    def __init__(self, key: Hashable) -> None:
        self.key, self.rows = key, 0
        self.filled: float | None = None
        self.rank: Rank = (False, 0)
        self.ready = -math.inf
        self.is_open, self.is_ready = True, False
        self._ranks: list[tuple[Rank, OrderedDict[int, Entry[Owner]]]] = []
        self._urgent: Agenda[float, Entry[Owner]] | None = None

    def __bool__(self) -> bool:
        return bool(self._ranks)

    def __iter__(self) -> Iterator[Entry[Owner]]:
        """All entries, in the order of service."""
        for _, entries in self._ranks:
            yield from entries.values()

    def add(self, entry: Entry[Owner]) -> None:
        """Put an entry behind those of its rank."""
        if entry.urgent is not None:
            if self._urgent is None:
                self._urgent = Agenda(_waits)
            self._urgent.add(entry.urgent, entry)
        ranks = self._ranks
        if len(ranks) == 1 and ranks[0][0] == entry.rank:
            ranks[0][1][entry.number] = entry
        else:
            self._put(entry)
        self.rows += entry.count

    def remove(self, entry: Entry[Owner]) -> None:
        """Take an entry out, and the rows that it still has."""
        ranks = self._ranks
        if len(ranks) == 1 and len(entries := ranks[0][1]) > 1:
            del entries[entry.number]
        else:
            self._pull(entry)
        entry.gone = True
        self.rows -= entry.remaining

    def delay(self, entry: Entry[Owner]) -> None:
        """Put an entry behind those that have not waited too long."""
        self._pull(entry)
        entry.rank = (True, entry.level)
        self._put(entry)

    def first_rank(self) -> Rank:
        """The rank that is served next."""
        return self._ranks[0][0]

    def ahead(self, rank: Rank) -> int:
        """How many entries are served before one that is put in at a rank now."""
        return sum(len(entries) for one, entries in self._ranks if one <= rank)

    def due(self, wait: float) -> float:
        """When the first of them, in any rank, has waited for company for `wait` seconds, or is
        urgent."""
        # within a rank those who came first are first, for all are given the same time
        due = min([next(iter(entries.values())).arrived for _, entries in self._ranks]) + wait
        if self._urgent is not None and (found := self._urgent.first()) is not None:
            due = min(due, found[0])
        return due

    def _put(self, entry: Entry[Owner]) -> None:
        rank, ranks = entry.rank, self._ranks
        if not ranks or ranks[-1][0] < rank:
            ranks.append((rank, OrderedDict()))
        last, entries = ranks[-1]
        if last != rank:
            index = bisect_left(ranks, rank, key=_rank)
            if ranks[index][0] != rank:
                ranks.insert(index, (rank, OrderedDict()))
            entries = ranks[index][1]
        entries[entry.number] = entry

    def _pull(self, entry: Entry[Owner]) -> None:
        index = bisect_left(self._ranks, entry.rank, key=_rank) if len(self._ranks) > 1 else 0
        entries = self._ranks[index][1]
        del entries[entry.number]
        if not entries:
            del self._ranks[index]


def _rank(ranked: tuple[Rank, object]) -> Rank:
    return ranked[0]


def _waits(_due: float, entry: Entry[Owner]) -> bool:
    return not entry.gone
