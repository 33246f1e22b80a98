"""Python stages that misbehave: what they raise, and what they write to."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.app import App
from headrace.runtime.request import Code, Fault

PYTHON = """
class Unsayable(Exception):
    def __str__(self):
        raise RuntimeError

RAISED = {
    "interrupt": KeyboardInterrupt("k"),
    "base": BaseException("b"),
    "exit": SystemExit(3),
    "unsayable": Unsayable(),
    "surrogate": ValueError(chr(0xDCFF)),
}

def fails(x, how):
    if how in RAISED:
        raise RAISED[how]
    return x

def wipe(x):
    x[...] = 0
    return x

def wipe_list(xs):
    xs[0][...] = 0
    return xs[0]

def wipe_batch(xs):
    xs[...] = 0
    return xs
"""

SOURCE = """
fn fails(x: f32[N], how: string) -> (y: f32[N]) = python "stages.py:fails"
fn wipe(x: f32[N]) -> (y: f32[N]) = python "stages.py:wipe"
fn wipe_list(xs: list<f32[3], 9>) -> (y: f32[3]) = python "stages.py:wipe_list"
fn wipe_batch(x: f32[N]) -> (y: f32[N]) = python "stages.py:wipe_batch" batched

pipeline failing(x: f32[N], how: string = "") -> (y: f32[N]) { return y = fails(x, how) }
pipeline one(x: f32[N]) -> (y: f32[N], z: f32[N]) { return y = wipe(x), z = x + 1.0 }
pipeline many(x: list<f32[3], 9>) -> (y: f32[3]) { return y = wipe_list(x) }
pipeline batch(x: f32[N]) -> (y: f32[N]) { return y = wipe_batch(x) }
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder: Path = tmp_path_factory.mktemp("stages")
    (folder / "stages.py").write_text(PYTHON)
    (folder / "stages.pipe").write_text(SOURCE)
    with headrace.load(folder / "stages.pipe", workers=2) as opened:
        yield opened


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("interrupt", "raised KeyboardInterrupt: k"),
        ("base", "raised BaseException: b"),
        ("exit", "raised SystemExit: 3"),
        ("unsayable", "raised Unsayable: its text cannot be had: RuntimeError"),
        ("surrogate", r"raised ValueError: \udcff"),
    ],
)
def test_whatever_a_stage_raises_fails_its_request_and_no_worker(
    app: App, how: str, said: str
) -> None:
    x = np.ones(3, np.float32)
    failing = [app.failing.submit(x=x, how=how) for _ in range(6)]  # more than there are workers
    for future in failing:
        error = future.exception(20)
        assert isinstance(error, Fault)
        assert error.code is Code.FAILED
        assert str(error).endswith(said)
    assert app.failing.submit(x=x).result(20).y.tolist() == [1, 1, 1]


@pytest.mark.parametrize("pipeline", ["one", "many", "batch"])
def test_a_stage_cannot_write_to_what_others_read(app: App, pipeline: str) -> None:
    x = np.ones(3, np.float32)
    given = [x] if pipeline == "many" else x
    with pytest.raises(Fault, match="read-only"):
        app[pipeline](x=given)
    assert x.tolist() == [1, 1, 1]
    assert x.flags.writeable
