"""Stages in workers, from a source to answers: as in the engine's own process, but for its end."""

import re
import signal
import threading
from collections.abc import Callable, Iterator
from os import kill
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headrace
from headrace.runtime.load_error import LoadError
from headrace.runtime.request import Code, Fault
from tests.runtime.wire.conftest import eventually

from .programs import pipe, told

pytestmark = pytest.mark.slow

PYTHON = """
import os, threading
import numpy as np

def add(x, y, name, blob, words, maybe, boxes, flag, half, brain):
    assert not x.flags.writeable
    return (x + y, name + "!", blob[::-1], np.array([w.upper() for w in words.tolist()], object),
            maybe, [box * 2 for box in boxes], not flag, half * 2, brain)

def wrong(x, how):
    return {
        "dtype": lambda: x.astype(np.float64),
        "shape": lambda: x[:-1],
        "rank": lambda: x[None],
        "dict": lambda: {"y": x},
        "none": lambda: None,
        "text": lambda: "text",
        "big": lambda: 2 ** 80,
        "complex": lambda: x * 1j,
        "set": lambda: {1, 2},
        "ragged": lambda: [[1.0], [1.0, 2.0]],
        "tuple": lambda: (x, x),
        "list": lambda: [float(v) for v in x],
        "number": lambda: 3,
        "raise": lambda: [][1],
        "leave": lambda: exit(3),
    }[how]()

def two(x):
    return x if x[0] == 0 else (x, x, x) if x[0] == 1 else (x, x)

def rows(x):
    if (x == 13).any():
        raise ValueError("thirteen")
    if (x == 14).any():
        os._exit(14)
    return x[:-1] if (x == 15).any() else x * 2

def empty(x):
    return x * 2

def wait(path):
    if path == "die":
        os._exit(1)
    if path:
        with open(path, "w") as file:
            file.write(str(os.getpid()))
        threading.Event().wait()
    return str(os.getpid())

class Scale:
    def __init__(self, device):
        self.device = device
    def __call__(self, x):
        if (x == 13).any():
            raise ValueError("thirteen")
        return x * (3 if self.device == "cpu" else 0)
"""

PIPE = """
fn add(x: f32[N], y: f32[N], name: string, blob: bytes, words: string[W], maybe: f32[2]?,
       boxes: list<i64[M], 9>, flag: bool, half: f16, brain: bf16[K])
    -> (s: f32[N], called: string, back: bytes, loud: string[W], kept: f32[2]?,
        twice: list<i64[M], 9>, off: bool, whole: f16, same: bf16[K]) = python "stages.py:add"
fn wrong(x: f32[N], how: string) -> (y: f32[N]) = python "stages.py:wrong"
fn two(x: f32[N]) -> (a: f32[N], b: f32[N]) = python "stages.py:two"
fn rows(x: f32) -> (y: f32) = python "stages.py:rows" batched
fn empty(x: f32[N]) -> (y: f32[N]) = python "stages.py:empty"
fn wait(path: string) -> (number: string) = python "stages.py:wait"
model scale = python "stages.py:Scale" (x: f32) -> (y: f32)

pipeline everything(x: f32[N], y: f32[N], name: string, blob: bytes, words: string[W],
                    maybe: f32[2]?, boxes: list<i64[M], 9>, flag: bool, half: f16, brain: bf16[K])
    -> (s: f32[N], called: string, back: bytes, loud: string[W], kept: f32[2]?,
        twice: list<i64[M], 9>, off: bool, whole: f16, same: bf16[K]) {
    s, called, back, loud, kept, twice, off, whole, same =
        add(x, y, name, blob, words, maybe, boxes, flag, half, brain)
    return s = s, called = called, back = back, loud = loud, kept = kept, twice = twice,
        off = off, whole = whole, same = same
}
pipeline wrongs(x: f32[N], how: string) -> (y: f32[N]) { return y = wrong(x, how) }
pipeline twos(x: f32[N]) -> (a: f32[N]) {
    a, _ = two(x)
    return a = a
}
pipeline batch(xs: f32[B]) -> (ys: f32[B]) { return ys = for x in xs { yield rows(x) } }
pipeline caught(xs: f32[B]) -> (ys: f32[B]) {
    ys = for x in xs {
        y = try rows(x) else -1.0
        yield y
    }
    return ys = ys
}
pipeline scaled(xs: f32[B]) -> (ys: f32[B]) { return ys = for x in xs { yield scale(x) } }
pipeline empties(x: f32[N]) -> (y: f32[N]) { return y = empty(x) }
pipeline waits(path: string = "") -> (number: string) { return number = wait(path) }
"""
SCHEDULES = """
schedule everything on "s" { add { isolate = on } }
schedule wrongs on "s" { wrong { isolate = on } }
schedule twos on "s" { two { isolate = on } }
schedule batch on "s" { rows { isolate = on, batch { max = 4 } } }
schedule caught on "s" { rows { isolate = on, instances = 3 } }
schedule scaled on "s" { scale { isolate = on, instances = 2 } }
schedule empties on "s" { empty { isolate = on } }
schedule waits on "s" { wait { isolate { timeout = 20s }, instances = 2 } }
"""
ALONE = 'schedule waits on "s" { wait { isolate = on } }'

Say = Callable[..., str]


def load(folder: Path, schedules: str, **files: str) -> headrace.App:
    (folder / "stages.py").write_text(files.get("python", PYTHON))
    (folder / "stages.pipe").write_text(files.get("pipe", PIPE) + schedules)
    return headrace.load(folder / "stages.pipe", workers=2, intra_op_threads=1)


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.App]:
    with load(tmp_path_factory.mktemp("inside"), "") as app:
        yield app


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[headrace.App]:
    with load(tmp_path_factory.mktemp("outside"), SCHEDULES) as app:
        yield app


