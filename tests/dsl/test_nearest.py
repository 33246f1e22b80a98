"""The name that was probably meant."""

import pytest

from headrace.dsl.nearest import nearest


@pytest.mark.parametrize(
    ("written", "meant"),
    [("mx", "max"), ("prefre", "prefer"), ("MAX", "max"), ("waits", "wait"), ("wiat", "wait")],
)
def test_a_slip_of_up_to_two_edits_finds_the_name(written: str, meant: str) -> None:
    assert nearest(written, ["max", "wait", "prefer"]) == meant


@pytest.mark.parametrize("written", ["colour", "", "x", "ma_xi_mum"])
def test_a_name_like_no_other_finds_none(written: str) -> None:
    assert nearest(written, ["max", "wait", "prefer"]) is None


def test_of_equally_near_names_the_first_in_the_alphabet_is_meant() -> None:
    assert nearest("ax", ["bx", "aa"]) == "aa"
