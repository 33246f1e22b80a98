"""When workers are started again, and for how long they are waited for."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.isolation.supervisor import (
    ANSWERS,
    SETTLED,
    Standing,
    delay,
    died,
    expected,
    served,
    started,
)


def lives(standing: Standing, now: float, seconds: float) -> tuple[Standing, float]:
    """Let a worker start in a quarter of a second, serve for some and die."""
    standing = served(started(standing, now), now + 0.25)
    now += 0.25 + seconds
    return died(standing, now), now


def test_a_worker_that_served_well_is_started_again_at_once() -> None:
    standing, now = lives(Standing(), 100.0, SETTLED)
    assert standing.due == now


def test_one_that_dies_again_and_again_waits_twice_as_long_each_time() -> None:
    standing, now, waits = Standing(), 0.0, list[float]()
    for _ in range(14):
        standing, now = lives(standing, now, 0.1)
        assert standing.due is not None
        waits.append(round(standing.due - now, 6))
        now = standing.due
    assert waits[:5] == [0.0, 0.1, 0.2, 0.4, 0.8]
    assert waits[-2:] == [30.0, 30.0]


def test_what_was_is_forgotten_after_good_service() -> None:
    standing, now = Standing(), 0.0
    for _ in range(6):
        standing, now = lives(standing, now, 0.1)
    standing, now = lives(standing, now, SETTLED)
    assert standing.due == now
    standing, now = lives(standing, now, 0.1)
    assert standing.due is not None
    assert standing.due > now


def test_many_answers_are_good_service_however_short() -> None:
    standing = served(started(Standing(deaths=5), 0.0), 1.0)
    assert died(standing, 1.5, ANSWERS).due == 1.5
    assert died(standing, 1.5, ANSWERS - 1).deaths == 6


def test_one_that_cannot_be_started_counts_as_dead() -> None:
    standing = died(died(died(Standing(), 1.0), 2.0), 3.0)
    assert standing.due == 3.2


def test_a_long_start_is_no_service() -> None:
    standing = served(started(Standing(), 0.0), 1000.0)
    assert died(standing, 1000.1).deaths == 1
    assert died(replaced(standing), 1000.1).deaths == 3


def replaced(standing: Standing) -> Standing:
    return Standing(2, standing.due, standing.since, standing.takes)


def test_one_is_expected_after_its_delay_and_as_long_as_its_start_took() -> None:
    standing, now = lives(Standing(), 0.0, 0.1)
    standing, now = lives(standing, now, 0.1)
    assert expected(standing, now) == now + 0.1 + 0.25
    assert expected(started(standing, now + 0.1), now + 0.2) == now + 0.1 + 0.25
    assert expected(started(standing, now + 0.1), now + 9) == now + 9
    assert expected(served(standing, now + 1), now + 2) == now + 2


@given(deaths=st.integers(0, 10**6))
def test_no_delay_is_longer_than_half_a_minute_or_shorter_than_the_one_before(deaths: int) -> None:
    assert 0 <= delay(deaths) <= delay(deaths + 1) <= 30
