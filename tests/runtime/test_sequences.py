"""What is kept of a sequence, in which order its requests run, and when it is forgotten."""

import numpy as np
import pytest

from headrace.runtime.request import Code, Fault, InSequence
from headrace.runtime.sequences import Places, SequenceStore, Turn


def store(most: int = 4, backlog: int = 0, *, numbered: bool = False) -> SequenceStore:
    return SequenceStore("vad", [np.float64(0)], Places(30.0, most, backlog, numbered))


def ask(kept: SequenceStore, point: InSequence, now: float = 0.0) -> Turn:
    kept.expire(now)
    return kept.ask(point)


def ran(kept: SequenceStore, point: InSequence, value: float, now: float = 0.0) -> float:
    """Run a request that leaves `value`; return what it began with."""
    turn = ask(kept, point, now)
    (began,) = kept.begin(turn)
    kept.finish(turn, [np.float64(value)], now)
    assert isinstance(began, float)
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
    failing = ask(kept, InSequence(7))
    kept.begin(failing)
    kept.finish(failing, None, 0.0)
    assert ran(kept, InSequence(7), 2) == 1


def test_a_restart_begins_anew_and_forgets_even_when_it_fails() -> None:
    kept = store()
    ran(kept, InSequence(7, start=True), 1)
    assert ran(kept, InSequence(7, start=True), 2) == 0
    failing = ask(kept, InSequence(7, start=True))
    kept.begin(failing)
    kept.finish(failing, None, 0.0)
    with pytest.raises(Fault, match="nothing is kept of sequence 7"):
        ask(kept, InSequence(7))


def test_a_restart_forgets_also_when_it_is_given_up_before_it_begins() -> None:
    kept = store()
    ran(kept, InSequence(7, start=True), 1)
    before, start, after = [ask(kept, InSequence(7, start=i == 1)) for i in range(3)]
    assert kept.begin(before) == [1]
    assert kept.finish(start, None, 0.0) == ()
    assert kept.finish(before, [np.float64(2)], 0.0) == (after,)
    with pytest.raises(Fault, match="nothing is kept of sequence 7"):
        kept.begin(after)  # from what `before` has left


def test_what_is_forgotten_stays_so_whoever_else_is_given_up() -> None:
    kept = store()
    ran(kept, InSequence(7, start=True), 1)
    first, second, start, after = [ask(kept, InSequence(7, start=i == 2)) for i in range(4)]
    for given_up in (start, second, first):
        kept.finish(given_up, None, 0.0)
    with pytest.raises(Fault, match="nothing is kept of sequence 7"):
        kept.begin(after)


def test_b24_what_was_not_started_has_ended_or_was_silent_is_refused() -> None:
    kept = store()
    for point in (InSequence("a"), InSequence("a", end=True)):
        with pytest.raises(Fault, match="nothing is kept of sequence 'a'") as error:
            ask(kept, point)
        assert error.value.code is Code.INVALID
    ran(kept, InSequence("a", start=True), 1)
    ran(kept, InSequence("a", end=True), 2)
    with pytest.raises(Fault, match="has ended"):
        ask(kept, InSequence("a"))
    ran(kept, InSequence("a", start=True), 1, now=10.0)
    with pytest.raises(Fault, match="silent for 30 s"):
        ask(kept, InSequence("a"), 40.0)
    assert len(kept) == 0
    assert ran(kept, InSequence("a", start=True), 1, now=50.0) == 0


def test_b24_a_sequence_that_never_ends_is_dropped_once_and_only_when_silent() -> None:
    kept = store()
    ran(kept, InSequence(1, start=True), 1, now=0.0)
    ran(kept, InSequence(2, start=True), 1, now=5.0)
    ran(kept, InSequence(1), 1, now=20.0)
    assert kept.next_expiry() == 35.0
    kept.expire(34.0)
    assert len(kept) == 2
    kept.expire(35.0)
    assert len(kept) == 1
    assert kept.next_expiry() == 50.0
    busy = ask(kept, InSequence(1), 49.0)
    assert kept.next_expiry() is None
    kept.expire(1000.0)
    assert len(kept) == 1
    kept.begin(busy)
    kept.finish(busy, [np.float64(2)], 1000.0)
    assert kept.next_expiry() == 1030.0


def test_turns_come_in_the_order_in_which_they_are_asked_for() -> None:
    kept = store()
    turns = [ask(kept, InSequence(1, start=i == 0)) for i in range(4)]
    assert [kept.may_begin(turn) for turn in turns] == [True, False, False, False]
    assert kept.finish(turns[1], None, 0.0) == ()  # cancelled while it waits
    kept.begin(turns[0])
    assert kept.finish(turns[0], [np.float64(4)], 0.0) == (turns[2],)
    assert kept.begin(turns[2]) == [np.float64(4)]
    assert kept.finish(turns[2], None, 0.0) == (turns[3],)


def test_so_many_sequences_live_and_so_many_wait_and_no_more() -> None:
    kept = store(most=2, backlog=1)
    ran(kept, InSequence(1, start=True), 1)
    second = ask(kept, InSequence(2, start=True))
    third = ask(kept, InSequence(3, start=True))
    assert [kept.may_begin(second), kept.may_begin(third)] == [True, False]
    assert (len(kept), kept.waiting) == (2, 1)
    told = "2 sequences are open already, which is the most, and 1 wait for a place"
    with pytest.raises(Fault, match=told) as error:
        ask(kept, InSequence(4, start=True))
    assert error.value.code is Code.OVERLOADED
    kept.begin(second)
    assert kept.finish(second, None, 0.0) == (third,)  # one whose first request fails has no place
    assert kept.may_begin(third)
    assert (len(kept), kept.waiting) == (2, 0)


