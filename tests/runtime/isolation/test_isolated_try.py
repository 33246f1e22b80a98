"""A worker process that fails or hangs under a `try`: the innermost one goes its other way."""

from pathlib import Path

import pytest

import headrace

SOURCE = """
fn hang(x: f32) -> (y: f32) = python "s.py:hang"
fn plain(x: f32) -> (y: f32) = python "s.py:plain"

pipeline nested(x: f32) -> (y: f32) {
    return y = try { try hang(x) else plain(1.0) } within 100s else plain(2.0)
}

schedule nested { hang { isolate { timeout = 200ms } } }
"""


@pytest.mark.slow
def test_the_time_of_a_run_is_not_that_of_the_try_around_both(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import threading\n"
        "def hang(x):\n    threading.Event().wait()\n"
        "def plain(x):\n    return x\n"
    )
    (tmp_path / "p.pipe").write_text(SOURCE)
    with headrace.load(tmp_path / "p.pipe", workers=2) as app:
        assert app.nested(x=0).y == 1
        assert app.nested.submit(x=0).result(20).y == 1
