"""Sequences under any history: bounds are exact, order is kept, each turn is told once."""

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.runtime.request import Code, Fault, InSequence
from headrace.runtime.sequences import Places, SequenceStore, Turn

MOST, BACKLOG, IDLE = 2, 2, 10.0
IDS = st.sampled_from(["a", "b", "c", "d", "e", 1])


class Histories(RuleBasedStateMachine):
    """Asks, runs, fails, takes back and ends, and keeps account of it in plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SequenceStore("p", [np.int64(0)], Places(IDLE, MOST, BACKLOG, numbered=True))
        self.now = 0.0
        self.lines: dict[str | int, list[Turn]] = {}  # of turns that are not finished
        self.told: set[Turn] = set()
        self.running: list[Turn] = []
        self.kept: dict[str | int, int] = {}
        self.cut: set[Turn] = set()  # behind which a start failed or was taken back
        self.asked = 0

    def tell(self, turns: object) -> None:
        assert isinstance(turns, list | tuple)
        for turn in turns:
            assert turn not in self.told
            assert self.store.may_begin(turn)
            self.told.add(turn)

    def forget(self) -> None:
        known = self.store._entries  # pyright: ignore[reportPrivateUsage]
        for id in [id for id in self.kept if id not in known]:
            del self.kept[id]

    @rule(id=IDS, start=st.booleans(), end=st.booleans())
    def ask(self, id: str | int, start: bool, end: bool) -> None:
        live, waiting = len(self.store), self.store.waiting
        known = id in self.kept or bool(self.lines.get(id))
        full = live == MOST and waiting == BACKLOG
        if not known and (full or not start):
            with pytest.raises(Fault) as refused:
                self.store.ask(InSequence(id, start, end))
            assert refused.value.code is (Code.OVERLOADED if start else Code.INVALID)
            return
        turn = self.store.ask(InSequence(id, start, end))
        self.lines.setdefault(id, []).append(turn)
        if self.store.may_begin(turn):
            self.told.add(turn)

    @precondition(lambda self: self.told - set(self.running))
    @rule(pick=st.integers(0, 99))
    def begin(self, pick: int) -> None:
        ready = [turn for turn in self.told if turn not in self.running]
        ready.sort(key=lambda turn: str(turn.sequence.id))
        turn = ready[pick % len(ready)]
        id = turn.sequence.id
        assert self.lines[id][0] is turn
        try:
            (value,) = self.store.begin(turn)
        except Fault:
            assert not turn.sequence.start
            assert id not in self.kept
            self.leave(turn, None)
            return
        if turn.sequence.start:
            self.kept.pop(id, None)
            assert value == 0
        else:
            assert value == self.kept[id]
        self.running.append(turn)

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 99), succeeds=st.booleans())
    def finish(self, pick: int, succeeds: bool) -> None:
        turn = self.running.pop(pick % len(self.running))
        self.asked += 1
        self.leave(turn, self.asked if succeeds else None)

    @precondition(lambda self: any(self.lines.values()))
    @rule(pick=st.integers(0, 99))
    def take_back(self, pick: int) -> None:
        waiting = [
            turn for line in self.lines.values() for turn in line if turn not in self.running
        ]
        if waiting:
            self.leave(waiting[pick % len(waiting)], None)

    def leave(self, turn: Turn, value: int | None) -> None:
        id, line = turn.sequence.id, self.lines[turn.sequence.id]
        index = line.index(turn)
        line.remove(turn)
        self.told.discard(turn)
        if value is None and (turn.sequence.start or turn in self.cut):
            if index:
                self.cut.add(line[index - 1])
            else:
                self.kept.pop(id, None)
        elif value is not None and (turn.sequence.end or turn in self.cut):
            self.kept.pop(id, None)
        elif value is not None:
            self.kept[id] = value
        self.tell(self.store.finish(turn, None if value is None else [np.int64(value)], self.now))
        self.forget()

    @rule(id=IDS)
    def end(self, id: str | int) -> None:
        self.tell(self.store.end(id))
        self.forget()

    @rule(seconds=st.sampled_from([1.0, 4.0, IDLE]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.tell(self.store.expire(self.now))
        due = self.store.next_expiry()
        assert due is None or due > self.now
        self.forget()

    @invariant()
    def bounds_hold(self) -> None:
        assert 0 <= len(self.store) <= MOST
        assert 0 <= self.store.waiting <= BACKLOG
        assert not self.store.waiting or len(self.store) == MOST

    @invariant()
    def every_first_turn_is_told_or_waits_for_a_place(self) -> None:
        waiting = 0
        slots: list[int] = []
        for line in self.lines.values():
            if line and line[0] not in self.told:
                waiting += 1
                assert line[0].sequence.start
            if line and line[0].slot is not None:
                slots.append(line[0].slot)
        assert waiting <= self.store.waiting
        assert len(set(slots)) == len(slots)
        assert all(0 <= slot < MOST for slot in slots)


TestHistories = Histories.TestCase
TestHistories.settings = settings(stateful_step_count=60)
