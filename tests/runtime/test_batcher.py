"""The batcher's single decisions; `test_batcher_machine.py` compares it with a plain list."""

import pytest

from headrace.compiler.policies import Batching, Queueing
from headrace.runtime.batcher import Batch, Batcher
from headrace.runtime.line import Entry


def add(batcher: Batcher[str], owner: str, rows: int, now: float, **more: object) -> bool:
    return batcher.add([Entry(owner, rows, **more)], now)  # type: ignore[arg-type]


def sizes(batcher: Batcher[str], now: float) -> list[int]:
    taken: list[int] = []
    while (batch := batcher.take(now)) is not None:
        taken.append(batch.rows)
    return taken


def expired(batcher: Batcher[str], now: float) -> list[str]:
    return [owner for owner, _ in batcher.expire(now)]


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


def test_what_is_as_large_as_a_batch_is_not_cut() -> None:
    batcher: Batcher[str] = Batcher(Batching(4, 0.0, ()))
    add(batcher, "a", 1, 0.0)
    add(batcher, "b", 4, 0.0)
    assert shown(batcher.take(0.0)) == [("a", 0, 1)]
    assert shown(batcher.take(0.0)) == [("b", 0, 4)]


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
    assert expired(batcher, 1.19) == []
    assert expired(batcher, 1.2) == ["a"]
    assert shown(batcher.take(1.25)) == [("b", 0, 2)]
    assert expired(batcher, 9.0) == []


def test_b20_what_waits_too_long_is_delayed_behind_the_others() -> None:
    batcher: Batcher[str] = Batcher(Batching(1, 0.0, ()), Queueing(9, 0.2, "delay"))
    add(batcher, "old", 1, 0.0)
    add(batcher, "new", 1, 0.15)
    assert expired(batcher, 0.2) == []
    assert shown(batcher.take(0.2)) == [("new", 0, 1)]
    assert shown(batcher.take(0.2)) == [("old", 0, 1)]


def test_a_deadline_ends_even_what_is_delayed() -> None:
    batcher: Batcher[str] = Batcher(Batching(1, 0.0, ()), Queueing(9, 0.2, "delay"))
    add(batcher, "old", 1, 0.0, deadline=0.5)
    assert expired(batcher, 0.3) == []
    assert batcher.next_expiry() == 0.5
    assert batcher.expire(0.5) == [("old", True)]
    assert batcher.waiting == 0


def test_a_group_of_which_a_part_runs_has_left_the_queue() -> None:
    batcher: Batcher[str] = Batcher(Batching(2, 0.0, ()), Queueing(9, 0.2, "reject"))
    add(batcher, "a", 3, 0.0)
    assert shown(batcher.take(0.0)) == [("a", 0, 2)]
    assert expired(batcher, 1.0) == []
    assert shown(batcher.take(1.0)) == [("a", 2, 3)]


def test_a_group_of_which_a_part_runs_still_has_its_deadline() -> None:
    batcher: Batcher[str] = Batcher(Batching(2, 0.0, ()), Queueing(9, 0.2, "reject"))
    add(batcher, "a", 3, 0.0, deadline=0.5)
    assert shown(batcher.take(0.0)) == [("a", 0, 2)]
    assert expired(batcher, 0.3) == []
    assert batcher.next_expiry() == 0.5
    assert expired(batcher, 0.5) == ["a"]
    assert batcher.take(1.0) is None


def test_each_level_is_bounded_by_its_own_policy() -> None:
    low = Queueing(1)
    batcher: Batcher[str] = Batcher(Batching(1), Queueing(2, levels=((3, low),)))
    admitted = [add(batcher, f"low{i}", 1, 0.0, level=3) for i in range(3)]
    admitted += [add(batcher, f"high{i}", 1, 0.0, level=1) for i in range(3)]
    assert admitted == [True, False, False, True, True, False]
    batcher.cancel("low0", 0.0)
    assert not add(batcher, "high", 1, 0.0, level=2)
    assert add(batcher, "low", 1, 0.0, level=3)


def test_an_idle_worker_is_not_counted_for_two_levels() -> None:
    low = Queueing(1)
    batcher: Batcher[str] = Batcher(Batching(1), Queueing(1, levels=((2, low),)))
    assert batcher.add([Entry("a", 1)], 0.0, 1)
    assert batcher.add([Entry("b", 1)], 0.0, 1)
    assert batcher.add([Entry("c", 1, level=2)], 0.0, 1)
    assert not batcher.add([Entry("d", 1, level=2)], 0.0, 1)


