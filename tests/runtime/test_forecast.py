"""What is predicted of a request by what others took, and what is never given up wrongly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.forecast import START, Forecast, Recent

SECONDS = st.floats(0.001, 10.0)


def seen(*seconds: float) -> Recent:
    recent = Recent()
    for one in seconds:
        recent.see(one)
    return recent


def test_nothing_is_known_before_some_were_seen_for_the_first_may_be_slow() -> None:
    assert (Recent().least, Recent().mean) == (None, None)
    assert (seen(*[9.0] * 7).least, seen(*[9.0] * 7).mean) == (None, None)
    assert (seen(*[9.0] * 8).least, seen(*[9.0] * 8).mean) == (9.0, 9.0)
    assert (Forecast().least(START), Forecast().mean(START)) == (0.0, 0.0)


@given(st.lists(SECONDS, min_size=8, max_size=300))
def test_the_least_is_that_of_at_least_the_last_64_and_at_most_128(times: list[float]) -> None:
    least = seen(*times).least
    assert least is not None
    assert min(times[-128:]) <= least <= min(times[-64:])


def test_a_machine_that_gets_slower_is_believed_after_a_while() -> None:
    assert seen(0.001, *[0.5] * 128).least == 0.5
    assert seen(*[0.5] * 70, 0.001).least == 0.001


def test_the_mean_follows_what_happens_now() -> None:
    mean = seen(*[1.0] * 100, *[3.0] * 100).mean
    assert mean is not None
    assert 2.8 < mean < 3.0
    assert seen(*[1.0, 3.0] * 5).mean == pytest.approx(2.0)


def test_what_is_given_up_again_and_again_without_a_try_is_tried_again() -> None:
    recent = seen(*[5.0] * 8)
    for _ in range(15):
        recent.doubt()
    assert recent.least == 5.0
    recent.see(5.0)  # one that ran confirms it
    for _ in range(15):
        recent.doubt()
    assert recent.least == 5.0
    recent.doubt()
    assert recent.least is None


def test_each_place_on_the_way_has_its_own_figures() -> None:
    forecast = Forecast()
    for _ in range(8):
        forecast.answered({START: 1.0, 7: 3.0}, 5.0)
        forecast.answered({START: 11.0, 8: 12.0}, 17.0)
    assert [forecast.least(at) for at in (START, 7, 8, 9)] == [4.0, 2.0, 5.0, 0.0]
    assert forecast.mean(START) == pytest.approx(5.0)
