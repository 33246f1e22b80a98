"""Models in Python: made once per instance, called per batch, checked and closed."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.runtime.load_error import LoadError
from headrace.runtime.python_model import Instances
from headrace.runtime.request import Fault
from headrace.runtime.stage import StageError

SOURCE = """
import numpy as np

class Double:
    made = closed = 0
    sizes = []

    def __init__(self, device="none"):
        Double.made += 1
        self.device = device

    def __call__(self, x, name):
        assert x.ndim == 2 and isinstance(name, list)
        Double.sizes.append(len(x))
        if (x == 13).any():
            raise ValueError("thirteen")
        if (x == 14).any():
            return x[:-1], name
        if (x == 15).any():
            return x.astype(np.float64), name
        if (x == 16).any():
            return x[:, :-1], name
        return x * 2, [f"{one} on {self.device}" for one in name]

    def close(self):
        Double.closed += 1

class One:
    def __call__(self, x):
        return x.sum()

def made(): return Double.made, Double.closed, len(Double.sizes), max(Double.sizes, default=0)
"""
PROGRAM = """
model double = python "m.py:Double" (x: f32[N], name: string) -> (y: f32[N], said: string)
model one = python "m.py:One" (x: f32[N]) -> (y: f32) batch none
fn made() -> (objects: i64, closed: i64, calls: i64, most: i64) = python "m.py:made"

pipeline p(x: f32[N], name: string = "it") -> (y: f32[N], said: string) {
    y, said = double(x, name)
    return y = y, said = said
}

pipeline rows(xs: f32[B, N]) -> (ys: f32[B, N], sums: f32[B]) {
    found = for x in xs {
        y, _ = double(x, "it")
        yield y = y, sum = one(x)
    }
    return ys = found.y, sums = found.sum
}

pipeline count() -> (objects: i64, closed: i64, calls: i64, most: i64) {
    objects, closed, calls, most = made()
    return objects = objects, closed = closed, calls = calls, most = most
}

schedule p on "default" { }

schedule rows on "default" {
    double { batch { max = 4 }, instances = 3, device = gpu(0) }
}
"""

Load = Callable[..., headrace.App]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(source: str = SOURCE, program: str = PROGRAM) -> headrace.App:
        (tmp_path / "m.py").write_text(source)
        (tmp_path / "p.pipe").write_text(program)
        return headrace.load(tmp_path / "p.pipe", workers=2, intra_op_threads=1)

    return load


def test_a_model_is_called_with_stacked_arrays_and_lists(load: Load) -> None:
    with load() as app:
        answer = app.p(x=[1, 2])
        assert answer.y.tolist() == [2, 4]
        assert answer.said == "it on cpu"


def test_rows_of_a_request_share_calls_up_to_the_schedule_s_largest(load: Load) -> None:
    with load() as app:
        answer = app.rows(xs=np.arange(20, dtype=np.float32).reshape(10, 2) / 2)
        assert answer.ys.ravel().tolist() == list(range(20))
        assert answer.sums.tolist() == [2 * i + 0.5 for i in range(10)]
        counted = app.count()
        assert (counted.calls, counted.most) == (3, 4)


def test_rows_of_a_lone_request_that_are_cut_run_on_all_instances_at_once(load: Load) -> None:
    source = """
from threading import Barrier

MEET = Barrier(2)

class Pair:
    def __call__(self, x):
        MEET.wait(20)
        return x
"""
    program = """
model pair = python "m.py:Pair" (x: f32) -> (y: f32)
pipeline p(xs: list<f32>) -> (ys: list<f32>) {
    ys = for x in xs { yield pair(x) }
    return ys = ys
}
schedule p on "default" { pair { instances = 2 } }
"""
    with load(source, program) as app:
        assert app.p.submit(xs=list(range(8))).result(60).ys == list(range(8))


def test_objects_are_made_when_the_plan_is_loaded_and_closed_with_it(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (tmp_path / "m.py").write_text(f"""
class Model:
    def __call__(self, x):
        return x
    def close(self):
        with open({str(closed)!r}, "a") as file:
            file.write("closed ")
""")
    (tmp_path / "p.pipe").write_text("""
model m = python "m.py:Model" (x: f32) -> (y: f32)
pipeline p(x: f32) -> (y: f32) {
    return y = m(x)
}
schedule p on "default" { m { instances = 2 } }
""")
    with headrace.load(tmp_path / "p.pipe", workers=1) as app:
        assert [float(app.p(x=i).y) for i in range(3)] == [0, 1, 2]
        assert not closed.exists()
        engines = len(app.metrics)
    assert closed.read_text() == "closed " * 2 * engines


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ([[1, 2], [13, 2]], "item 1, .*`Double` raised ValueError: thirteen"),
        ([[1, 2], [14, 2]], "`y` has 0 rows for a batch of 1"),
        ([[1, 2], [15, 2]], "`y` is f64"),
        ([[1, 2], [16, 2]], r"`y` has shape \[1\]"),
    ],
)
def test_what_a_model_returns_is_checked_as_any_other(
    load: Load, x: list[list[float]], said: str
) -> None:
    with load() as app, pytest.raises(Fault, match=said):
        app.rows(xs=np.array(x, np.float32))


def test_what_fails_in_a_batch_of_several_requests_fails_alone(load: Load) -> None:
    with load() as app:
        futures = [app.rows.submit(xs=np.full((2, 2), i, np.float32)) for i in (12, 13, 11)]
        assert futures[0].result().ys.tolist() == [[24, 24]] * 2
        with pytest.raises(Fault, match="thirteen"):
            futures[1].result()
        assert futures[2].result().ys.tolist() == [[22, 22]] * 2


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class Double:\n    def __init__(self): raise OSError('no weights')\n", "OSError: no wei"),
        ("from string import Template as Double\n", "TypeError"),
        ("Double = lambda: 3\n", "has no `__call__`"),
    ],
)
def test_what_cannot_be_made_is_refused_when_it_is_loaded(
    load: Load, source: str, said: str
) -> None:
    program = 'model double = python "m.py:Double" (x: f32[N]) -> (y: f32[N])\n'
    program += "pipeline p(x: f32[N]) -> (y: f32[N]) {\n    return y = double(x)\n}\n"
    if "__init__" in source:
        source += "    def __call__(self, x): return x\n"
    with pytest.raises(LoadError, match=said):
        load(source, program)


def test_an_object_is_used_by_one_call_at_a_time() -> None:
    class Model:
        def __init__(self) -> None:
            self.inside = threading.Lock()

        def __call__(self, x: int) -> int:
            assert self.inside.acquire(blocking=False)
            meet.wait()
            self.inside.release()
            return x

    meet = threading.Barrier(2, timeout=20)
    pool = Instances(Model, "Model", "cpu", 2)
    threads = [threading.Thread(target=pool, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meet.broken is False
    pool.close()


def test_those_made_before_one_that_fails_are_closed() -> None:
    closed: list[int] = []

    class Model:
        made = 0

        def __init__(self) -> None:
            Model.made += 1
            if Model.made == 2:
                raise ValueError("second")

        def __call__(self) -> None: ...

        def close(self) -> None:
            closed.append(1)

    with pytest.raises(StageError, match="second"):
        Instances(Model, "Model", "cpu", 3)
    assert closed == [1]
