"""Commands, called in this process: what is printed where, and the exit code."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import PROGRAM, Run, shell

# ---- words


def test_no_command_prints_help_and_is_wrong_usage(run: Run) -> None:
    status, out, _ = run()
    assert status == 2
    assert "headrace COMMAND" in out
    assert run("--help")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chekc"], "did you mean `headrace check`?"),
        (["check", "ap.pipe"], "did you mean `app.pipe`?"),
        (["infer", "app.plan"], "did you mean `app.pipe`?"),
        (["run", "app.pipe", "--http-prot=0"], "did you mean `--http-port`?"),
        (["run", "app.pipe", "--http-port", "70000"], "`70000` is no port"),
        (["run", "app.pipe", "--tls-key", "k.pem"], "go together"),
        (
            [
                "run",
                "app.pipe",
                "--tls-key",
                "k",
                "--tls-certificate",
                "c",
                "--grpc-carrier",
                "pygrpc-native",
            ],
            "pygrpc-native has no TLS",
        ),
        (["explain", "HR99"], "there is no code `HR99`"),
        (["infer", "app.pipe", "--pipeline", "twic"], "did you mean `twice`?"),
        (["infer", "app.pipe"], "say which with `--pipeline NAME`"),
        (["infer", "app.pipe", "x"], "write `name=value`"),
        (["infer", "app.pipe", "--pipeline", "measure", "phto=x"], "did you mean `photo`?"),
        (["infer", "app.pipe", "--pipeline", "measure", "photo=@photo.bn"], "`@photo.bin`?"),
        (["infer", "app.pipe", "--pipeline", "twice", "x=[1,"], "`x` is not JSON"),
        (["infer", "app.pipe", "--pipeline", "measure", "photo=a", "photo=b"], "2 times"),
        (["infer", "app.pipe", "--pipeline", "twice", "--timeout", "5"], "`5` is no duration"),
        (["infer", "http://"], "`http://` names no server"),
        (["infer", "http://127.0.0.1:a/p"], "`http://127.0.0.1:a/p` is no address: Port could"),
        (["infer", "grpc://[::1/p"], "`grpc://[::1/p` is no address: Invalid IPv6 URL"),
        (["check", "stages.py"], "does not end in .pipe"),
        (["fmt", "-", "app.pipe"], "`-` stands alone"),
    ],
)
def test_wrong_usage_is_told_with_a_cure(run: Run, words: list[str], said: str) -> None:
    status, out, err = run(*words)
    assert (status, out) == (2, "")
    assert said in err


# ---- check and fmt


def test_check_says_that_all_is_well(run: Run) -> None:
    assert run("check", "app.pipe") == (0, "", "1 file checked: no mistakes\n")


def test_check_of_a_folder_finds_every_file_and_tells_a_shared_mistake_once(
    run: Run, folder: Path
) -> None:
    for name in ("sub", ".hidden"):
        (folder / name).mkdir()
    (folder / ".hidden" / "wrong.pipe").write_text("type A =\n")
    (folder / "sub" / "common.pipe").write_text("type A = f99\n")
    for name in ("one", "two"):
        (folder / f"{name}.pipe").write_text('use "sub/common.pipe" as common\n')
    status, out, err = run("check", "--format", "short", ".")
    assert status == 1
    assert len([line for line in out.splitlines() if "f99" in line]) == 1
    assert err.startswith("4 files checked: 1 mistake")


def test_check_has_a_full_form_a_short_form_and_json(run: Run, folder: Path) -> None:
    (folder / "bad.pipe").write_text("type A =\nuse image imag\n")
    status, out, _ = run("check", "bad.pipe")
    assert status == 1
    assert "\n2 | use image imag\n  |           ^^^^ expected the end of the line\n" in out
    _, out, _ = run("check", "bad.pipe", "--format", "short")
    assert out.splitlines()[0] == "bad.pipe:1:9: HR024 a type is missing"
    _, out, _ = run("check", "bad.pipe", "--format=json")
    assert [found["code"] for found in json.loads(out)] == ["HR024", "HR013"]


def test_a_file_that_is_not_text_is_a_mistake_with_a_code(run: Run, folder: Path) -> None:
    (folder / "bad.pipe").write_bytes(b"use image\n# caf\xe9\n")
    status, out, _ = run("check", "bad.pipe", "--format", "short")
    assert (status, out) == (1, "bad.pipe:2:6: HR023 this file is not UTF-8 text\n")


def test_fmt_rewrites_files_and_names_those_that_changed(run: Run, folder: Path) -> None:
    (folder / "app.pipe").chmod(0o640)
    assert run("fmt", "--check")[:2] == (1, "app.pipe\n")
    assert (folder / "app.pipe").read_text() == PROGRAM
    assert run("fmt")[:2] == (0, "app.pipe\n")
    assert run("fmt", "--check") == (0, "", "")
    assert (folder / "app.pipe").stat().st_mode & 0o777 == 0o640


def test_fmt_leaves_a_file_with_mistakes_alone(run: Run, folder: Path) -> None:
    (folder / "bad.pipe").write_text("type   A =\n")
    status, out, err = run("fmt", "bad.pipe")
    assert (status, out) == (1, "")
    assert "HR024" in err
    assert (folder / "bad.pipe").read_text() == "type   A =\n"


@pytest.mark.usefixtures("folder")
@pytest.mark.slow
def test_fmt_formats_stdin() -> None:
    done = shell("fmt", "-", input="type   A=f32")
    assert (done.returncode, done.stdout) == (0, "type A = f32\n")


# ---- compile, explain, passes, version


def test_compile_writes_a_plan_that_runs_without_its_sources(run: Run, folder: Path) -> None:
    status, out, _ = run("compile", "app.pipe")
    assert status == 0
    assert out.startswith("app.plan: twice, measure, broken in ")
    first = (folder / "app.plan").read_bytes()
    assert run("compile", "app.pipe", "-o", "other.plan")[0] == 0
    assert (folder / "other.plan").read_bytes() == first
    (folder / "app.pipe").unlink()
    (folder / "stages.py").unlink()
    status, out, _ = run("infer", "app.plan", "--pipeline", "measure", "photo=abc")
    assert (status, out) == (0, "n      3\nlabel  none\n")


@pytest.mark.parametrize(
    ("name", "help"),
    [
        ("m.onnx", 'a model is named in a .pipe file: `model name = onnx "m.onnx"`'),
        ("m.pt2", 'a model is named in a .pipe file: `model name = torch "m.pt2" (...) -> (...)`'),
        ("m.plan", "a plan has been compiled: name the source that it was made of"),
    ],
)
def test_what_is_no_source_is_said_to_be_what_it_is(
    run: Run, folder: Path, name: str, help: str
) -> None:
    (folder / name).write_bytes(b"")
    status, _, err = run("compile", name)
    assert (status, err) == (2, f"usage: `{name}` does not end in .pipe\nhelp: {help}\n")


def test_mistakes_stop_a_compilation(run: Run, folder: Path) -> None:
    (folder / "bad.pipe").write_text("type A =\n")
    status, out, err = run("compile", "bad.pipe")
    assert (status, out) == (1, "")
    assert "HR024" in err
    assert not (folder / "bad.plan").exists()


def test_a_schedule_that_is_not_there_is_a_mistake(run: Run) -> None:
    status, _, err = run("compile", "app.pipe", "--schedule", "gpu")
    assert status == 1
    assert "HR409" in err


def test_an_altered_plan_is_refused_with_its_code(run: Run, folder: Path) -> None:
    run("compile", "app.pipe")
    plan = bytearray((folder / "app.plan").read_bytes())
    plan[-30] ^= 1
    (folder / "app.plan").write_bytes(plan)
    status, out, err = run("infer", "app.plan", "--pipeline", "measure", "photo=a")
    assert (status, out) == (1, "")
    assert err.startswith("error[HR412]: ")


def test_explain_shows_stages_reasons_and_codes(run: Run) -> None:
    assert "double" in run("explain", "app.pipe")[1]
    assert "double" in run("explain", "app.pipe", "--stage", "graph")[1]
    assert run("explain", "app.pipe", "--why-not", "merge_models")[0] == 0
    assert run("explain", "hr024")[1].startswith("# HR024 ")
    status, _, err = run("explain", "app.pipe", "--stage", "grph")
    assert status == 1
    assert "did you mean `graph`?" in err


def test_passes_and_version(run: Run) -> None:
    status, out, _ = run("passes")
    assert status == 0
    assert out.split()[:2] == ["fold_constants", "simplify"]
    status, out, _ = run("version")
    assert status == 0
    assert {"headrace", "python", "onnxruntime"} <= {line.split()[0] for line in out.splitlines()}


# ---- infer and test


def test_infer_shows_a_row_an_item(run: Run) -> None:
    words = ("infer", "app.pipe", "--pipeline", "twice")
    status, out, err = run(*words, "x=[1, 2.25]", "names=left", "names=right")
    assert (status, out) == (0, "y    names\n2    left\n4.5  right\n")
    assert err.startswith("answered in ")


def test_infer_prints_json(run: Run) -> None:
    words = ("infer", "app.pipe", "--pipeline", "twice", "--json")
    _, out, _ = run(*words, "x=[1, 2.25]", 'names=["a"]')
    assert json.loads(out) == {"y": [2, 4.5], "names": ["a"]}


def test_infer_begins_a_sequence_where_state_is_kept(run: Run, folder: Path) -> None:
    (folder / "kept.pipe").write_text("""
