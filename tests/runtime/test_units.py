"""Who may run when stages share named units, and how often; that nobody waits for ever."""

import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.standstill import standing_still
from headrace.runtime.units import Claim, Head, Holding, Needs, Units
from tests.runtime.drivers import LONG


class Engine:
    """Claims units, and hears when it may have them."""

    def __init__(self) -> None:
        self.called = threading.Semaphore(0)

    def wake(self) -> None:
        self.called.release()


ONE: Needs = [("dsp", 1)]
ALL: Needs = [("dsp", 2)]


@pytest.fixture
def units() -> Iterator[Units]:
    made = Units()
    yield made
    made.close()


def head(since: float, level: int = 1) -> Head:
    return (False, level), since


def claims(engine: Engine, *needs: Needs) -> list[Claim]:
    return [Claim(engine, f"stage {i}", one) for i, one in enumerate(needs)]


def held(units: Units, claim: Claim, since: float = 0.0) -> Holding:
    found = units.take(claim, head(since))
    assert found is not None
    return found


def test_there_are_as_many_as_declared_or_as_the_largest_takes(units: Units) -> None:
    stock = units.join([], [[("dsp", 2)], [("dsp", 3), ("link", 1)]])
    assert units.fit([("dsp", 3), ("link", 1)])
    assert not units.fit([("dsp", 4)])
    other = units.join([("dsp", 8), ("unused", 1)], [[("dsp", 5)]])
    assert units.fit([("dsp", 8)])
    assert not units.fit([("unused", 1)])
    units.part(other)
    assert not units.fit([("dsp", 4)])
    units.part(stock)
    assert not units.fit([("link", 1)])


def test_what_is_taken_comes_back(units: Units) -> None:
    units.join([], [ALL])
    engine = Engine()
    (claim,) = claims(engine, ALL)
    holding = held(units, claim)
    assert not units.fit(ONE)
    assert units.taken(engine) == 2
    units.give(holding)
    assert units.fit(ALL)
    assert units.taken(engine) == 0


def test_what_works_on_behind_a_run_holds_its_units(units: Units) -> None:
    units.join([], [ALL])
    (claim,) = claims(Engine(), ALL)
    holding = held(units, claim)
    holding.share()
    units.give(holding)
    assert not units.fit(ONE)
    holding.leave()
    assert units.fit(ALL)


def test_a_large_taker_keeps_what_is_free_from_small_ones_behind_it(units: Units) -> None:
    units.join([], [ALL, [("link", 1)]])
    engine = Engine()
    first, large, small, link = claims(engine, ONE, ALL, ONE, [("link", 1)])
    held(units, first)
    able = units.ask(engine, {large: head(1.0), small: head(2.0), link: head(3.0)})
    assert [one in able for one in (large, small, link)] == [False, False, True]
    able = units.ask(engine, {large: head(2.0), small: head(1.0)})
    assert [one in able for one in (large, small)] == [False, True]


def test_one_of_another_engine_waits_its_turn_and_is_called(units: Units) -> None:
    units.join([], [ONE])
    here, there = Engine(), Engine()
    (mine,), (other,) = claims(here, ONE), claims(there, ONE)
    holding = held(units, mine)
    assert other not in units.ask(there, {other: head(1.0)})
    assert mine not in units.ask(here, {mine: head(2.0)})
    units.give(holding)
    assert there.called.acquire(timeout=LONG)
    assert units.take(mine, head(2.0)) is None  # who came first has not come yet
    following = held(units, other, 1.0)
    units.give(following)
    assert here.called.acquire(timeout=LONG)
    held(units, mine, 2.0)


@pytest.mark.parametrize("gives_up", ["ask", "later"])
def test_who_is_in_the_way_and_wants_none_lets_others_by(units: Units, gives_up: str) -> None:
    units.join([], [ALL])
    here, there = Engine(), Engine()
    busy, large = claims(here, ONE, ALL)
    (small,) = claims(there, ONE)
    held(units, busy)
    assert large not in units.ask(here, {large: head(1.0)})
    assert small not in units.ask(there, {small: head(2.0)})
    units.ask(here, {} if gives_up == "ask" else {large: head(3.0)})
    assert there.called.acquire(timeout=LONG)
    held(units, small, 2.0)


