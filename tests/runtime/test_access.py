"""Who may ask for what, and what a file of tokens says."""

import pytest

from headrace.runtime.access import (
    DEFAULT,
    OPEN,
    Access,
    Policy,
    Token,
    check_exposure,
    policy_of,
    read_tokens,
)
from headrace.runtime.request import Code, Fault

SECRET, OTHER = "s3cret-s3cret-s3cret", "0ther-0ther-0ther-0t"
CONTROLLER = Token("ops", SECRET, frozenset({Access.CONTROL}))
READER = Token("grafana", OTHER, frozenset({Access.READ}))


def refusal(policy: Policy, access: Access, authorization: str | None) -> Code:
    with pytest.raises(Fault) as fault:
        policy.require(access, authorization)
    assert SECRET not in str(fault.value)
    return fault.value.code


@pytest.mark.parametrize("access", Access)
def test_what_changes_a_server_is_nobodys_unless_somebody_says_so(access: Access) -> None:
    assert DEFAULT.serves(access) == (access in OPEN)
    if access in OPEN:
        assert DEFAULT.require(access, None).name == ""
    else:
        assert refusal(DEFAULT, access, None) is Code.FORBIDDEN
        assert refusal(DEFAULT, access, f"Bearer {SECRET}") is Code.FORBIDDEN


def test_a_token_opens_what_it_is_made_for_to_those_who_show_it() -> None:
    policy = policy_of([Access.SETTINGS], [CONTROLLER])
    assert policy.require(Access.CONTROL, f"Bearer {SECRET}").name == "ops"
    assert policy.require(Access.CONTROL, f"bearer  {SECRET} ").name == "ops"
    assert refusal(policy, Access.CONTROL, None) is Code.UNAUTHENTICATED
    assert refusal(policy, Access.CONTROL, "") is Code.UNAUTHENTICATED
    assert policy.require(Access.SETTINGS, None).name == ""
    assert refusal(policy, Access.MEMORY, f"Bearer {SECRET}") is Code.FORBIDDEN


@pytest.mark.parametrize(
    "shown",
    [f"Bearer {SECRET}x", f"Bearer {SECRET[:-1]}", f"Basic {SECRET}", SECRET, "Bearer", "Bearer ö"],
)
def test_a_token_that_is_none_is_refused_even_where_none_is_needed(shown: str) -> None:
    policy = policy_of([], [CONTROLLER])
    assert refusal(policy, Access.CONTROL, shown) is Code.UNAUTHENTICATED
    assert refusal(policy, Access.READ, shown) is Code.UNAUTHENTICATED


def test_a_token_for_what_is_open_closes_it_to_all_others() -> None:
    policy = policy_of([], [CONTROLLER, READER])
    assert not policy.is_open(Access.READ)
    assert policy.require(Access.READ, f"Bearer {OTHER}").name == "grafana"
    assert refusal(policy, Access.READ, None) is Code.UNAUTHENTICATED
    assert refusal(policy, Access.READ, f"Bearer {SECRET}") is Code.FORBIDDEN
    assert policy.require(Access.INFER, None)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_this_machine_control_may_go_without_tokens(host: str) -> None:
    check_exposure(policy_of([Access.CONTROL], ()), host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com"])
def test_elsewhere_control_takes_tokens(host: str) -> None:
    with pytest.raises(ValueError, match="control would be anybody's"):
        check_exposure(policy_of([Access.CONTROL], ()), host)
    check_exposure(policy_of([Access.CONTROL], [CONTROLLER]), host)
    check_exposure(DEFAULT, host)


def test_a_file_of_tokens_is_read_line_by_line() -> None:
    text = f"# ours\n\nops control,settings {SECRET}\ngrafana read {OTHER}\n"
    ops, grafana = read_tokens(text)
    assert ops == Token("ops", SECRET, frozenset({Access.CONTROL, Access.SETTINGS}))
    assert grafana == READER
    assert SECRET not in repr(ops)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("ops control", "line 1 is not NAME KIND,KIND SECRET"),
        (f"ops everything {SECRET}", "'everything' is no kind of operation; there are probe, read"),
        ("ops control short", "a secret has at least 16 characters"),
        ("# all are gone\n\n", "there is no token in the file"),
        ("", "there is no token in the file"),
    ],
)
def test_a_line_that_is_no_token_is_told_without_its_secret(line: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as error:
        read_tokens(line)
    assert SECRET not in str(error.value)
