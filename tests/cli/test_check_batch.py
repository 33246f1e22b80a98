"""`headrace check --batch` as a shell sees it."""

from pathlib import Path

import pytest

from headrace.cli import main
from tests.runtime.padded_models import write_models


def test_it_prints_a_table_and_fails_for_a_declaration_that_does_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(write_models(tmp_path))
    assert main(["check", "--batch", path]) == 1
    out, err = capsys.readouterr()
    heading, *lines = out.splitlines()
    assert heading.split() == ["model", "declares", "rows", "difference", "first", "row", "holds"]
    assert [line.split()[0] for line in lines] == ["mean", "mean", "share", "share"]
    assert lines[1].endswith("yes")
    assert "pads L" in lines[3]
    assert "1 (L = 48)  no: `y` differs by " in lines[3]
    assert "inputs are made up: sizes that are only named are 64" in err
    assert err.endswith("4 declarations compared: 1 of them does not hold\n")


def test_it_is_good_when_all_holds_and_takes_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_models(tmp_path)
    text = path.read_text("utf-8").replace("    pads L with (x = 0)\n", "")
    path.write_text(text, encoding="utf-8")
    assert main(["check", "--batch", str(path), "--sample", "rows=[[1, 2], [3], [4]]"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[-1] for line in out.splitlines()[1:]] == ["yes", "yes", "yes"]
    assert err == "3 declarations compared: all hold\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--sample", "x=1"], "--sample is what `--batch` compares with"),
        (["--batch", "a.pipe", "b.pipe"], "--batch takes one file"),
    ],
)
def test_words_that_make_no_sense_are_refused(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *words]) == 2
    assert told in capsys.readouterr().err