def test_without_a_back_log_one_too_many_is_refused_until_another_has_ended() -> None:
    kept = store(most=2)
    ran(kept, InSequence(1, start=True), 1)
    ran(kept, InSequence(2, start=True), 1)
    with pytest.raises(Fault, match="2 sequences are open already, which is the most; end some"):
        ask(kept, InSequence(3, start=True))
    assert ran(kept, InSequence(1, start=True), 1) == 0  # whose place it has
    ran(kept, InSequence(1, end=True), 1)
    assert ran(kept, InSequence(3, start=True), 1) == 0


def test_places_go_to_those_that_wait_in_order_whatever_frees_them() -> None:
    kept = store(most=1, backlog=9)
    ran(kept, InSequence("ended", start=True), 1)
    waiting = [ask(kept, InSequence(i, start=True)) for i in range(5)]
    last = ask(kept, InSequence("ended", end=True))
    kept.begin(last)
    assert kept.finish(last, [np.float64(2)], 0.0) == (waiting[0],)
    kept.begin(waiting[0])
    assert kept.finish(waiting[0], [np.float64(1)], 0.0) == ()
    assert kept.finish(waiting[1], None, 0.0) == ()  # which has not waited long enough
    assert kept.end(0) == (waiting[2],)
    kept.begin(waiting[2])
    kept.finish(waiting[2], [np.float64(1)], 0.0)
    assert kept.expire(29.0) == []
    assert kept.expire(30.0) == [waiting[3]]
    assert (len(kept), kept.waiting) == (1, 1)


def test_a_new_sequence_does_not_overtake_those_that_wait() -> None:
    kept = store(most=1, backlog=9)
    ran(kept, InSequence(1, start=True), 1)
    first = ask(kept, InSequence(2, start=True), 10.0)
    second = ask(kept, InSequence(3, start=True), 20.0)
    assert kept.expire(30.0) == [first]
    third = kept.ask(InSequence(4, start=True))
    assert not kept.may_begin(third)
    kept.begin(first)
    assert kept.finish(first, None, 30.0) == (second,)


def test_who_goes_on_from_a_start_that_was_taken_back_need_not_wait_to_be_refused() -> None:
    kept = store(most=1, backlog=1)
    busy = ask(kept, InSequence(1, start=True))
    start, following, again = [ask(kept, InSequence(2, start=i != 1)) for i in range(3)]
    assert kept.finish(start, None, 0.0) == (following,)
    kept.begin(busy)
    assert kept.finish(busy, None, 0.0) == ()  # it is under way already
    with pytest.raises(Fault, match="nothing is kept of sequence 2"):
        kept.begin(following)
    assert kept.finish(following, None, 0.0) == (again,)
    assert kept.begin(again) == [np.float64(0)]


def test_a_place_has_a_number_while_its_sequence_lives() -> None:
    kept = store(most=2, backlog=1, numbered=True)
    first, second, third = (ask(kept, InSequence(i, start=True)) for i in range(3))
    assert [first.slot, second.slot, third.slot] == [0, 1, None]
    kept.begin(first)
    assert kept.finish(first, None, 0.0) == (third,)
    assert third.slot == 0
    again = ask(kept, InSequence(1))
    assert again.slot == 1


def test_what_is_to_be_done_is_said_in_the_words_of_who_asks() -> None:
    kept = store()
    with pytest.raises(Fault, match=r"`restart\(\)` lets its next call begin it anew"):
        ask(kept, InSequence(1))
    with pytest.raises(Fault, match="its first request says so with sequence_start"):
        ask(kept, InSequence(1, remote=True))


def test_a_number_is_no_text() -> None:
    kept = store()
    ran(kept, InSequence(1, start=True), 5)
    with pytest.raises(Fault, match="sequence '1'"):
        ask(kept, InSequence("1"))
    ran(kept, InSequence("1", start=True), 6)
    assert [ran(kept, InSequence(1), 0), ran(kept, InSequence("1"), 0)] == [5, 6]


def test_a_sequence_ends_when_those_of_its_requests_that_wait_are_done() -> None:
    kept = store()
    turn = ask(kept, InSequence(1, start=True))
    kept.end(1)
    kept.begin(turn)
    kept.finish(turn, [np.float64(1)], 0.0)
    assert len(kept) == 0
    ran(kept, InSequence(1, start=True), 1)
    kept.end(1)
    kept.end(1)
    assert len(kept) == 0
    assert kept.next_expiry() is None


def test_a_start_behind_an_end_is_kept() -> None:
    kept = store()
    last = ask(kept, InSequence(1, start=True))
    kept.end(1)
    again = ask(kept, InSequence(1, start=True))
    kept.begin(last)
    assert kept.finish(last, [np.float64(1)], 0.0) == (again,)
    assert kept.begin(again) == [0.0]
    kept.finish(again, [np.float64(2)], 0.0)
    assert ran(kept, InSequence(1), 3) == 2
