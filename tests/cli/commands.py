"""A folder with a program, and a way to run commands in it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli import main

STAGES = """\
def double(x):
    return x * 2

def size(photo):
    return len(photo)

def fail(x):
    raise ValueError("no such luck")
"""


PROGRAM = """\
fn double(x: f32[N]) -> (y: f32[N]) = python "stages.py:double"
fn size(photo: bytes) -> (n: i64) = python "stages.py:size"
fn fail(x: f32[N]) -> (y: f32[N]) = python "stages.py:fail"

pipeline twice(x: f32[N], names: string[M]) -> (y: f32[N], names: string[M]) {
    return y = double(x), names = names
}

pipeline measure(photo: bytes, label: string = "none", scale: f64 = 1.0) -> (n: i64, label: string)
{
    return n = size(photo), label = label
}

pipeline broken(x: f32[N]) -> (y: f32[N]) {
    return y = fail(x)
}

test "it doubles" for twice {
    given x = [1, 2]
    given names = ["a"]
    expect y == [2, 4]
    expect calls(double) == 1
}
"""


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stages.py").write_text(STAGES)
    (tmp_path / "app.pipe").write_text(PROGRAM)
    (tmp_path / "photo.bin").write_bytes(b"12345\xff")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function from words to the exit code, stdout and stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        assert Path.cwd() == folder
        status = main(list(words))
        out, err = capsys.readouterr()
        assert "\x1b" not in out + err, "no colour where there is no terminal"
        assert "Traceback" not in out + err
        return status, out, err

    return call


def shell(*words: str, input: str | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "headrace.cli", *words],
        input=input,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
