"""A repository to load plans into, and what it has."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

from headrace.runtime.engine import EngineConfig
from headrace.runtime.repository.policy import Policy
from headrace.runtime.repository.repository import Repository
from headrace.runtime.repository.state import State
from tests.runtime.repository.plans import GATES

Make = Callable[..., Repository]


@pytest.fixture
def make() -> Iterator[Make]:
    """Make repositories, which are closed in the end."""
    made: list[Repository] = []

    def begin(policy: Policy | None = None) -> Repository:
        policies = {} if policy is None else {"": policy}
        made.append(Repository(EngineConfig(workers=2), policies=policies))
        return made[-1]

    yield begin
    for gate in GATES.values():
        gate.open()
    GATES.clear()
    for repository in made:
        repository.close()


def states(repository: Repository) -> set[tuple[str, int, State]]:
    return {(entry.pipeline, entry.version, entry.state) for entry in repository.index()}


def done(future: "Future[None] | Future[bool]") -> None:
    future.result(20)


def eventually_only(repository: Repository, count: int) -> None:
    """Wait until what drains has been closed."""
    for thread in threading.enumerate():
        if thread.name.startswith("headrace-drain"):
            thread.join(20)
    assert len(repository.engines) == count
