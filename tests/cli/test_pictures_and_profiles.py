"""`headrace graph`, `compile --measure` and `explain --diff` as a shell sees them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from onnx import TensorProto, helper

from headrace.cli import main
from tests.runtime.plans import model

PROGRAM = """\
model double = onnx "double.onnx"
fn size(x: f32[N]) -> (n: i64) = python "stages.py:size"

pipeline twice(x: f32[N]) -> (y: f32[N], n: i64) deadline 200ms {
    y = double(x)
    return y = y, n = size(x)
}

pipeline sized(x: f32[N], scale: f32 = 2.0) -> (n: i64) {
    return n = size(x * scale)
}

schedule twice on "server" {
    double { batch { max = 8 } }
}
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    content = model(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        [("x", TensorProto.FLOAT, ["B", "N"])],
        [("y", TensorProto.FLOAT, ["B", "N"])],
        {},
    )
    (tmp_path / "double.onnx").write_bytes(content)
    (tmp_path / "stages.py").write_text("def size(x):\n    return len(x)\n")
    (tmp_path / "app.pipe").write_text(PROGRAM)
    np.save(tmp_path / "x.npy", np.ones(5, np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> tuple[int, str, str]:
        assert Path.cwd() == folder
        status = main(list(words))
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return status, out, err

    return call


# ---- graph


def test_graph_draws_plans_and_pipelines_as_svg_and_html(run: Run, folder: Path) -> None:
    status, out, _ = run("graph", "app.pipe")
    assert (status, out) == (0, "app.svg: pipeline twice, pipeline sized\n")
    first = (folder / "app.svg").read_bytes()
    assert ElementTree.fromstring(first).tag.endswith("svg")
    run("compile", "app.pipe", "--schedule", "server")
    assert run("graph", "app.plan", "--pipeline", "sized", "-o", "a.html")[0] == 0
    shown = (folder / "a.html").read_text()
    assert "pipeline sized" in shown
    assert "pipeline twice" not in shown
    (folder / "double.onnx").unlink()
    status, _, _ = run("graph", "app.plan", "-o", "app.svg")
    assert status == 0
    assert b"batch up to 8" in (folder / "app.svg").read_bytes()
    assert run("graph", "app.pipe", "--schedule", "server")[0] == 1  # its model is gone


def test_graph_draws_a_pipeline_whose_models_are_absent(run: Run, folder: Path) -> None:
    (folder / "double.onnx").unlink()
    text = PROGRAM.replace('.onnx"', '.onnx" (x: f32[N]) -> (y: f32[N])')
    (folder / "app.pipe").write_text(text)
    assert run("graph", "app.pipe", "--stage", "graph")[0] == 0
    assert b"double" in (folder / "app.svg").read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["app.pipe", "-o", "a.png"], "ends neither in .svg nor in .html"),
        (["app.pipe", "-o", "absent/a.svg"], "cannot be written"),
        (["app.pipe", "--pipeline", "twic"], "did you mean `twice`?"),
        (["app.plan", "--stage", "graph"], "draw the `.pipe` file"),
        (["app.plan", "--schedule", "server"], "was compiled with its schedule"),
        (["app.pipe", "--stage", "graph", "--schedule", "server"], "changes nothing"),
        (["app.pipe", "--profile", "absent.profile"], "there is no file `absent.profile`"),
    ],
)
def test_graph_tells_wrong_usage_with_a_cure(run: Run, words: list[str], said: str) -> None:
    run("compile", "app.pipe", "--schedule", "server")
    status, _, err = run("graph", *words)
    assert status == 2
    assert said in err


@pytest.mark.usefixtures("folder")
def test_without_graphviz_the_extra_that_brings_it_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pygraphviz", None)
    status, _, err = run("graph", "app.pipe")
    assert status == 3
    assert "pip install 'headrace[graph]'" in err


# ---- measure


def test_measure_writes_a_profile_that_later_compilations_read(run: Run, folder: Path) -> None:
    words = ("compile", "app.pipe", "--schedule", "server", "--measure", "--sample", "x=@x.npy")
    status, out, err = run(*words)
    assert (status, err) == (0, "")
    assert out.startswith("app.profile: 1 model measured\napp.plan: twice, sized in ")
    first = (folder / "app.plan").read_bytes()
    profile = json.loads((folder / "app.profile").read_text())["profile"]
    (times,) = profile["models"]
    assert times["inputs"] == ["x float32[5]"]
    assert [timing["rows"] for timing in times["timings"]] == [1, 2, 4, 8, 16]
    took = {(one["pipeline"], one["stage"]) for one in profile["stages"]}
    assert {("twice", "double"), ("twice", "size"), ("sized", "size")} <= took
    run("compile", "app.pipe", "--schedule", "server", "--profile", "app.profile")
    assert (folder / "app.plan").read_bytes() == first
    _, out, _ = run("explain", "app.plan")
    assert "batch up to 8, no wait (schedule 'server', measured " in out
    assert "\ndeadline 200 ms, measured " in out
    _, other, _ = run("explain", "app.pipe", "--schedule", "server", "--profile", "app.profile")
    assert other == out
    assert run("graph", "app.plan", "--profile", "app.profile")[0] == 0
    assert b"a row" in (folder / "app.svg").read_bytes()


