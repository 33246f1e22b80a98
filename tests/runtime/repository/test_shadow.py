"""A version that is shown copies of requests and answers nobody."""

from collections.abc import Iterator

import numpy as np
import pytest

from headrace.runtime.engine import EngineConfig
from headrace.runtime.repository.repository import Repository
from headrace.runtime.repository.shadow import MOST, ShadowCounts, same_answer
from headrace.runtime.request import InSequence
from tests.runtime.repository.plans import (
    GATES,
    LoadGate,
    adding,
    ask,
    failing,
    serving,
    stopping,
    summing,
)


@pytest.fixture
def repository() -> Iterator[Repository]:
    made = Repository(EngineConfig(workers=2))
    yield made
    for gate in GATES.values():
        gate.open()
    GATES.clear()
    made.close()


def shown(repository: Repository) -> ShadowCounts:
    return repository.shadow_counts()["p", "2"]


def settle(repository: Repository) -> ShadowCounts:
    """Return the counts once all copies are worked off."""
    for shadow in repository.routes["p"].shadows:
        shadow.wait()
    return shown(repository)


def test_a_shadow_is_shown_requests_and_its_answers_are_compared(repository: Repository) -> None:
    service = serving(repository)
    repository.shadow("app", 2, 1.0)
    repository.load("app", adding(1.0))
    repository.load("app", adding(2.0), version=2)
    for _ in range(5):
        assert ask(service) == (1.0, "1")
    counts = settle(repository)
    assert (counts.copied, counts.answered, counts.different) == (5, 5, 5)


def test_a_shadow_that_agrees_is_not_different(repository: Repository) -> None:
    service = serving(repository)
    repository.shadow("app", 2, 1.0)
    repository.load("app", adding(1.0))
    repository.load("app", adding(1.0000001), version=2)
    ask(service)
    counts = settle(repository)
    assert (counts.answered, counts.different) == (1, 0)


def test_a_shadow_that_fails_fails_nobody(repository: Repository) -> None:
    service = serving(repository)
    repository.shadow("app", 2, 1.0)
    repository.load("app", adding(1.0))
    repository.load("app", failing(), version=2)
    assert ask(service) == (1.0, "1")
    assert settle(repository).failed == 1
    assert repository.totals().pipelines["p", "1"].failures == {}


def test_a_shadow_that_hangs_delays_nobody_and_keeps_few_copies(repository: Repository) -> None:
    service = serving(repository)
    gate = GATES["run"] = LoadGate()
    repository.shadow("app", 2, 1.0)
    repository.load("app", adding(1.0))
    repository.load("app", stopping("run"), version=2)
    assert ask(service) == (1.0, "1")
    gate.entered()
    for _ in range(MOST + 10):
        assert ask(service) == (1.0, "1")
    counts = shown(repository)
    assert counts.copied == MOST + 1
    assert counts.dropped == 10
    gate.open()
    assert settle(repository).answered == MOST + 1


def test_a_share_of_the_requests_is_shown(repository: Repository) -> None:
    service = serving(repository)
    repository.shadow("app", 2, 0.25)
    repository.load("app", adding(1.0))
    repository.load("app", adding(1.0), version=2)
    for _ in range(200):
        ask(service)
    counts = settle(repository)
    assert 45 <= counts.copied + counts.dropped <= 55


def test_sequences_are_not_shown(repository: Repository) -> None:
    service = serving(repository)
    repository.shadow("app", 2, 1.0)
    repository.load("app", summing(0.0))
    repository.load("app", summing(0.0), version=2)
    ask(service, "sum", 1.0, sequence=InSequence(1, start=True))
    assert repository.shadow_counts() == {}


def test_a_shadow_that_is_ended_is_shown_nothing_more(repository: Repository) -> None:
    service = serving(repository)
    repository.shadow("app", 2, 1.0)
    repository.load("app", adding(1.0))
    repository.load("app", adding(2.0), version=2)
    repository.shadow("app", 2, 0.0)
    ask(service)
    assert shown(repository).copied == 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (np.float32(1.0), np.float32(1.0), True),
        (np.array([1.0], np.float32), np.array([1.0001], np.float32), True),
        (np.array([1.0], np.float32), np.array([1.1], np.float32), False),
        (np.array([np.nan], np.float32), np.array([np.nan], np.float32), True),
        (np.array([1]), np.array([2]), False),
        (np.array([1]), np.array([1, 1]), False),
        ("a", "a", True),
        ("a", b"a", False),
        ([np.array([1]), "b"], [np.array([1]), "b"], True),
        ([np.array([1])], [], False),
        (None, None, True),
    ],
)
def test_answers_are_the_same_to_a_thousandth(one: object, other: object, same: bool) -> None:
    assert same_answer({"y": one}, {"y": other}) is same  # type: ignore[dict-item] items
