"""Commands as a shell sees them: processes, signals, pipes and what is printed."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.commands import Run

# ---- processes


@pytest.mark.usefixtures("folder")
@pytest.mark.slow
def test_check_imports_nothing_that_runs_models() -> None:
    code = (
        "import sys; from headrace.cli import main; main(['check', 'app.pipe']);"
        "print([m for m in ('onnxruntime', 'cv2', 'grpc', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.usefixtures("folder")
@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = (
        f"{sys.executable} -m headrace.cli explain app.pipe | head -c 1; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pipeline_whose_values_cannot_travel_is_not_served(run: Run, folder: Path) -> None:
    (folder / "nested.pipe").write_text(
        "pipeline p(x: list<list<f32[N]>>) -> (x: list<list<f32[N]>>) {\n    return x = x\n}\n"
    )
    ports = [word for name in ("http", "grpc", "metrics") for word in (f"--{name}-port", "0")]
    status, _, err = run("run", "nested.pipe", *ports)
    assert status == 3
    assert "cannot travel" in err


@pytest.mark.slow
def test_run_serves_until_it_is_told_to_stop(run: Run) -> None:
    ports = [word for name in ("http", "grpc", "metrics") for word in (f"--{name}-port", "0")]
    server = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli", "run", "app.pipe", *ports],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with server, ExitStack() as ending:
        ending.callback(server.kill)  # or a failure would wait for it
        assert server.stdout is not None
        said: dict[str, str] = {}
        while "metrics" not in said:
            line = server.stdout.readline()
            assert line, server.stderr.read() if server.stderr is not None else ""
            said |= {line.split()[0]: line.split()[1]}
        http = said["http"].replace("/v2/models/twice", "")
        for address in (said["grpc"], http):
            words = ("--json", "x=[1, 2.25]", "names=a", "names=b")
            status, out, _ = run("infer", f"{address}/twice", *words)
            assert (status, json.loads(out)) == (0, {"y": [2, 4.5], "names": ["a", "b"]})
            status, out, _ = run("infer", f"{address}/measure", "photo=@photo.bin", "scale=2")
            assert (status, out) == (0, "n      6\nlabel  none\n")
            status, _, err = run("infer", f"{address}/broken", "x=[1]")
            assert status == 3
            assert "no such luck" in err
            status, _, err = run("infer", f"{address}/twce", "x=[1]")
            assert status == 1
            assert "twce" in err
            status, _, err = run("infer", f"{address}/measure", "photo=@photo.bin", "scale=true")
            assert status == 1
            assert "`scale` is the bool True, expected f64" in err
        port = http.rpartition(":")[2]
        status, _, err = run("run", "app.pipe", "--http-port", port, "--grpc-port", "off")
        assert status == 3
        assert f"cannot serve on 127.0.0.1: port {port}: Address already in use\nhelp: `--h" in err
        os.kill(server.pid, signal.SIGTERM)
        assert server.wait(30) == 0
    status, _, err = run("infer", f"{http}/twice", "x=[1]")
    assert status == 3
    assert "cannot be reached" in err


# ---- what is printed


@pytest.mark.parametrize(
    ("variables", "redirection", "status", "said"),
    [
        ({"PYTHONIOENCODING": "ascii"}, "", 0, "s  \\xe9"),
        pytest.param(
            *({}, ">/dev/full", 3),
            "failed: the output cannot be written: No space left on device",
            marks=pytest.mark.skipif(
                not Path("/dev/full").is_char_device(), reason="there is no device that is full"
            ),
        ),
        ({}, ">&-", 0, "answered in"),
        ({}, "2>&-", 0, "s  é"),
    ],
)
@pytest.mark.slow
def test_output_that_cannot_be_written_is_no_bug(
    folder: Path, variables: dict[str, str], redirection: str, status: int, said: str
) -> None:
    command = f"{sys.executable} -m headrace.cli infer app.pipe --pipeline say s=é"
    (folder / "app.pipe").write_text(
        "pipeline say(s: string) -> (s: string) { return s = s }", encoding="utf-8"
    )
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} {redirection}"],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **variables},
    )
    assert done.returncode == status, done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_stage_prints_is_not_part_of_the_result(run: Run, folder: Path) -> None:
    (folder / "loud.py").write_text("def loud(x):\n    print('loud')\n    return x\n")
    (folder / "loud.pipe").write_text(
        'fn loud(x: f32) -> (y: f32) = python "loud.py:loud"\n'
        "pipeline p(x: f32) -> (y: f32) { return y = loud(x) }\n"
        'test "loud" for p {\n    given x = 1\n    expect y == 1\n}\n'
    )
    status, out, err = run("infer", "loud.pipe", "x=1", "--json")
    assert (status, out) == (0, '{"y": 1.0}\n')
    assert err.startswith("loud\n")
    status, out, err = run("test", "loud.pipe")
    assert (status, out.count("\n"), err) == (0, 1, "loud\n1 test passed\n")


@pytest.mark.parametrize("command", ["compile", "run", "explain", "infer", "graph"])
def test_a_file_without_pipelines_cannot_be_compiled(run: Run, folder: Path, command: str) -> None:
    (folder / "types.pipe").write_text("type Quad = f32[4, 2]\n")
    assert run("check", "types.pipe")[0] == 0
    status, out, err = run(command, "types.pipe")
    assert (status, out) == (1, "")
    assert err.startswith("error[HR339]: there is no pipeline in this file")