INPUTS: dict[str, Any] = {  # Any: what a pipeline takes
    "x": np.arange(4, dtype=np.float32),
    "y": np.ones(4, np.float32),
    "name": "n\u00e4me",
    "blob": b"\x00\xff",
    "words": ["a", "", "\u00fc"],
    "maybe": None,
    "boxes": [[1, 2], [3], []],
    "flag": True,
    "half": np.float16(1.5),
    "brain": np.array([1, 2], ml_dtypes.bfloat16),
}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"maybe": [1.0, 2.0]},
        {"x": np.empty(0, np.float32), "y": np.empty(0, np.float32), "words": [], "boxes": []},
        {"x": np.ones(100_000, np.float32), "y": np.ones(100_000, np.float32)},
    ],
)
def test_values_of_every_type_are_as_in_one_process(
    app: headrace.App, inside: headrace.App, changed: dict[str, Any]
) -> None:
    given = {**INPUTS, **changed}
    for found in (app.everything(**given), app.everything.submit(**given).result(20)):
        for name, expected in dict_of(inside.everything(**given)).items():
            value = getattr(found, name)
            assert type(value) is type(expected)
            if isinstance(expected, np.ndarray):
                assert value.dtype == expected.dtype
            np.testing.assert_equal(value, expected)


def dict_of(record: Any) -> dict[str, Any]:  # Any: the results of any pipeline
    return record._asdict()


def said(app: headrace.App, pipeline: str, **given: object) -> tuple[Any, ...]:
    """What comes of a call: the results, or all that a fault says, but for lines of our own."""
    try:
        return (
            "done",
            {name: np.array(one).tolist() for name, one in dict_of(app[pipeline](**given)).items()},
        )
    except Fault as fault:
        lines = re.findall(r'File "stages.py", line (\d+), in (\w+)', fault.detail)
        place = fault.place and (fault.place.line, fault.place.column)
        last = fault.detail.strip().splitlines()[-1]
        return (fault.code, fault.message, fault.stage, fault.item, place, lines, last)


@pytest.mark.parametrize(
    "how",
    [
        *("dtype", "shape", "rank", "dict", "none", "text", "big", "complex", "set"),
        *("ragged", "tuple", "list", "number", "raise", "leave"),
    ],
)
def test_what_is_wrong_is_told_as_in_one_process(
    app: headrace.App, inside: headrace.App, how: str
) -> None:
    assert said(app, "wrongs", x=[1, 2], how=how) == said(inside, "wrongs", x=[1, 2], how=how)


@pytest.mark.parametrize("first", [0, 1, 2])
def test_several_results_are_counted_as_in_one_process(
    app: headrace.App, inside: headrace.App, first: int
) -> None:
    assert said(app, "twos", x=[first]) == said(inside, "twos", x=[first])


@pytest.mark.parametrize("pipeline", ["batch", "scaled"])
@pytest.mark.parametrize("xs", [[1, 2, 3], [], [5], [1, 13, 3], [1, 15]])
def test_batches_are_as_in_one_process(
    app: headrace.App, inside: headrace.App, pipeline: str, xs: list[float]
) -> None:
    given = np.array(xs, np.float32)
    assert said(app, pipeline, xs=given) == said(inside, pipeline, xs=given)


def test_a_crash_fails_the_requests_of_its_batch_and_no_row_is_run_again(
    app: headrace.App,
) -> None:
    def executions() -> int:
        return sum(one.executions for s in app.metrics for one in s.stages if one.name == "rows")

    before = executions()
    futures = [app.batch.submit(xs=np.array([i], np.float32)) for i in (1, 14, 2)]
    outcomes = [future.exception(20) for future in futures]
    fault = outcomes[1]
    assert isinstance(fault, Fault)
    assert fault.code is Code.FAILED
    assert "ended with status 14" in fault.message
    assert (fault.stage, fault.place and fault.place.file) == ("rows", "stages.pipe")
    assert executions() - before <= 2  # those beside the one that died
    eventually(lambda: said(app, "batch", xs=[1, 2]) == ("done", {"ys": [2, 4]}))


def test_a_try_goes_on_with_the_rows_that_do_not_crash(app: headrace.App) -> None:
    assert app.caught(xs=[1, 14, 2]).ys.tolist() == [2, -1, 4]


def test_workers_of_a_stage_are_bounded_and_run_at_once(app: headrace.App, tmp_path: Path) -> None:
    paths = [pipe(tmp_path, name) for name in "ab"]
    futures = [app.waits.submit(path=path) for path in paths]
    numbers = {int(told(path)) for path in paths}
    assert len(numbers) == 2
    for number in numbers:
        kill(number, signal.SIGKILL)
    for future in futures:
        with pytest.raises(Fault, match="was ended by SIGKILL while it ran this"):
            future.result(20)
    eventually(lambda: said(app, "waits")[0] == "done")


def test_what_waits_for_a_hung_worker_ends_when_the_engine_is_closed(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    app = load(tmp_path / "p", ALONE)
    path = pipe(tmp_path)
    future = app.waits.submit(path=path)
    number = int(told(path))
    closing = threading.Thread(target=app.close)
    closing.start()
    kill(number, signal.SIGKILL)  # or it would be after its grace
    closing.join(20)
    assert not closing.is_alive()
    assert isinstance(future.exception(20), Fault)


def test_a_source_that_cannot_be_loaded_is_refused_as_in_one_process(tmp_path: Path) -> None:
    for schedules in ("", ALONE):
        with pytest.raises(LoadError) as caught:
            load(tmp_path, schedules, python=PYTHON + "\nraise OSError('no weights')\n")
        assert str(caught.value).endswith("stages.py cannot be loaded: OSError: no weights")
