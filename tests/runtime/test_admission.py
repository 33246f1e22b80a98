"""Which requests are refused at once: for want of memory, or of time."""

import pytest

from headrace.runtime.admission import Admission
from headrace.runtime.forecast import START, Forecast
from headrace.runtime.room import Room


def admission(*, service: float | None = None, step: float = 0.0) -> Admission:
    forecast = Forecast()
    made = Admission([forecast])
    for _ in range(8):
        if service is not None:
            forecast.answered({START: 0.0}, service)
        if step:
            made.started(0, step)
    return made


def test_bytes_in_flight_are_bounded_exactly() -> None:
    room = Room(100)
    assert room.take(60)
    assert not room.take(41)
    assert room.take(40)
    assert not room.take(1)
    room.give(60)
    assert room.held == 40
    assert room.too_large(101)
    assert not room.too_large(100)


def test_nothing_is_refused_for_its_time_while_nothing_is_known() -> None:
    assert admission().refuses(0, 500, 0.001) is None


def test_who_would_wait_too_long_is_refused_and_told_when_to_come_again() -> None:
    made = admission(service=0.5, step=0.25)
    assert made.refuses(0, 2, 1.25) is None  # a quarter more than it should take
    refused = made.refuses(0, 4, 1.25)
    assert refused is not None
    assert refused.retry_after == pytest.approx(0.625)
    assert refused.reason == "it may take 1.88 s, and its deadline is in 1.25 s"


def test_who_has_no_deadline_is_never_refused_for_his_time() -> None:
    assert admission(service=0.5, step=0.25).refuses(0, 400, None) is None


def test_who_finds_nobody_ahead_is_let_in_to_show_how_fast_the_line_moves() -> None:
    made = admission(service=5.0, step=5.0)
    assert made.refuses(0, 1, 1.0) is not None
    assert made.refuses(0, 0, 1.0) is None


def test_where_nothing_is_to_be_predicted_no_time_counts() -> None:
    made = Admission([None])
    for _ in range(8):
        made.started(0, 5.0)
    assert made.refuses(0, 100, 0.001) is None
    assert made.wait(0, 2) == 10.0
