"""A request that fails is gone with its answer, and does not wait for Python's collector of cycles:
what it computed may lie on a device.

Its fault has a traceback, whose frames lead to those around them; none of these may name what holds
the fault.
"""

import gc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.runtime.request import Fault

STAGES = """
def f(x):
    if (x[:, 0] < 0).any():
        raise ValueError("bad")
    return x
"""
PIPE = """
fn f(x: f32[2]) -> (y: f32[2]) = python "stages.py:f" batched
pipeline sums(x: f32[2]) -> (y: f32[2]) per sequence idle 30s {
    state s: f32[2] = zeros
    y = s + f(x)
    next s = y
    return y = y
}
pipeline plain(x: f32[2]) -> (y: f32[2]) { return y = f(x) }
pipeline spared(x: f32[2]) -> (y: f32[2]) {
    return y = try f(x) within 10s else x
}
schedule plain on "default" { f { batch { max = 4 } } }
"""
BAD = np.array([-1, 1], np.float32)

Ask = Callable[[headrace.App], "Future[Any]"]  # Any: results of pipelines


@pytest.fixture
def app(tmp_path: Path) -> Iterator[headrace.App]:
    (tmp_path / "stages.py").write_text(STAGES)
    (tmp_path / "a.pipe").write_text(PIPE)
    with headrace.load(headrace.compile(tmp_path / "a.pipe"), workers=2) as app:
        yield app


ASKED: dict[str, Ask] = {
    "in a stage": lambda app: app.plain.submit(x=BAD),
    "late": lambda app: app.plain.submit(x=-BAD, timeout=1e-9),
    "of a sequence": lambda app: app.sums.sequence().submit(x=BAD),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_a_request_that_fails_is_gone_with_its_answer(app: headrace.App, ask: Ask) -> None:
    app.plain.submit(x=-BAD).result()  # so that a caller who waits may run the next one
    gc.disable()
    try:
        for wait in (Future[Any].result, Future[Any].exception):
            asked = ask(app)
            gone = weakref.ref(asked)
            try:
                fault = wait(asked)
            except Fault:
                fault = None
            del asked, fault
            app.workers_engine().settle(30)
            assert gone() is None
    finally:
        gc.enable()


def test_so_is_what_another_stage_stands_in_for(app: headrace.App) -> None:
    gc.disable()
    try:
        asked = app.spared.submit(x=BAD)
        gone = weakref.ref(asked)
        assert asked.result().y.tolist() == BAD.tolist()
        del asked
        app.workers_engine().settle(30)
        assert gone() is None
    finally:
        gc.enable()