def test_figures_of_another_machine_are_used_and_told(run: Run, folder: Path) -> None:
    run("compile", "app.pipe", "--measure")
    assert run("compile", "app.pipe", "--profile", "app.profile")[2] == ""
    profile = json.loads((folder / "app.profile").read_text())
    profile["profile"]["machine"] |= {"processor": "Far CPU", "cores": 640}
    (folder / "app.profile").write_text(json.dumps(profile))
    status, _, err = run("compile", "app.pipe", "--profile", "app.profile")
    assert status == 0
    assert err.startswith("app.profile is of Far CPU (640 cores, onnxruntime ")


def test_measure_without_samples_says_what_sizes_stand_for(run: Run, folder: Path) -> None:
    status, out, err = run("compile", "app.pipe", "--measure", "--profile", "a.profile")
    assert status == 0
    assert out.startswith("a.profile: ")
    assert err == "without --sample, sizes that are only named are taken to be 64\n"
    profile = json.loads((folder / "a.profile").read_text())["profile"]
    assert profile["models"][0]["inputs"] == ["x float32[64]"]
    assert profile["stages"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sample", "x=[1]"], "`--measure`"),
        (["--measure", "--sample", "y=[1]"], "no pipeline takes y and nothing else"),
        (["--measure", "--profile", "a.json"], "does not end in .profile"),
        (["--measure", "--profile", "absent/a.profile"], "cannot be written"),
        (["--profile", "absent.profile"], "there is no file"),
    ],
)
def test_measure_tells_wrong_usage_with_a_cure(run: Run, words: list[str], said: str) -> None:
    status, _, err = run("compile", "app.pipe", *words)
    assert status == 2
    assert said in err


def test_a_file_that_is_no_profile_is_refused_with_its_code(run: Run, folder: Path) -> None:
    (folder / "a.profile").write_text("{}")
    status, _, err = run("explain", "app.pipe", "--profile", "a.profile")
    assert status == 1
    assert err.startswith("error[HR419]: ")


CONTROL = """\
model double = onnx "double.onnx"
fn size(x: f32[N]) -> (n: i64) = python "stages.py:size"

pipeline grow(x: f32[3]) -> stream (y: f32[3]) {
    last, n = loop (y: f32[3] = x, n: i32 = 0) max 4 {
        z = double(y)
        emit y = z
        next y = z, n = n + 1
        stop when n == 1
    }
}

pipeline kept(x: f32[3]) -> (y: f32[3]) per sequence idle 30s {
    state h: f32[3] = zeros
    n = try size(x) within 1s else 0
    next h = double(x)
    return y = h + cast(n, f32)
}
"""


def test_streams_and_states_are_measured_and_drawn(run: Run, folder: Path) -> None:
    (folder / "app.pipe").write_text(CONTROL)
    status, _, err = run("compile", "app.pipe", "--measure", "--sample", "x=[1, 2, 3]")
    assert status == 0
    assert err.count("`last` is never used") == 1
    stages = json.loads((folder / "app.profile").read_text())["profile"]["stages"]
    rows = {(one["pipeline"], one["stage"]): one["rows"] for one in stages}
    assert rows["grow", "double"] == 2
    assert rows["kept", "double"] == rows["kept", "size"] == 1
    assert run("graph", "app.plan", "--profile", "app.profile")[0] == 0
    assert run("graph", "app.pipe", "--stage", "graph", "-o", "graph.svg")[0] == 0
    for name in ("app.svg", "graph.svg"):
        root = ElementTree.fromstring((folder / name).read_bytes())
        titles = {
            (one.text or "").partition("\n")[0] for one in root.iter() if one.tag[-5:] == "title"
        }
        assert {"emit", "again", "in the end", "state h", "next h", "double", "size"} <= titles


# ---- diff


def test_diff_shows_what_a_schedule_changes(run: Run) -> None:
    run("compile", "app.pipe", "-o", "a.plan", "--schedule", "server")
    (Path("app.pipe")).write_text(PROGRAM.replace("max = 8", "max = 16, wait = 1ms"))
    status, out, _ = run("explain", "--diff", "a.plan", "app.pipe")
    assert status == 0
    assert out.splitlines()[:4] == [
        "pipeline twice",
        "    batch     double: batch up to 8, no wait to batch up to 16, wait 1 ms",
        "--- a.plan",
        "+++ app.pipe",
    ]
    assert run("explain", "--diff", "a.plan", "a.plan")[1] == "both plans do the same\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "what? a .pipe or .plan file"),
        (["app.pipe", "--diff", "app.pipe", "app.pipe"], "what is `app.pipe` for?"),
        (["--diff", "app.pipe"], "expected 2 arguments"),
        (["app.plan", "--profile", "app.profile"], "--profile is for sources"),
    ],
)
def test_explain_tells_wrong_usage_with_a_cure(run: Run, words: list[str], said: str) -> None:
    run("compile", "app.pipe", "--measure")
    status, _, err = run("explain", *words)
    assert status == 2
    assert said in err
