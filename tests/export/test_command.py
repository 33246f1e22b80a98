"""`headrace export`: all files or none, and mistakes that say what was meant."""

from pathlib import Path

import pytest

from headrace.cli import main
from headrace.cli.command import Exit
from headrace.export.target import Option, all_targets
from tests.export.programs import write_program


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "twice.pipe"
    path.write_text("pipeline twice(x: f32[N]) -> (y: f32[N]) {\n    return y = x + x\n}\n")
    return str(path)


@pytest.mark.parametrize("target", sorted(all_targets()))
def test_each_target_writes_a_readme_and_says_what_it_has_written(
    target: str, source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "out"
    assert main(["export", target, source, "-o", str(out)]) == Exit.GOOD
    assert (out / "README.md").read_text().startswith("# twice")
    files = [one for one in out.rglob("*") if one.is_file()]
    assert capsys.readouterr().out.endswith(f"{out}: {len(files)} files for {target}\n")
    assert [one.name for one in out.parent.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tritan", "-o", "out"], "did you mean `triton`?"),
        (["x", "-o", "out"], "there are jetson, triton"),
        (
            ["triton", "-o", "out", "--jetpack", "6.2"],
            "--jetpack is an option of the target `jetson`",
        ),
        (["jetson", "-o", "out", "--jetpack", "4.6"], "invalid choice: '4.6'"),
        (["triton", "-o", "out", "--instances", "none"], "from 1 to 256"),
        (["triton", "-o", "full"], "`full` is there already and not empty"),
        (["triton", "-o", "full/file"], "`full/file` is there already"),
        (["triton", "-o", "full/file/out"], "`full/file/out` cannot be written: "),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    words: list[str],
    said: str,
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("full").mkdir()
    Path("full", "file").touch()
    target, *rest = words
    assert main(["export", target, source, *rest]) in (Exit.USAGE, Exit.FAILED)
    assert said in capsys.readouterr().err
    assert sorted(one.name for one in tmp_path.iterdir()) == ["full", "twice.pipe"]
    assert [one.name for one in Path("full").iterdir()] == ["file"]


def test_no_two_targets_have_an_option_of_one_name() -> None:
    options: list[Option] = [one for target in all_targets().values() for one in target.options]
    assert len({one.name for one in options}) == len(options)


@pytest.mark.parametrize("onnx", ["onnxruntime", "python"])
def test_an_exported_repository_has_no_mistakes(
    onnx: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    path = str(write_program(tmp_path))
    assert main(["export", "triton", path, "-o", str(out), "--onnx", onnx]) == Exit.GOOD
    assert main(["check", str(out)]) == Exit.GOOD
    assert "error" not in capsys.readouterr().err