pipeline total(x: f32) -> (y: f32) per sequence {
    state kept: f32 = 0.5
    next kept = kept + x
    return y = kept + x
}
""")
    code, out, _ = run("infer", "kept.pipe", "x=1", "--json")
    assert (code, json.loads(out)) == (0, {"y": 1.5})


def test_infer_reads_files(run: Run, folder: Path) -> None:
    np.save(folder / "x.npy", np.array([1, 2], np.float32))
    (folder / "name.txt").write_text("long\nname")
    words = ("infer", "app.pipe", "--pipeline")
    _, out, _ = run(*words, "measure", "photo=@photo.bin", "label=@name.txt", "--json")
    assert json.loads(out) == {"n": 6, "label": "long\nname"}
    _, out, _ = run(*words, "twice", "x=@x.npy", "names=a", "names=@name.txt")
    assert out == "y  names\n2  a\n4  long\\nname\n"


def test_a_value_that_does_not_fit_is_a_mistake_in_the_input(run: Run) -> None:
    status, _, err = run("infer", "app.pipe", "--pipeline", "twice", "x=[[1]]", "names=a")
    assert status == 1
    assert "twice(x: f32[N], names: string[M])" in err


def test_a_stage_that_fails_is_shown_with_its_line(run: Run) -> None:
    status, _, err = run("infer", "app.pipe", "--pipeline", "broken", "x=[1]")
    assert status == 3
    assert err == (
        "failed: pipeline `broken`, stage `fail`: `fail` raised ValueError: no such luck\n"
        " --> app.pipe:15:16\n"
        "15 |     return y = fail(x)\n"
        "   |                ^\n"
    )


def test_test_runs_test_blocks(run: Run, folder: Path) -> None:
    status, out, err = run("test")
    assert status == 0
    assert out.startswith("passed  app.pipe: it doubles (")
    assert err == "1 test passed\n"
    (folder / "app.pipe").write_text(PROGRAM.replace("y == [2, 4]", "y == [2, 5]"))
    status, out, err = run("test")
    assert status == 1
    assert "1 of 2 differ, first [1]: 4.0, expected 5" in out
    assert err == "0 tests passed, 1 failed\n"


def test_test_says_that_a_file_with_mistakes_was_not_tried(run: Run, folder: Path) -> None:
    (folder / "app.pipe").write_text(PROGRAM.replace("given x", "given z"))
    status, _, err = run("test")
    assert status == 1
    assert err.endswith("\nmistakes in 1 file\n")
