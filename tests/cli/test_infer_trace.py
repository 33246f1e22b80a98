"""`headrace infer --trace` and what goes with it, and what `run` is told of traces."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headrace.cli import main
from tests.runtime.observe.pipes import TEXT, plan_in

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    plan_in(tmp_path, TEXT)  # for its files
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        status = main(list(words))
        out, err = capsys.readouterr()
        return status, out, err

    return call


def test_a_table_tells_what_each_stage_took(run: Run) -> None:
    status, out, _ = run("infer", "a.pipe", "--pipeline", "each", "xs=[1, 2]", "--trace")
    assert status == 0
    lines = out.splitlines()
    heading = next(i for i, line in enumerate(lines) if line.startswith("stage"))
    assert [line.split()[0] for line in lines[heading + 1 : heading + 4]] == [
        "plus",
        "double",
        "reject",
    ]
    assert lines[-1].startswith("total ")
    assert "try at a.pipe:11:16: 1 row went to its else" in lines


def test_json_stays_alone_on_the_standard_output(run: Run) -> None:
    status, out, err = run("infer", "a.pipe", "--pipeline", "each", "xs=[1]", "--trace", "--json")
    assert status == 0
    assert json.loads(out) == {"ys": [2.0], "first": [11.0]}
    assert "total " in err


def test_a_trace_file_is_written(run: Run) -> None:
    status, _, err = run(
        "infer", "a.pipe", "--pipeline", "each", "xs=[1]", "--trace-file", "o.json"
    )
    assert status == 0
    assert "ui.perfetto.dev" in err
    assert json.loads(Path("o.json").read_text())["traceEvents"]


def test_values_are_shown_and_saved_by_their_names(run: Run) -> None:
    words = ("infer", "a.pipe", "--pipeline", "each", "xs=[1, 2, 3]")
    status, out, _ = run(*words, "--trace-values", "twice", "--trace-values", "first=f.npy")
    assert status == 0
    assert "twice  float32 2.0 x 3" in out
    np.testing.assert_array_equal(np.load("f.npy"), [11, 21, 31])
    run(*words, "--trace-values", "twice=t.npy")
    np.testing.assert_array_equal(np.load("t.npy"), [2, 4, 6])
    status, _, err = run(*words, "--trace-values", "scaled")
    assert status == 2
    assert "inside of the fused graph `plus`; compile with --no-fuse" in err
    status, out, _ = run(*words, "--no-fuse", "--trace-values", "scaled")
    assert "scaled  float32[3]" in out


def test_what_fails_shows_how_far_it_came(run: Run) -> None:
    status, out, err = run("infer", "a.pipe", "--pipeline", "fails", "x=5", "--trace")
    assert status == 3
    assert "too much" in err
    assert "failed (failed)" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("infer", "a.plan", "x=1", "--no-fuse"), "--no-fuse is for sources"),
        (("infer", "http://127.0.0.1:1/p", "x=1", "--trace"), "--trace is for a plan here"),
        (("run", "a.plan", "--trace", "requests"), "traces go nowhere"),
        (("run", "a.plan", "--otel", "localhost"), "`localhost` is no address"),
        (("run", "a.plan", "--trace-file", "no/such/file"), "cannot be written"),
        (("infer", "a.pipe", "--pipeline", "odd", "trace=1", "--trace"), "stands in the way"),
    ],
)
def test_what_makes_no_sense_is_refused(run: Run, words: tuple[str, ...], message: str) -> None:
    run("compile", "a.pipe")
    status, _, err = run(*words)
    assert status == 2
    assert message in err
