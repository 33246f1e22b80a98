"""A state machine that compares the batcher with a plain list of what waits."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.compiler.policies import Batching, Queueing
from headrace.runtime.batcher import Batcher
from headrace.runtime.line import Entry

KEYS = (0, 1)
QUEUEINGS = st.builds(
    Queueing,
    st.integers(1, 6),
    st.sampled_from([None, 2.0, 5.0]),
    st.sampled_from(["reject", "delay"]),
    st.booleans(),
)
LIMITS = st.sampled_from([None, 1.0, 4.0])


@dataclass
class Waiting:
    """What the model knows of an entry."""

    entry: Entry[int]
    rows: list[int]
    arrived: float
    number: int
    late: bool = False
    taken: bool = False


@dataclass
class Owner:
    level: int
    entries: list[Waiting] = field(default_factory=list[Waiting])


class BatcherMachine(RuleBasedStateMachine):
    @initialize(
        maximum=st.integers(1, 6),
        wait=st.sampled_from([0.0, 1.0, 3.0]),
        prefer=st.lists(st.integers(1, 6), max_size=2),
        queueing=QUEUEINGS,
        second=st.none() | QUEUEINGS,
    )
    def start(
        self,
        maximum: int,
        wait: float,
        prefer: list[int],
        queueing: Queueing,
        second: Queueing | None,
    ) -> None:
        self.now = 0.0
        self.maximum, self.wait = maximum, wait
        self.policies = {1: queueing, 2: second or queueing, 3: queueing}
        self.apart = second is not None
        self.prefer = tuple(sorted({one for one in prefer if one <= maximum}))
        levels = () if second is None else ((2, second),)
        made = Queueing(
            queueing.size, queueing.timeout, queueing.on_timeout, queueing.override, levels
        )
        self.batcher: Batcher[int] = Batcher(Batching(maximum, wait, self.prefer), made)
        self.model: dict[int, Owner] = {}
        self.hurried: set[int] = set()
        self.next = self.numbers = 0

    @rule(
        rows=st.lists(st.integers(1, 9), min_size=1, max_size=3),
        key=st.integers(0, 1),
        level=st.integers(1, 3),
        limit=LIMITS,
        limited=st.booleans(),
        urgent=LIMITS,
        idle=st.integers(0, 2),
    )
    def add(
        self,
        rows: list[int],
        key: int,
        level: int,
        limit: float | None,
        limited: bool,
        urgent: float | None,
        idle: int,
    ) -> None:
        number, self.next = self.next, self.next + 1
        deadline = None if limit is None else self.now + limit
        soon = None if urgent is None else self.now + urgent / 2
        entries = [
            Entry(number, count, (key + part) % 2, part, level, deadline, 0, soon, limited)
            for part, count in enumerate(rows)
        ]
        fits = self._fits(level, idle)
        assert self.batcher.add(entries, self.now, idle) == fits
        if not fits:
            return
        owner = self.model[number] = Owner(level)
        for entry in entries:
            one = Waiting(entry, list(range(entry.count)), self.now, self.numbers)
            owner.entries.append(one)
            self.numbers += 1
            self._changed(one)

    def _fits(self, level: int, idle: int) -> bool:
        bounded = [one for one in self.model.values() if self._bound(one.level, level)]
        others = len(self.model) - len(bounded)
        return len(bounded) < self.policies[level].size + max(0, idle - others)

    def _bound(self, level: int, other: int) -> bool:
        return not self.apart or (level == 2) == (other == 2)

    @rule(step=st.sampled_from([0.5, 1.0, 2.5]))
    def pass_time(self, step: float) -> None:
        self.now += step
        expected = {
            number
            for number, owner in self.model.items()
            if any(self._over(one) or self._rejected(one) for one in owner.entries)
        }
        dropped = self.batcher.expire(self.now)
        assert sorted(number for number, _ in dropped) == sorted(expected)
        for number, at_deadline in dropped:
            assert not at_deadline or any(map(self._over, self.model[number].entries))
            assert at_deadline or any(map(self._rejected, self.model[number].entries))
        for number in expected:
            self._drop(number)
        for owner in self.model.values():
            for one in owner.entries:
                if not one.late and self._out_of_time(one):
                    one.late = True
                    self._changed(one)

    def _over(self, one: Waiting) -> bool:
        return one.entry.deadline is not None and one.entry.deadline <= self.now

    def _out_of_time(self, one: Waiting) -> bool:
        policy = self.policies[one.entry.level]
        if one.taken or policy.timeout is None or (policy.override and one.entry.limited):
            return False
        return one.arrived + policy.timeout <= self.now

    def _rejected(self, one: Waiting) -> bool:
        return self._out_of_time(one) and self.policies[one.entry.level].on_timeout == "reject"

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.model)))
        self.batcher.cancel(number, self.now)
        self._drop(number)

    def _drop(self, number: int) -> None:
        for one in self.model.pop(number).entries:
            self._changed(one)

    def _changed(self, one: Waiting) -> None:
        """What was in a hurry waits again, for something has happened."""
        key = one.entry.key
        assert isinstance(key, int)
        self.hurried.discard(key)

    @rule()
    def hurry(self) -> None:
        self.batcher.hurry(self.now)
        self.hurried.update(KEYS)

    @rule()
    def take(self) -> None:
        ready = {key for key in KEYS if self._ready(key)}
        ranks = {key: self._rank(self._line(key)[0]) for key in ready}
        head = self.batcher.head(self.now)
        assert (head is None) == (not ready)
        batch = self.batcher.take(self.now)
        if batch is None:
            assert not ready
            return
        key = batch.slices[0].entry.key
        assert isinstance(key, int)
        assert key in ready
        assert head is not None
        assert head[0] == ranks[key] == min(ranks.values())
        waiting = self._rows(key)
        assert batch.rows == sum(piece.stop - piece.start for piece in batch.slices)
        assert 0 < batch.rows <= self.maximum
        if self.prefer and any(size <= waiting for size in self.prefer):
            assert batch.rows == max(size for size in self.prefer if size <= waiting)
        for piece, one in zip(batch.slices, self._line(key), strict=False):
            assert piece.entry is one.entry
            assert one.rows[: piece.stop - piece.start] == list(range(piece.start, piece.stop))
            del one.rows[: piece.stop - piece.start]
            one.taken = True
            self._changed(one)
        for number in [piece.entry.owner for piece in batch.slices]:
            if number in self.model:
                owner = self.model[number]
                owner.entries = [one for one in owner.entries if one.rows]
                if not owner.entries:
                    del self.model[number]

    def _rank(self, one: Waiting) -> tuple[bool, int]:
        return (one.late, one.entry.level)

    def _line(self, key: int) -> list[Waiting]:
        found = [one for owner in self.model.values() for one in owner.entries]
        return sorted(
            (one for one in found if one.entry.key == key),
            key=lambda one: (self._rank(one), one.number),
        )

    def _rows(self, key: int) -> int:
        return sum(len(one.rows) for one in self._line(key))

    def _ready(self, key: int) -> bool:
        line = self._line(key)
        if not line:
            return False
        enough = self.prefer[0] if self.prefer else self.maximum
        return self._rows(key) >= enough or key in self.hurried or self._due(key) <= self.now

    def _due(self, key: int) -> float:
        dues = [one.arrived + self.wait for one in self._line(key)]
        dues += [at for one in self._line(key) if (at := one.entry.urgent) is not None]
        return min(dues)

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.batcher.waiting == len(self.model)
        assert set(self.batcher.owners()) == set(self.model)
        assert self.batcher.rows == sum(self._rows(key) for key in KEYS)

    @invariant()
    def the_next_due_time_is_right(self) -> None:
        if not hasattr(self, "model"):
            return
        due = self.batcher.next_due()
        ready = any(map(self._ready, KEYS))
        if due is None:
            assert not self.model
        elif due > self.now:
            assert not ready
            assert due == min(self._due(key) for key in KEYS if self._line(key))
        else:
            assert ready

    @invariant()
    def time_runs_out_when_it_should(self) -> None:
        if not hasattr(self, "model"):
            return
        times: list[float] = []
        for owner in self.model.values():
            policy = self.policies[owner.level]
            for one in owner.entries:
                if one.entry.deadline is not None:
                    times.append(one.entry.deadline)
                untimed = one.late or one.taken or (policy.override and one.entry.limited)
                if policy.timeout is not None and not untimed:
                    times.append(one.arrived + policy.timeout)
        found = self.batcher.next_expiry()
        assert found is None or found > self.now
        if times:  # one may wake too early for what has been taken in part, but never too late
            assert found is not None
            assert found <= min(times)


TestBatcherMachine = BatcherMachine.TestCase
TestBatcherMachine.settings = settings(stateful_step_count=40)
