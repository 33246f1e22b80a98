"""The batcher: single decisions, and a state machine that compares it with a plain list."""

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.compiler.plan import Batching, Queueing
from headrace.runtime.batcher import Batch, Batcher, Entry


def add(batcher: Batcher[str], owner: str, rows: int, now: float, **more: object) -> bool:
    return batcher.add([Entry(owner, rows, **more)], now)  # type: ignore[arg-type]


def sizes(batcher: Batcher[str], now: float) -> list[int]:
    taken: list[int] = []
    while (batch := batcher.take(now)) is not None:
        taken.append(batch.rows)
    return taken


def shown(batch: Batch[str] | None) -> list[tuple[str, int, int]]:
    assert batch is not None
    return [(piece.entry.owner, piece.start, piece.stop) for piece in batch.slices]


def test_b18_batches_are_counted_in_rows() -> None:
    batcher: Batcher[str] = Batcher(Batching(8, 0.0, ()))
    add(batcher, "a", 5, 0.0)
    add(batcher, "b", 5, 0.0)
    assert shown(batcher.take(0.0)) == [("a", 0, 5)]
    assert shown(batcher.take(0.0)) == [("b", 0, 5)]
    assert batcher.take(0.0) is None


def test_b19_the_largest_preferred_size_runs_first() -> None:
    batcher: Batcher[str] = Batcher(Batching(8, 1.0, (4, 8)))
    for index in range(9):
        add(batcher, f"r{index}", 1, 0.0)
    first = batcher.take(0.0)
    assert first is not None
    assert first.rows == 8
    assert batcher.take(0.5) is None
    assert batcher.next_due() == 1.0
    assert sizes(batcher, 1.0) == [1]


def test_b02_a_large_group_is_cut_and_its_end_meets_the_next_request() -> None:
    batcher: Batcher[str] = Batcher(Batching(8, 0.0, ()))
    add(batcher, "many", 37, 0.0)
    add(batcher, "few", 2, 0.0)
    batches = [shown(batcher.take(0.0)) for _ in range(5)]
    assert batches[:4] == [[("many", i, i + 8)] for i in range(0, 32, 8)]
    assert batches[4] == [("many", 32, 37), ("few", 0, 2)]


def test_b21_the_bound_is_exact() -> None:
    batcher: Batcher[str] = Batcher(Batching(1, 0.0, ()), Queueing(4, None, "reject"))
    admitted = [add(batcher, f"r{index}", 1, 0.0) for index in range(20)]
    assert admitted == [True] * 4 + [False] * 16
    assert batcher.waiting == 4


def test_an_idle_worker_does_not_count_as_waiting() -> None:
    batcher: Batcher[str] = Batcher(Batching(1, 0.0, ()), Queueing(1, None, "reject"))
    assert [batcher.add([Entry(f"r{i}", 1)], 0.0, 2) for i in range(5)] == [True] * 3 + [False] * 2


def test_a_batch_waits_for_company_no_longer_than_it_may() -> None:
    batcher: Batcher[str] = Batcher(Batching(4, 0.01, ()))
    add(batcher, "a", 1, 5.0)
    assert batcher.take(5.0) is None
    assert batcher.next_due() == pytest.approx(5.01)
    add(batcher, "b", 1, 5.004)
    assert shown(batcher.take(5.01)) == [("a", 0, 1), ("b", 0, 1)]
    assert batcher.next_due() is None


def test_a_full_batch_does_not_wait() -> None:
    batcher: Batcher[str] = Batcher(Batching(2, 10.0, ()))
    add(batcher, "a", 1, 0.0)
    add(batcher, "b", 1, 0.0)
    assert shown(batcher.take(0.0)) == [("a", 0, 1), ("b", 0, 1)]


def test_only_rows_of_equal_shape_share_a_batch() -> None:
    batcher: Batcher[str] = Batcher(Batching(8, 0.0, ()))
    for owner, key in [("a", 1), ("b", 2), ("c", 1), ("d", 2)]:
        add(batcher, owner, 1, 0.0, key=key)
    assert shown(batcher.take(0.0)) == [("a", 0, 1), ("c", 0, 1)]
    assert shown(batcher.take(0.0)) == [("b", 0, 1), ("d", 0, 1)]


