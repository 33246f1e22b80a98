"""`headrace compile --calibrate`: samples of every form, what is printed, what is written."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from headrace.cli import main
from headrace.cli.command import Exit
from headrace.compiler import plan_file
from tests.compiler.precision import models
from tests.compiler.precision.models import drawn

pytest.importorskip("onnxruntime")

SOURCE = """
model mlp = onnx "mlp.onnx" (x: f32[64]) -> (y: f32[64])

pipeline p(x: f32[64], scale: f32 = 1.0) -> (y: f32[64]) {
    return y = mlp(x * scale)
}

pipeline other(words: string) -> (words: string) {
    return words = words
}

schedule p { mlp { precision = int8 } }
"""
KEEPING = """
model mlp = onnx "mlp.onnx" (x: f32[64]) -> (y: f32[64])

pipeline p(x: f32[64]) -> (y: f32[64]) per sequence idle 5s {
    state before: f32[64] = zeros
    y = mlp(x + before)
    next before = x * 1000.0
    return y = y
}

schedule p { mlp { precision = fp16 } }
"""
ROW = drawn(64, scale=1.0)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(models.perceptron(), "mlp.onnx")
    Path("p.pipe").write_text(SOURCE, encoding="utf-8")
    return tmp_path


def npy(name: str) -> str:
    np.save(name, ROW)
    return name


def two_inputs(name: str) -> str:
    np.savez(name, x=ROW, scale=np.float32(2.0))
    return name


def object_of_inputs(name: str) -> str:
    Path(name).write_text(json.dumps({"x": ROW.tolist(), "scale": 2.0}))
    return name


def numbers(name: str) -> str:
    Path(name).write_text(json.dumps(ROW.tolist()))
    return name


def folder_of_all(name: str) -> str:
    inner = Path(name) / "one"
    inner.mkdir(parents=True)
    np.save(inner / "x.npy", ROW)
    (inner / "scale.json").write_text("3.0")
    npy(f"{name}/two.npy")
    two_inputs(f"{name}/three.npz")
    Path(name, ".hidden").write_text("no sample")
    return name


FORMS: list[tuple[Callable[[str], str], str, int]] = [
    (npy, "row.npy", 1),
    (numbers, "row.json", 1),
    (two_inputs, "row.npz", 1),
    (object_of_inputs, "row.json", 1),
    (folder_of_all, "rows", 3),
]


@pytest.mark.parametrize(("make", "name", "rows"), FORMS, ids=[one[0].__name__ for one in FORMS])
def test_samples_are_taken_in_every_form(
    make: Callable[[str], str], name: str, rows: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", "p.pipe", "--calibrate", make(name)]) is Exit.GOOD
    out = capfd.readouterr().out
    assert "mlp in int8: ranges " in out
    assert f" on {rows} row{'s' * (rows > 1)}; 16." in out
    assert "p.calibration: 1 model calibrated" in out
    written = json.loads(Path("p.calibration").read_text())
    assert written["calibration"]["models"][0]["rows"] == rows
    plan = Path("p.plan").read_bytes()
    assert main(["compile", "p.pipe", "--calibrate", "p.calibration"]) is Exit.GOOD
    assert Path("p.plan").read_bytes() == plan


BAD: list[tuple[dict[str, str], str, str]] = [
    ({}, "nothing.npy", "there is no `nothing.npy`"),
    (
        {"row.npy": "no array"},
        "row.npy",
        "`row.npy` cannot be read: it does not start as a .npy file does",
    ),
    ({"row.npy": "PK\x03\x04"}, "row.npy", "`row.npy` cannot be read: it does not start as"),
    ({"row.npz": "no array"}, "row.npz", "`row.npz` cannot be read: File is not a zip file"),
    ({"row.json": "{"}, "row.json", "`row.json` cannot be read: "),
    ({"row.bin": "numbers"}, "row.bin", "is for numbers, and ends neither in .npy nor in .json"),
    ({"row.json": '{"z": 1}'}, "row.json", "no pipeline takes these samples (z): `p` takes x: f32"),
    ({"row.json": "[1.0, 2.0]"}, "row.json", "a sample does not run: "),
    ({"rows/.hidden": ""}, "rows", "`rows` is an empty folder"),
]


@pytest.mark.parametrize(("files", "path", "said"), BAD, ids=[one[2][:30] for one in BAD])
def test_samples_that_cannot_be_used_are_refused_with_their_name(
    files: dict[str, str], path: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    assert main(["compile", "p.pipe", "--calibrate", path]) is Exit.MISTAKES
    err = capfd.readouterr().err
    assert err.startswith("error[HR432]: ")
    assert said in err
    assert not Path("p.plan").exists()


def test_requests_of_a_sequence_follow_each_other(capfd: pytest.CaptureFixture[str]) -> None:
    Path("p.pipe").write_text(KEEPING, encoding="utf-8")
    Path("rows").mkdir()
    for number in range(3):
        np.save(f"rows/{number}.npy", np.ones(64, np.float32))
    assert main(["compile", "p.pipe", "--calibrate", "rows"]) is Exit.GOOD
    ranges = json.loads(Path("p.calibration").read_text())["calibration"]["models"][0]["ranges"]
    (given,) = [one for one in ranges if one["tensor"] == "x"]
    assert (given["low"], given["high"]) == (1.0, 1001.0)  # the second comes behind the first
    assert "on 3 rows" in capfd.readouterr().out


def test_options_without_effect_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    Path("p.pipe").write_text(SOURCE.rpartition("schedule")[0], encoding="utf-8")
    assert main(["compile", "p.pipe", "--tolerance", "0.1"]) is Exit.USAGE
    assert "--tolerance is for models in another precision, and there are none" in (
        capfd.readouterr().err
    )
    assert main(["compile", "p.pipe", "--calibrate", npy("row.npy")]) is Exit.USAGE
    for share in ("-1", "nan", "half"):
        assert main(["compile", "p.pipe", "--tolerance", share]) is Exit.USAGE
        assert f"argument --tolerance: `{share}` is no share above 0" in capfd.readouterr().err


def test_other_commands_take_a_source_that_its_tests_calibrate(
    capfd: pytest.CaptureFixture[str],
) -> None:
    test = 'test "t" for p {\n    given x = full(64, 0.5)\n    expect len(y) == 64\n}\n'
    Path("p.pipe").write_text(f"{SOURCE}\n{test}", encoding="utf-8")
    assert main(["explain", "p.pipe"]) is Exit.GOOD
    assert "--   mlp in int8: ranges " in capfd.readouterr().out
    assert main(["check", "p.pipe"]) is Exit.GOOD
    assert main(["test", "p.pipe"]) is Exit.GOOD


@pytest.mark.slow
def test_what_is_measured_is_the_model_that_the_samples_make() -> None:
    onnx.save(models.conv_net(), "mlp.onnx")
    text = SOURCE.replace("x: f32[64]", "x: f32[3, 16, 16]").replace("y: f32[64]", "y: f32[4]")
    Path("p.pipe").write_text(text, encoding="utf-8")
    np.save("row.npy", drawn(3, 16, 16))
    assert main(["compile", "p.pipe"]) is Exit.MISTAKES
    assert main(["compile", "p.pipe", "--measure", "--calibrate", "row.npy"]) is Exit.GOOD
    (measured,) = json.loads(Path("p.profile").read_text())["profile"]["models"]
    plan = plan_file.read("p.plan")
    assert measured["model"] in [digest for digest, _ in plan.blobs]
