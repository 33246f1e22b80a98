"""Which versions are served, and who gets which part of the traffic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.repository.policy import All, Latest, Specific, chosen, read_policy
from headrace.runtime.repository.shares import (
    ROUTE,
    SHADOW,
    bounds,
    check_shares,
    dealt,
    main_of,
    position,
)


def test_the_latest_ones_are_the_highest() -> None:
    assert chosen(Latest(1), {1, 2, 10}) == {10}
    assert chosen(Latest(2), {1, 2, 10}) == {2, 10}
    assert chosen(Latest(5), {1, 2}) == {1, 2}


def test_a_canary_is_served_besides_the_latest_and_not_as_one() -> None:
    assert chosen(Latest(1), {1, 2, 3}, besides={3}) == {2, 3}
    assert chosen(Latest(1), {1, 2}, besides={7}) == {2}


def test_specific_versions_are_served_where_they_are() -> None:
    assert chosen(Specific(frozenset({1, 3})), {1, 2}) == {1}


@pytest.mark.parametrize("policy", [Latest(1), Latest(3), All(), Specific(frozenset({1, 3}))])
def test_a_policy_reads_as_it_prints(policy: Latest | All | Specific) -> None:
    assert read_policy(str(policy)) == policy


def test_latest_alone_is_one() -> None:
    assert read_policy("latest") == Latest(1)


@pytest.mark.parametrize("text", ["", "latest:0", "latest:-1", "specific:", "specific:1;2", "any"])
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no policy"):
        read_policy(text)


def test_a_key_stands_at_one_place_always() -> None:
    assert position("client-7", ROUTE) == position("client-7", ROUTE)
    assert position("client-7", ROUTE) != position("client-7", SHADOW)


@given(st.one_of(st.text(), st.integers(0, 2**64 - 1)))
def test_every_key_has_a_place(key: int | str) -> None:
    assert 0.0 <= position(key, ROUTE) < 1.0


def test_keys_and_turns_fill_a_part_as_large_as_asked_for() -> None:
    keys = sum(position(number, ROUTE) < 0.1 for number in range(20_000))
    assert 1800 < keys < 2200
    assert 995 <= sum(dealt(turn) < 0.1 for turn in range(10_000)) <= 1005


def test_who_has_no_part_has_the_rest() -> None:
    assert main_of(frozenset({1, 2}), {2: 0.1}) == 1
    assert bounds({2: 0.1}, 1) == ((0.1, 2),)


def test_where_all_have_parts_the_newest_has_the_rest() -> None:
    assert main_of(frozenset({1, 2}), {1: 0.9, 2: 0.1}) == 2
    assert bounds({1: 0.9, 2: 0.1}, 2) == ((0.9, 1),)


@pytest.mark.parametrize("shares", [{1: 1.5}, {1: -0.1}, {1: 0.6, 2: 0.6}])
def test_parts_are_those_of_one_whole(shares: dict[int, float]) -> None:
    with pytest.raises(ValueError):
        check_shares(shares)