def run_always(units: Units, claims: list[Claim], times: int) -> Counter[str]:
    """Let stages that always have something run, one at a time."""
    counts: Counter[str] = Counter()
    for turn in range(times):
        wanted = {claim: head(float(turn)) for claim in claims}
        able = units.ask(claims[0].claimant, wanted)
        (claim,) = [one for one in claims if one in able]
        counts[claim.name] += 1
        units.give(held(units, claim, float(turn)))
    return counts


def test_who_weighs_twice_as_much_runs_half_as_often(units: Units) -> None:
    units.join([], [ONE])
    engine = Engine()
    light, heavy = Claim(engine, "light", ONE, 1), Claim(engine, "heavy", ONE, 2)
    assert run_always(units, [light, heavy], 90) == {"light": 60, "heavy": 30}


def test_who_comes_late_is_owed_nothing(units: Units) -> None:
    units.join([], [ONE])
    engine = Engine()
    before, after = Claim(engine, "before", ONE, 1), Claim(engine, "after", ONE, 1)
    run_always(units, [before], 1000)
    counts = run_always(units, [before, after], 100)
    assert abs(counts["before"] - counts["after"]) <= 2


def test_a_model_in_several_engines_has_its_turns_once(units: Units) -> None:
    units.join([], [ONE])
    engine = Engine()
    both = [Claim(engine, "model", ONE, 1) for _ in range(2)]
    other = Claim(engine, "other", ONE, 1)
    counts = run_always(units, [*both, other], 90)
    assert counts["other"] >= 29


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=30),
    st.integers(3, 5),
    st.integers(1, 3),
)
def test_all_run_in_the_end_and_never_more_than_there_are(
    jobs: list[tuple[int, int]], count: int, engines: int
) -> None:
    """Jobs of so many units that take so many steps; each step the first that may begins."""
    units = Units()
    units.join([("dsp", count)], [[("dsp", needed)] for needed, _ in jobs])
    owners = [Engine() for _ in range(engines)]
    waiting = [
        (Claim(owners[i % engines], f"{i}", [("dsp", needed)]), head(float(i)), needed, steps)
        for i, (needed, steps) in enumerate(jobs)
    ]
    running, passed = list[tuple[int, int, Holding]](), 0
    while waiting or running:
        passed += 1
        assert passed < 10 * sum(steps for _, steps in jobs) + 10
        running = [(left - 1, needed, holding) for left, needed, holding in running]
        for _, _, holding in [one for one in running if one[0] == 0]:
            units.give(holding)
        running = [one for one in running if one[0] > 0]
        for owner in owners:
            units.ask(owner, {one: at for one, at, *_ in waiting if one.claimant is owner})
        for index, (claim, at, needed, steps) in enumerate(waiting):
            if (holding := units.take(claim, at)) is not None:
                running.append((steps, needed, holding))
                assert index == 0, "one has overtaken who waits for the same units"
                del waiting[index]
                break
        assert sum(needed for _, needed, _ in running) <= count
    units.close()


def test_who_waits_for_what_he_holds_stands_still() -> None:
    runs = {"outer": [("R", 1)]}
    assert standing_still({"R": 0}, runs, {"inner": ([("R", 1)], {"outer"})}) == {"inner"}
    assert standing_still({"R": 1}, runs, {"inner": ([("R", 1)], {"outer"})}) == set()
    assert standing_still({"R": 0}, runs, {"inner": ([("R", 1)], set())}) == set()


def test_who_waits_for_one_that_will_end_goes_on() -> None:
    runs = {"outer": [("R", 1)], "other": [("S", 1)]}
    assert standing_still({"S": 0}, runs, {"inner": ([("S", 1)], {"outer"})}) == set()
    crossed = {"one": ([("S", 1)], {"outer"}), "two": ([("R", 1)], {"other"})}
    assert standing_still({"R": 0, "S": 0}, runs, crossed) == {"one", "two"}
    assert standing_still({"R": 1, "S": 0}, runs, crossed) == set()


def test_two_that_each_hold_half_stand_still() -> None:
    runs = {"one": [("R", 1)], "two": [("R", 1)]}
    both = {"three": ([("R", 1)], {"one", "two"})}
    assert standing_still({"R": 0}, runs, both) == {"three"}
    assert standing_still({"R": 0}, runs | {"four": [("R", 1)]}, both) == set()
