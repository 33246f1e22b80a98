"""A caller who cancels while the answer is made: either has it, or nothing came of the request."""

import threading
from collections.abc import Iterator
from concurrent.futures import as_completed, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.request import InSequence, Request
from tests.runtime.repository.plans import GATES, LoadGate

HELD = """
from tests.runtime.repository.plans import GATES

def held(x):
    if x == 13:
        GATES["held"].pass_through()
    return x
"""
SOURCE = """
fn held(x: f32) -> (y: f32) = python "toys.py:held"

pipeline sum(x: f32) -> (total: f32) per sequence {
    state total: f32 = 0.0
    sum = total + held(x)
    next total = sum
    return total = sum
}
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    (tmp_path / "toys.py").write_text(HELD)
    (tmp_path / "p.pipe").write_text(SOURCE)
    GATES["held"] = LoadGate()
    engine = Engine(headrace.compile(tmp_path / "p.pipe").plan, EngineConfig(workers=1))
    yield engine
    GATES.pop("held").open()
    engine.close()


def asked(x: float, *, start: bool = False) -> Request:
    return Request("sum", {"x": np.float32(x)}, sequence=InSequence(1, start))


def test_who_cancels_after_the_state_was_kept_is_told_that_it_is_too_late(engine: Engine) -> None:
    handed, told = threading.Event(), list[bool]()

    def make(outputs: dict[str, Any]) -> float:  # Any: items
        assert handed.wait(20)
        told.append(future.cancel())
        return outputs["total"]

    point = InSequence(1, start=True)
    future = engine.dispatch(engine.pipeline("sum"), {"x": np.float32(1)}, make, sequence=point)
    handed.set()
    assert future.result(20) == 1.0
    assert told == [False]
    assert engine.call(asked(2)).outputs["total"] == 3.0


def test_what_is_cancelled_before_its_answer_is_given_leaves_the_state_as_it_was(
    engine: Engine,
) -> None:
    engine.submit(asked(1, start=True)).result(20)
    held, following = engine.submit(asked(13)), engine.submit(asked(2))
    totals: list[object] = []

    def meanwhile(_: object) -> None:
        GATES["held"].open()  # it comes to its end before the engine hears that nobody wants it
        totals.append(following.result(20).outputs["total"])

    held.add_done_callback(meanwhile)
    GATES["held"].entered()
    assert held.cancel()
    assert wait([held], 20).done == {held}
    assert totals == [3.0]
    counts = engine.metrics.pipeline("sum")
    assert (counts.successes, counts.failures) == (2, {"cancelled": 1})


def test_who_waits_for_several_is_told_which_are_cancelled(engine: Engine) -> None:
    engine.submit(asked(1, start=True)).result(20)
    running, waiting = engine.submit(asked(13)), engine.submit(asked(2))
    GATES["held"].entered()
    assert waiting.cancel()
    assert next(as_completed([running, waiting], 20)) is waiting
    assert running.cancel()
    assert running.cancel()
    assert wait([running, waiting], 20).not_done == set()
    GATES["held"].open()
    assert engine.submit(asked(2)).result(20).outputs["total"] == 3.0