def test_one_level_is_rejected_and_another_delayed_each_after_its_own_timeout() -> None:
    low = Queueing(9, 0.1, "reject")
    batcher: Batcher[str] = Batcher(Batching(1), Queueing(9, 0.2, "delay", levels=((2, low),)))
    add(batcher, "low", 1, 0.0, level=2)
    add(batcher, "high", 1, 0.0)
    assert expired(batcher, 0.15) == ["low"]
    add(batcher, "new", 1, 0.15)
    assert expired(batcher, 0.2) == []
    assert shown(batcher.take(0.2)) == [("new", 0, 1)]
    assert shown(batcher.take(0.2)) == [("high", 0, 1)]


@pytest.mark.parametrize(("override", "dropped"), [(True, []), (False, ["own"])])
def test_a_caller_who_sets_a_limit_waits_as_long_as_that_where_he_may(
    override: bool, dropped: list[str]
) -> None:
    batcher: Batcher[str] = Batcher(Batching(1), Queueing(9, 0.2, "reject", override))
    add(batcher, "own", 1, 0.0, deadline=0.5, limited=True)
    add(batcher, "none", 1, 0.0)
    assert sorted(expired(batcher, 0.3)) == sorted(["none", *dropped])
    assert expired(batcher, 0.5) == ([] if dropped else ["own"])


def test_what_is_urgent_takes_the_others_along_before_they_have_waited() -> None:
    batcher: Batcher[str] = Batcher(Batching(8, 0.5))
    add(batcher, "a", 1, 0.0)
    add(batcher, "b", 1, 0.1, urgent=0.2)
    assert batcher.take(0.1) is None
    assert batcher.next_due() == 0.2
    assert shown(batcher.take(0.2)) == [("a", 0, 1), ("b", 0, 1)]


def test_in_a_hurry_nobody_waits_until_somebody_else_has_come() -> None:
    batcher: Batcher[str] = Batcher(Batching(8, 0.5))
    add(batcher, "a", 1, 0.0)
    add(batcher, "b", 1, 0.0, key=1, level=2)
    batcher.hurry(0.1)
    assert shown(batcher.take(0.1)) == [("a", 0, 1)]
    add(batcher, "c", 1, 0.1, key=1)
    assert batcher.take(0.1) is None
    batcher.hurry(0.1)
    assert shown(batcher.take(0.1)) == [("c", 0, 1), ("b", 0, 1)]


def test_no_class_that_fills_batches_again_and_again_keeps_another_from_its_turn() -> None:
    batcher: Batcher[str] = Batcher(Batching(2, 0.1))
    add(batcher, "rare", 1, 0.0, key=1)
    served: list[str] = []
    for turn in range(30):
        now = turn * 0.01
        for one in ("x", "y", "z"):
            add(batcher, f"{one}{turn}", 1, now)
        served += [owner for owner, _, _ in shown(batcher.take(now))]
    assert "rare" in served


def test_what_it_costs_does_not_depend_on_how_many_wait() -> None:
    looks = 0

    class Counted(int):
        def __lt__(self, other: int) -> bool:
            nonlocal looks
            looks += 1
            return int(self) < other

        def __hash__(self) -> int:
            nonlocal looks
            looks += 1
            return int(self)

        __eq__ = int.__eq__

    def cost(waiting: int) -> int:
        nonlocal looks
        batcher: Batcher[Counted] = Batcher(Batching(4, 1.0), Queueing(1 << 20, 5.0, "delay"))
        for index in range(waiting):
            batcher.add([Entry(Counted(index), 1, Counted(index % 100))], 0.0)
        looks = 0
        batcher.add([Entry(Counted(waiting), 1, Counted(0))], 0.5)
        batcher.cancel(Counted(waiting // 2), 0.5)
        assert batcher.take(1.0) is not None
        return looks

    assert cost(10_000) == cost(1_000)


def test_what_is_given_up_is_forgotten_though_its_time_comes_much_later() -> None:
    batcher: Batcher[str] = Batcher(Batching(1), Queueing(9, None))
    for index in range(2000):
        add(batcher, f"r{index}", 1, 0.0, deadline=1e6)
        batcher.cancel(f"r{index}", 0.0)
    held = batcher._expiries  # pyright: ignore[reportPrivateUsage] what is kept alive is seen nowhere else
    assert len(held) < 100
