"""What every backend is held to. A check is a function of a maker and a folder; what it raises is
why the backend fails it."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace import Fault
from headrace.dsl.types import DType
from headrace.runtime.load_error import LoadError
from tests.runtime.backends.makers import PAIR, SAME, Maker, sample

REFUSED = (LoadError, Fault, headrace.CompileError)
Check = Callable[[Maker, Path], None]


def loaded(maker: Maker, folder: Path, model: str, body: str, *, batch: str = "") -> headrace.App:
    """Return an app with a pipeline around a model `m`."""
    schedule = f"\nschedule p {{\n    m {{ {maker.schedule} }}\n}}\n" if maker.schedule else ""
    text = f"model m = {model}\npipeline p{body.format(batch=batch)}{schedule}"
    path = folder / "p.pipe"
    path.write_text(text)
    return headrace.load(headrace.compile(path), workers=4)


def same(maker: Maker, folder: Path, dtype: DType, *, batch: str = "") -> headrace.App:
    kind = dtype.value
    body = f"(x: {kind}[K]) -> (y: {kind}[K]) {{batch}} {{{{\n    return y = m(x)\n}}}}\n"
    model = f"{maker.same(folder, dtype)} {SAME.format(kind)}"
    return loaded(maker, folder, model, body, batch=batch)


PAIRED = (
    "(a: f32[K], b: f32[K]) -> (total: f32[K], difference: f32[K]) {batch} {{\n"
    "    t, d = m(a, b)\n    return total = t, difference = d\n}}\n"
)


def pair(maker: Maker, folder: Path, *, batch: str = "") -> headrace.App:
    return loaded(maker, folder, f"{maker.pair(folder)} {PAIR}", PAIRED, batch=batch)


def dtype(maker: Maker, folder: Path, one: DType) -> None:
    """Values of a dtype come back as they were."""
    x = sample(one, 5)
    with same(maker, folder, one) as app:
        found: Any = app.p(x=x).y
    assert found.dtype == x.dtype
    assert found.shape == x.shape
    assert np.array_equal(found, x)


def refuses_dtype(maker: Maker, folder: Path, one: DType) -> None:
    """A dtype that a library lacks is refused when the plan is loaded."""
    with pytest.raises(LoadError) as caught, same(maker, folder, one):
        pass
    assert "stage `m`" in caught.value.message


def sizes_that_vary(maker: Maker, folder: Path) -> None:
    """Each call may have sizes of its own; none among them, too."""
    with pair(maker, folder) as app:
        for size in (3, 7, 1, 0, 3):
            a, b = (sample(DType.F32, size, seed=seed) for seed in (1, 2))
            total, difference = app.p(a=a, b=b)
            assert np.array_equal(total, a + b)
            assert np.array_equal(difference, a - b)


def rows_that_meet(maker: Maker, folder: Path) -> None:
    """Rows of a request share a run, and each gets what is its own."""
    with pair(maker, folder, batch="batch 8") as app:
        for rows in (1, 5, 8):
            a, b = (sample(DType.F32, rows, 3, seed=seed) for seed in (1, 2))
            total, difference = app.p(a=a, b=b)
            assert np.array_equal(total, a + b)
            assert np.array_equal(difference, a - b)
        stage = app.metrics[0].stage("m")
        assert stage.rows == 14
        assert stage.executions == 3


def no_rows(maker: Maker, folder: Path) -> None:
    """A request of no rows runs nothing and gives no rows."""
    with pair(maker, folder, batch="batch 8") as app:
        nothing = np.zeros((0, 3), np.float32)
        total, difference = app.p(a=nothing, b=nothing)
    assert total.shape[0] == difference.shape[0] == 0
    assert total.dtype == difference.dtype == np.float32


def many_threads(maker: Maker, folder: Path) -> None:
    """Threads that call at once do not see each other's values; nothing of theirs is changed."""
    wrong: list[str] = []

    def call(app: headrace.App, number: int) -> None:
        for turn in range(10):
            a = np.full(2 + number % 3, number * 100 + turn, np.float32)
            b = np.full_like(a, turn)
            kept = a.copy(), b.copy()
            total, difference = app.p(a=a, b=b)
            if not (np.array_equal(total, a + b) and np.array_equal(difference, a - b)):
                wrong.append(f"thread {number}, turn {turn}: {total}, {difference}")
            if not (np.array_equal(a, kept[0]) and np.array_equal(b, kept[1])):
                wrong.append(f"thread {number}, turn {turn}: an input was changed")

    with pair(maker, folder) as app:
        threads = [threading.Thread(target=call, args=(app, number)) for number in range(6)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert not wrong


def results_that_last(maker: Maker, folder: Path) -> None:
    """A result stays as it is when the model runs again, and when it has been closed."""
    with pair(maker, folder) as app:
        one = np.ones(4, np.float32)
        first, _ = app.p(a=one, b=one)
        app.p(a=one * 9, b=one * 9)
    assert np.array_equal(first, one * 2)


def opened_again(maker: Maker, folder: Path) -> None:
    """A plan may be loaded beside itself, closed, and loaded again."""
    one = np.ones(2, np.float32)
    with pair(maker, folder) as app:
        plan = headrace.compile(folder / "p.pipe")
        with headrace.load(plan) as other:
            assert np.array_equal(other.p(a=one, b=one).total, one * 2)
        assert np.array_equal(app.p(a=one, b=one).total, one * 2)
    with headrace.load(plan) as again:
        assert np.array_equal(again.p(a=one, b=one).total, one * 2)


def another_rank(maker: Maker, folder: Path) -> None:
    """Another rank than the file has is refused, at the latest when it runs."""
    kind = "(x: f32[K, 2, 2]) -> (y: f32[K, 2])"
    body = f"{kind} {{{{\n    return y = m(x)\n}}}}\n"
    model = f"{maker.same(folder, DType.F32)} {kind}"
    with pytest.raises(REFUSED), loaded(maker, folder, model, body) as app:
        app.p(x=np.ones((2, 2, 2), np.float32))


def another_dtype(maker: Maker, folder: Path) -> None:
    """A result of another dtype than declared is refused, at the latest when it comes."""
    body = "(x: i64[K]) -> (y: f32[K]) {{\n    return y = m(x)\n}}\n"
    model = f"{maker.same(folder, DType.I64)} (x: i64[K]) -> (y: f32[K])"
    with pytest.raises(REFUSED) as caught, loaded(maker, folder, model, body) as app:
        app.p(x=np.ones(2, np.int64))
    said = str(caught.value)
    assert "f32" in said or "float32" in said


def no_model(maker: Maker, folder: Path) -> None:
    """A file that is no model is refused when the plan is loaded, and nothing stays open."""
    if maker.junk is None:
        pytest.skip("the compiler refuses it, or there is no file")
    body = "(x: f32[K]) -> (y: f32[K]) {{\n    return y = m(x)\n}}\n"
    with pytest.raises(LoadError) as caught:
        loaded(maker, folder, f"{maker.junk(folder)} {SAME.format('f32')}", body)
    assert caught.value.code in ("HR504", "HR505")
    assert "stage `m`" in caught.value.message


CHECKS: tuple[Check, ...] = (
    sizes_that_vary,
    rows_that_meet,
    no_rows,
    many_threads,
    results_that_last,
    opened_again,
    another_rank,
    another_dtype,
    no_model,
)