def test_a_higher_level_goes_first() -> None:
    batcher: Batcher[str] = Batcher(Batching(1, 0.0, ()))
    for owner, level in [("low", 3), ("high", 1), ("mid", 2), ("high2", 1)]:
        add(batcher, owner, 1, 0.0, level=level)
    order = [shown(batcher.take(0.0))[0][0] for _ in range(4)]
    assert order == ["high", "high2", "mid", "low"]


def test_b20_what_waits_too_long_is_rejected_and_never_taken() -> None:
    batcher: Batcher[str] = Batcher(Batching(4, 0.0, ()), Queueing(9, 0.2, "reject"))
    add(batcher, "a", 2, 1.0)
    add(batcher, "b", 2, 1.1)
    assert batcher.next_expiry() == pytest.approx(1.2)
    assert batcher.expire(1.19) == []
    assert batcher.expire(1.2) == ["a"]
    assert shown(batcher.take(1.25)) == [("b", 0, 2)]
    assert batcher.expire(9.0) == []


def test_b20_what_waits_too_long_is_delayed_behind_the_others() -> None:
    batcher: Batcher[str] = Batcher(Batching(1, 0.0, ()), Queueing(9, 0.2, "delay"))
    add(batcher, "old", 1, 0.0)
    add(batcher, "new", 1, 0.15)
    assert batcher.expire(0.2) == []
    assert shown(batcher.take(0.2)) == [("new", 0, 1)]
    assert shown(batcher.take(0.2)) == [("old", 0, 1)]


def test_a_deadline_ends_even_what_is_delayed() -> None:
    batcher: Batcher[str] = Batcher(Batching(1, 0.0, ()), Queueing(9, 0.2, "delay"))
    add(batcher, "old", 1, 0.0, deadline=0.5)
    assert batcher.expire(0.3) == []
    assert batcher.next_expiry() == 0.5
    assert batcher.expire(0.5) == ["old"]
    assert batcher.waiting == 0


def test_a_group_of_which_a_part_runs_has_left_the_queue() -> None:
    batcher: Batcher[str] = Batcher(Batching(2, 0.0, ()), Queueing(9, 0.2, "reject"))
    add(batcher, "a", 3, 0.0)
    assert shown(batcher.take(0.0)) == [("a", 0, 2)]
    assert batcher.expire(1.0) == []
    assert shown(batcher.take(1.0)) == [("a", 2, 3)]


def test_a_group_of_which_a_part_runs_still_has_its_deadline() -> None:
    batcher: Batcher[str] = Batcher(Batching(2, 0.0, ()), Queueing(9, 0.2, "reject"))
    add(batcher, "a", 3, 0.0, deadline=0.5)
    assert shown(batcher.take(0.0)) == [("a", 0, 2)]
    assert batcher.expire(0.3) == []
    assert batcher.next_expiry() == 0.5
    assert batcher.expire(0.5) == ["a"]
    assert batcher.take(1.0) is None


@dataclass
class Waiting:
    """What the model knows of an owner's rows."""

    key: int
    level: int
    rows: list[int]
    arrived: float
    deadline: float | None
    order: int
    late: bool = False
    taken: bool = False


