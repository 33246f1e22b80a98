"""Backends of other packages: the sample under examples/backend, and such as cannot be used."""

import sys
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.runtime.load_error import LoadError

SAMPLE = Path(str(headrace.__file__)).resolve().parents[2] / "examples" / "backend"
PIPE = """
model score = linear "score.npz" (x: f32[3]) -> (y: f32[2])

pipeline p(x: f32[3]) -> (y: f32[2]) batch 4 {
    return y = score(x)
}
"""


def offer(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Let a package be installed that offers a backend."""
    meta = folder / f"offers_{name}-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text(f"Metadata-Version: 2.1\nName: offers-{name}\nVersion: 1.0\n")
    (meta / "entry_points.txt").write_text(f"[headrace.backends]\n{name} = {value}\n")
    monkeypatch.syspath_prepend(str(folder))


def write(folder: Path, text: str = PIPE) -> Path:
    weight, bias = np.arange(6, dtype=np.float32).reshape(3, 2), np.ones(2, np.float32)
    np.savez(folder / "score.npz", weight=weight, bias=bias)
    path = folder / "p.pipe"
    path.write_text(text)
    return path


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(SAMPLE))
    monkeypatch.delitem(sys.modules, "headrace_linear", raising=False)
    offer(tmp_path, monkeypatch, "linear", "headrace_linear:BACKEND")
    return tmp_path


def test_the_sample_package_adds_a_kind_of_model_in_under_60_lines(sample: Path) -> None:
    assert len((SAMPLE / "headrace_linear.py").read_text().splitlines()) < 60
    assert 'linear = "headrace_linear:BACKEND"' in (SAMPLE / "pyproject.toml").read_text()
    with headrace.load(write(sample)) as app:
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        expected = x @ np.arange(6, dtype=np.float32).reshape(3, 2) + 1
        assert np.array_equal(app.p(x=x).y, expected)
        assert app.metrics[0].stage("score").executions == 1


def test_what_it_finds_in_a_file_is_compared_with_the_declaration(sample: Path) -> None:
    path = write(sample, PIPE.replace("f32[3]", "f32[4]"))
    with pytest.raises(
        LoadError, match=r"declared as x: f32\[_, 4\].*has x: f32\[_, 3\]"
    ) as caught:
        headrace.load(path)
    assert caught.value.code == "HR510"


def test_a_plan_says_what_is_missing_where_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as here:
        offer(tmp_path, here, "linear", "headrace_linear:BACKEND")
        plan = headrace.compile(write(tmp_path))
    with pytest.raises(LoadError, match="nothing of that name is installed") as caught:
        headrace.load(plan)
    assert caught.value.code == "HR509"
    with pytest.raises(headrace.CompileError, match="there is no backend `linear`"):
        headrace.compile(tmp_path / "p.pipe")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("there_is_none:BACKEND", "cannot be imported: ModuleNotFoundError"),
        ("json:dumps", "is no headrace Backend"),
        ("headrace.runtime.backends.native:BACKEND", "runs native, and the model is of kind `odd`"),
    ],
)
def test_a_backend_that_cannot_be_used_is_named(
    value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(tmp_path, monkeypatch, "odd", value)
    with pytest.raises(LoadError, match=message) as caught:
        headrace.load(write(tmp_path, PIPE.replace("linear", "odd")))
    assert caught.value.code == "HR509"


def test_a_schedule_gives_an_onnx_model_to_a_backend_that_is_offered(
    sample: Path,
) -> None:
    from tests.runtime.plans import add_model

    (sample / "m.onnx").write_bytes(add_model(1.0))
    text = """
model m = onnx "m.onnx" (x: f32) -> (y: f32)

pipeline p(x: f32) -> (y: f32) {
    return y = m(x)
}

schedule p {
    m { backend = linear }
}
"""
    with pytest.raises(LoadError, match="the backend `linear` runs linear, and the model is of"):
        headrace.load(write(sample, text))
    with pytest.raises(LoadError, match=r"stage `m`.*`tensorrt` runs models on GPUs"):
        headrace.load(write(sample, text.replace("linear", "tensorrt")))
