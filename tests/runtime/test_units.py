"""Who may run when stages share named units, and that nobody waits for ever."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.units import Needs, Turn, Units, totals


def runs(units: Units, *ready: Needs) -> list[bool]:
    turn = Turn(units)
    return [turn.comes(needs) for needs in ready]


def test_there_are_as_many_as_declared_or_as_the_largest_takes() -> None:
    needs = [[("dsp", 2)], [("dsp", 3), ("link", 1)]]
    assert totals([], needs) == {"dsp": 3, "link": 1}
    assert totals([("dsp", 8), ("unused", 1)], needs) == {"dsp": 8, "link": 1}


def test_what_is_taken_comes_back() -> None:
    units = Units({"dsp": 2})
    units.take([("dsp", 2)])
    assert not units.fit([("dsp", 1)])
    units.give([("dsp", 2)])
    assert units.fit([("dsp", 2)])


def test_a_large_taker_keeps_what_is_free_from_small_ones_behind_it() -> None:
    units = Units({"dsp": 2, "link": 1})
    units.take([("dsp", 1)])
    large, small = [("dsp", 2)], [("dsp", 1)]
    assert runs(units, large, small) == [False, False]
    assert runs(units, small, large) == [True, False]
    assert runs(units, large, [("link", 1)], []) == [False, True, True]


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=30),
    st.integers(3, 5),
)
def test_all_run_in_the_end_and_never_more_than_there_are(
    jobs: list[tuple[int, int]], count: int
) -> None:
    """Jobs of so many units that take so many steps; each step the first that may begins."""
    units = Units({"dsp": count})
    waiting, running, passed = list(enumerate(jobs)), list[tuple[int, int]](), 0
    while waiting or running:
        passed += 1
        assert passed < 10 * sum(steps for _, steps in jobs) + 10
        running = [(left - 1, needed) for left, needed in running]
        for _, needed in [one for one in running if one[0] == 0]:
            units.give([("dsp", needed)])
        running = [one for one in running if one[0] > 0]
        turn = Turn(units)
        for index, (_, (needed, steps)) in enumerate(waiting):
            if turn.comes([("dsp", needed)]):
                units.take([("dsp", needed)])
                running.append((steps, needed))
                assert index == 0, "one has overtaken who waits for the same units"
                del waiting[index]
                break
        assert sum(needed for _, needed in running) <= count