class BatcherMachine(RuleBasedStateMachine):
    """Compares the batcher with a plain list of waiting rows."""

    @initialize(
        maximum=st.integers(1, 6),
        wait=st.sampled_from([0.0, 1.0, 3.0]),
        prefer=st.lists(st.integers(1, 6), max_size=2),
        size=st.integers(1, 6),
        timeout=st.sampled_from([None, 2.0, 5.0]),
        action=st.sampled_from(["reject", "delay"]),
    )
    def start(
        self,
        maximum: int,
        wait: float,
        prefer: list[int],
        size: int,
        timeout: float | None,
        action: str,
    ) -> None:
        self.now = 0.0
        self.maximum, self.wait, self.size = maximum, wait, size
        self.timeout, self.delays = timeout, action == "delay"
        self.prefer = tuple(sorted({one for one in prefer if one <= maximum}))
        self.batcher: Batcher[int] = Batcher(
            Batching(maximum, wait, self.prefer), Queueing(size, timeout, action)
        )
        self.model: dict[int, Waiting] = {}
        self.next = 0

    @rule(
        rows=st.integers(1, 9),
        key=st.integers(0, 1),
        level=st.integers(1, 2),
        patience=st.sampled_from([None, 1.0, 4.0]),
    )
    def add(self, rows: int, key: int, level: int, patience: float | None) -> None:
        owner, self.next = self.next, self.next + 1
        deadline = None if patience is None else self.now + patience
        entry = Entry(owner, rows, key, 0, level, deadline)
        assert self.batcher.add([entry], self.now) == (len(self.model) < self.size)
        if len(self.model) < self.size:
            self.model[owner] = Waiting(key, level, list(range(rows)), self.now, deadline, owner)

    @rule(step=st.sampled_from([0.5, 1.0, 2.5]))
    def pass_time(self, step: float) -> None:
        self.now += step
        expected = {
            owner
            for owner, one in self.model.items()
            if (one.deadline is not None and one.deadline <= self.now) or self._rejected(one)
        }
        assert set(self.batcher.expire(self.now)) == expected
        for owner in expected:
            del self.model[owner]
        for one in self.model.values():
            if self._out_of_time(one):
                one.late = True

    def _out_of_time(self, one: Waiting) -> bool:
        return self.timeout is not None and not one.taken and one.arrived + self.timeout <= self.now

    def _rejected(self, one: Waiting) -> bool:
        return self._out_of_time(one) and not self.delays

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        owner = data.draw(st.sampled_from(sorted(self.model)))
        self.batcher.cancel(owner, self.now)
        del self.model[owner]

    @rule()
    def take(self) -> None:
        batch = self.batcher.take(self.now)
        ready = {key for key in (0, 1) if self._ready(key)}
        if batch is None:
            assert not ready
            return
        key = batch.slices[0].entry.key
        assert isinstance(key, int)
        assert key in ready
        waiting = self._rows(key)
        assert batch.rows == sum(piece.stop - piece.start for piece in batch.slices)
        assert 0 < batch.rows <= self.maximum
        if self.prefer and any(size <= waiting for size in self.prefer):
            assert batch.rows == max(size for size in self.prefer if size <= waiting)
        line = self._line(key)
        for piece, owner in zip(batch.slices, line, strict=False):
            assert piece.entry.owner == owner
            one = self.model[owner]
            assert one.rows[: piece.stop - piece.start] == list(range(piece.start, piece.stop))
            del one.rows[: piece.stop - piece.start]
            one.taken = True
            if not one.rows:
                del self.model[owner]

    def _line(self, key: int) -> list[int]:
        found = [owner for owner, one in self.model.items() if one.key == key]
        return sorted(found, key=lambda o: (self.model[o].late, self.model[o].level, o))

    def _rows(self, key: int) -> int:
        return sum(len(one.rows) for one in self.model.values() if one.key == key)

    def _ready(self, key: int) -> bool:
        line = self._line(key)
        if not line:
            return False
        enough = self.prefer[0] if self.prefer else self.maximum
        oldest = min(self.model[owner].arrived for owner in line)
        return self._rows(key) >= enough or oldest + self.wait <= self.now

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        assert self.batcher.waiting == len(self.model)
        assert self.batcher.rows == sum(len(one.rows) for one in self.model.values())

    @invariant()
    def the_next_due_time_is_right(self) -> None:
        if not hasattr(self, "model"):
            return
        due = self.batcher.next_due()
        assert (due is None) == (not self.model)
        if due is not None:
            assert (due <= self.now) == (self._ready(0) or self._ready(1))


TestBatcherMachine = BatcherMachine.TestCase
TestBatcherMachine.settings = settings(stateful_step_count=30)
