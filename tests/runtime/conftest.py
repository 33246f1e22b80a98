"""Fixtures of the tests of the runtime."""

import sys
import threading
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.runtime.flows import engines as engines
from tests.runtime.flows import maker as maker
from tests.runtime.forks import Simulated
from tests.runtime.gates import gate as gate


@pytest.fixture
def meeting() -> Iterator[ModuleType]:
    made = ModuleType("meeting")
    made.barrier = threading.Barrier(2)  # type: ignore[attr-defined]
    made.now = 0.0  # type: ignore[attr-defined]
    sys.modules["meeting"] = made
    yield made
    del sys.modules["meeting"]


@pytest.fixture
def simulate() -> "Iterator[type[Simulated]]":
    yield Simulated
    while Simulated.opened:
        Simulated.opened.pop().close()
