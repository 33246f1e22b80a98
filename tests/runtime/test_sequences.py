"""What is kept of a sequence, in which order its requests run, and when it is forgotten."""

import numpy as np
import pytest

from headrace.runtime.request import Code, Fault, InSequence
from headrace.runtime.rows import Rows
from headrace.runtime.sequences import SequenceStore, Turn

FIRST = [Rows.one(np.zeros(1))]


def store(most: int = 4) -> SequenceStore:
    return SequenceStore("vad", FIRST, 30.0, most)


def left(value: float) -> list[Rows]:
    return [Rows.one(np.array([value]))]


def held(values: object) -> float:
    assert isinstance(values, list)
    return float(values[0].item(0)[0])


def ran(kept: SequenceStore, point: InSequence, value: float, now: float = 0.0) -> float:
    """Run a request that leaves `value`; return what it began with."""
    turn = kept.ask(point, now)
    began = held(kept.begin(turn))
    kept.finish(turn, left(value), now)
    return began


def test_a_request_begins_with_what_the_one_before_has_left() -> None:
    kept = store()
    assert ran(kept, InSequence(7, start=True), 1) == 0
    assert ran(kept, InSequence(7), 2) == 1
    assert ran(kept, InSequence("7", start=True), 5) == 0
    assert ran(kept, InSequence(7), 3) == 2


def test_a_failed_request_leaves_what_was_there() -> None:
    kept = store()
    ran(kept, InSequence(7, start=True), 1)
    failing = kept.ask(InSequence(7), 0.0)
    kept.begin(failing)
    kept.finish(failing, None, 0.0)
    assert ran(kept, InSequence(7), 2) == 1


def test_a_restart_begins_anew_and_forgets_even_when_it_fails() -> None:
    kept = store()
    ran(kept, InSequence(7, start=True), 1)
    assert ran(kept, InSequence(7, start=True), 2) == 0
    failing = kept.ask(InSequence(7, start=True), 0.0)
    kept.begin(failing)
    kept.finish(failing, None, 0.0)
    with pytest.raises(Fault, match="nothing is kept of sequence 7"):
        kept.ask(InSequence(7), 0.0)


def test_b24_what_was_not_started_has_ended_or_was_silent_is_refused() -> None:
    kept = store()
    for point in (InSequence("a"), InSequence("a", end=True)):
        with pytest.raises(Fault, match="nothing is kept of sequence 'a'") as error:
            kept.ask(point, 0.0)
        assert error.value.code is Code.INVALID
    ran(kept, InSequence("a", start=True), 1)
    ran(kept, InSequence("a", end=True), 2)
    with pytest.raises(Fault, match="has ended"):
        kept.ask(InSequence("a"), 0.0)
    ran(kept, InSequence("a", start=True), 1, now=10.0)
    with pytest.raises(Fault, match="silent for 30 s"):
        kept.ask(InSequence("a"), 40.0)
    assert len(kept) == 0
    assert ran(kept, InSequence("a", start=True), 1, now=50.0) == 0


def test_b24_a_sequence_that_never_ends_is_dropped_once_and_only_when_silent() -> None:
    kept = store()
    ran(kept, InSequence(1, start=True), 1, now=0.0)
    ran(kept, InSequence(2, start=True), 1, now=5.0)
    ran(kept, InSequence(1), 1, now=20.0)
    assert kept.next_expiry() == 35.0
    assert [kept.expire(34.0), kept.expire(35.0), kept.expire(35.0)] == [0, 1, 0]
    assert kept.next_expiry() == 50.0
    busy = kept.ask(InSequence(1), 49.0)
    assert kept.next_expiry() is None
    assert kept.expire(1000.0) == 0
    kept.begin(busy)
    kept.finish(busy, left(2), 1000.0)
    assert kept.next_expiry() == 1030.0


def test_turns_come_in_the_order_in_which_they_are_asked_for() -> None:
    kept = store()
    turns = [kept.ask(InSequence(1, start=i == 0), 0.0) for i in range(3)]
    assert [kept.is_first(turn) for turn in turns] == [True, False, False]
    assert kept.finish(turns[1], None, 0.0) is None  # cancelled while it waits
    kept.begin(turns[0])
    following = kept.finish(turns[0], left(4), 0.0)
    assert following is turns[2]
    assert isinstance(following, Turn)
    assert held(kept.begin(following)) == 4


def test_there_is_room_for_so_many_sequences_and_no_more() -> None:
    kept = store(most=2)
    ran(kept, InSequence(1, start=True), 1)
    ran(kept, InSequence(2, start=True), 1)
    with pytest.raises(Fault, match="2 sequences are open already") as error:
        kept.ask(InSequence(3, start=True), 1.0)
    assert error.value.code is Code.OVERLOADED
    ran(kept, InSequence(1, end=True), 1)
    assert ran(kept, InSequence(3, start=True), 1) == 0


def test_a_sequence_ends_when_those_of_its_requests_that_wait_are_done() -> None:
    kept = store()
    turn = kept.ask(InSequence(1, start=True), 0.0)
    kept.end(1)
    kept.begin(turn)
    kept.finish(turn, left(1), 0.0)
    assert len(kept) == 0
    ran(kept, InSequence(1, start=True), 1)
    kept.end(1)
    kept.end(1)
    assert len(kept) == 0
    assert kept.next_expiry() is None
