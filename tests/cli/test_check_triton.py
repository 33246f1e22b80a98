"""`headrace check` of repositories of Triton models."""

from pathlib import Path

import pytest

from headrace.cli import main

TENSORS = (
    'input { name: "x" data_type: TYPE_FP32 dims: 3 }\n'
    'output { name: "y" data_type: TYPE_FP32 dims: 3 }\n'
)


def put(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("a/m", "b/n"):
        put(Path(name, "1", "model.py"))
        put(Path(name, "config.pbtxt"), TENSORS)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_repository_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "a", "b"]) == 0
    assert "2 models checked: no mistakes" in capsys.readouterr().err
    put(Path("b/n/config.pbtxt"), "max_batch_size: -1\ndynamic_batching { }\n" + TENSORS)
    assert main(["check", "a", "b", "--format", "short"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "b/n/config.pbtxt:1:17: HR611 a batch of -1\n"
    assert "2 models checked: 1 mistake" in printed.err


@pytest.mark.usefixtures("folder")
def test_sources_beside_models_are_checked_too(capsys: pytest.CaptureFixture[str]) -> None:
    put(Path("a/app.pipe"), "pipeline p(x: f32) -> (y: f32) {\n    return y = z\n}\n")
    assert main(["check", "a", "--format", "short"]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("a/app.pipe:2:16: HR101")
    assert "1 file and 1 model checked: 1 mistake" in printed.err


@pytest.mark.usefixtures("folder")
def test_a_configuration_has_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    put(Path("a/m/configs/large.pbtxt"), "max_batch_size: -8\n")
    assert main(["check", "a", "--model-config-name", "large", "--format", "short"]) == 1
    assert "configs/large.pbtxt:1:17: HR611" in capsys.readouterr().out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a/m"], "is a model of a repository"),
        (["a", "--batch"], "is a folder"),
        (["c.pipe", "--model-config-name", "x"], "there is no file `c.pipe`"),
    ],
)
def test_wrong_usage_is_told(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *words]) == 2
    assert said in capsys.readouterr().err
