"""`headrace run --processes`: several processes that are one server to whoever asks."""

import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from headrace.cli import main
from headrace.client import Client
from tests.cli.test_run import PIPE, Running, put, running

STAGES = """
import os


def who(x):
    return x * 0 + os.getpid()


def wait(gate):
    with open(gate) as opened:
        return opened.read()
"""
SOURCE = """
fn who(x: f64) -> (pid: f64) = python "stages.py:who"
fn wait(gate: string) -> (said: string) = python "stages.py:wait"
pipeline p(x: f64) -> (pid: f64) { return pid = who(x) }
pipeline waits(gate: string) -> (said: string) { return said = wait(gate) }
"""

FUNCTION = "def f(x):\n    return x\n\n\n"
CALLS = """
fn f(x: f32) -> (y: f32) = python "stages.py:f"
pipeline p(x: f32) -> (y: f32) { return y = f(x) }
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "stages.py").write_text(STAGES)
    (tmp_path / "a.pipe").write_text(SOURCE)
    return str(tmp_path / "a.pipe")


@contextmanager
def two(source: str, *words: str) -> Generator[Running, None, None]:
    with running(source, "--processes", "2", *words) as server:
        yield server


def who(server: Running) -> int:
    """Ask over a connection of its own; return which process has answered."""
    with Client(server.http) as client:
        return int(client.p(x=0.0).pid)


def both(server: Running) -> set[int]:
    """Return the processes, once each has answered."""
    found: set[int] = set()
    while len(found) < 2:
        found.add(who(server))
    return found


def succeeded(server: Running) -> float:
    lines = httpx.get(server.metrics).text.splitlines()
    (line,) = (one for one in lines if one.startswith('nv_inference_request_success{model="p"'))
    return float(line.rpartition(" ")[2])


def until_ready(server: Running) -> None:
    while httpx.get(f"{server.http}/v2/health/ready").status_code != 200:
        pass


@pytest.mark.slow
def test_requests_land_on_both_and_are_counted_together(source: str) -> None:
    with two(source) as server:
        asked = 0
        found: set[int] = set()
        while len(found) < 2:
            found.add(who(server))
            asked += 1
        assert server.process.pid not in found
        assert [succeeded(server) for _ in range(6)] == [asked] * 6
        for _ in range(6):
            (stats,) = httpx.get(f"{server.http}/v2/models/p/stats").json()["model_stats"]
            assert stats["inference_count"] == asked
        assert server.stop() == 0


@pytest.mark.slow
def test_one_that_is_killed_comes_back_and_the_other_answers_meanwhile(source: str) -> None:
    with two(source) as server:
        first, second = sorted(both(server))
        counted = succeeded(server)
        os.kill(first, signal.SIGKILL)
        assert "was ended by signal 9, and is started again" in server.hears("process")
        assert who(server) in {second} | both(server)
        until_ready(server)
        assert succeeded(server) >= counted
        assert second in (anew := both(server))
        assert first not in anew
        assert server.stop() == 0


@pytest.mark.slow
def test_one_that_is_told_to_stop_drains_and_another_takes_its_place(source: str) -> None:
    with two(source) as server:
        first, second = sorted(both(server))
        counted = succeeded(server)
        os.kill(first, signal.SIGTERM)
        assert "ended with status 0, and is started again" in server.hears("process")
        until_ready(server)
        assert second in both(server)
        assert succeeded(server) > counted


@pytest.mark.slow
def test_what_is_in_flight_ends_in_all_of_them(source: str, tmp_path: Path) -> None:
    gates = [tmp_path / f"gate{number}" for number in range(4)]
    for gate in gates:
        os.mkfifo(gate)
    with two(source, "--workers", "4") as server:
        clients = [Client(server.http) for _ in gates]
        answers = [
            client.waits.submit(gate=str(gate)) for client, gate in zip(clients, gates, strict=True)
        ]
        opened = [gate.open("w") for gate in gates]  # which waits until the stage is there
        server.process.send_signal(signal.SIGTERM)
        server.hears("draining")
        for number, one in enumerate(opened):
            one.write(str(number))
            one.close()
        assert [one.result(20).said for one in answers] == ["0", "1", "2", "3"]
        assert server.process.wait(20) == 0
        for client in clients:
            client.close()


@pytest.mark.slow
def test_requests_that_take_longer_than_the_grace_are_told(source: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with two(source, "--grace", "0.1") as server, Client(server.http) as client:
        answer = client.waits.submit(gate=str(gate))
        with gate.open("w"):
            server.process.send_signal(signal.SIGTERM)
            server.hears("draining")
            assert server.hears("stopped") == "stopped: some requests took longer than 0.1 s"
            assert server.process.wait(20) == 3
            assert server.said.empty()
        assert answer.exception(20) is not None


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_all_at_once(
    source: str, tmp_path: Path, number: signal.Signals
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with two(source) as server, Client(server.http) as client:
        ends = [os.pidfd_open(one) for one in both(server)]
        answer = client.waits.submit(gate=str(gate))
        with gate.open("w"):
            server.process.send_signal(number)
            server.hears("draining")
            server.process.send_signal(number)
            assert server.process.wait(20) == -number
        assert answer.exception(20) is not None
        for end in ends:
            wait_for(end)


@pytest.mark.slow
def test_children_do_not_outlive_their_parent(source: str) -> None:
    with two(source) as server:
        folder = folder_of(next(iter(both(server))))
        assert folder.stat().st_mode & 0o777 == 0o700
        descriptor = os.open(folder, os.O_RDONLY)
        with pytest.raises(BlockingIOError):  # so that what clears old files away passes over it
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        ends = [os.pidfd_open(one) for one in both(server)]
        server.process.kill()
        for end in ends:
            wait_for(end)
        assert not folder.exists()


@pytest.mark.slow
def test_processes_go_on_with_the_source_that_they_began_with(source: str) -> None:
    with two(source) as server:
        first, _ = both(server)
        Path(source).write_text("pipeline")
        os.kill(first, signal.SIGKILL)
        server.hears("process")
        until_ready(server)
        assert first not in both(server)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_all_serve_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals
) -> None:
    gate, kept = tmp_path / "gate", tmp_path / "kept"
    os.mkfifo(gate)
    kept.mkdir()
    (tmp_path / "stages.py").write_text(f"{FUNCTION}open({str(gate)!r}).read()\n")
    (tmp_path / "a.pipe").write_text(CALLS)
    ports = [word for name in ("http", "grpc", "metrics") for word in (f"--{name}-port", "0")]
    words = ["run", str(tmp_path / "a.pipe"), "--processes", "2", *ports]
    parent = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli", *words],
        env={**os.environ, "TMPDIR": str(kept)},
        stderr=subprocess.PIPE,
        text=True,
    )
    with parent, gate.open("w"):  # which waits until the first is loading
        assert list(kept.iterdir()) != []
        parent.send_signal(number)
        _, said = parent.communicate(timeout=60)
    assert (parent.returncode, said) == (128 + number, "")
    assert list(kept.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("count", ["1", "2"])
def test_a_signal_while_it_says_that_it_is_ready_lets_it_drain(tmp_path: Path, count: str) -> None:
    names = [f"p{number}{'_' * 90}" for number in range(200)]  # more than the pipe holds
    text = "pipeline NAME(x: f64) -> (x: f64) { return x = x }\n"
    (tmp_path / "a.pipe").write_text("".join(text.replace("NAME", name) for name in names))
    ports = [word for name in ("http", "grpc", "metrics") for word in (f"--{name}-port", "0")]
    words = ["run", str(tmp_path / "a.pipe"), "--processes", count, *ports]
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    server = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli", *words],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    with server, os.fdopen(reading) as said:
        assert said.read(1) != ""
        server.send_signal(signal.SIGTERM)
        said.read()  # not all of it: Python drops what it has not written when a signal comes
        assert server.wait(60) == 0
        assert server.stderr is not None
        assert server.stderr.read().endswith("stopped\n")


@pytest.mark.slow
def test_one_that_cannot_start_is_told_once_and_ends_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stages.py").write_text(f"{FUNCTION}raise ImportError('no such luck')\n")
    (tmp_path / "a.pipe").write_text(CALLS)
    ports = [word for name in ("http", "grpc", "metrics") for word in (f"--{name}-port", "0")]
    assert main(["run", str(tmp_path / "a.pipe"), "--processes", "3", *ports]) == 1
    assert capfd.readouterr().err.count("no such luck") == 1


@pytest.mark.slow
def test_one_that_dies_before_it_serves_ends_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stages.py").write_text(f"{FUNCTION}import os\nos.kill(os.getpid(), 9)\n")
    (tmp_path / "a.pipe").write_text(CALLS)
    ports = [word for name in ("http", "grpc", "metrics") for word in (f"--{name}-port", "0")]
    assert main(["run", str(tmp_path / "a.pipe"), "--processes", "2", *ports]) == 3
    assert "process 0 ended with status -9 before it could serve" in capfd.readouterr().err


@pytest.mark.slow
def test_a_port_is_shared_with_no_other_server(
    source: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with two(source) as server:
        port = server.http.rpartition(":")[2]
        words = ["run", source, "--processes", "2", "--http-port", port, "--grpc-port", "off"]
        assert main([*words, "--metrics-port", "off"]) == 3
    assert f"port {port}: Address already in use" in capfd.readouterr().err


def test_mistakes_are_told_once_and_nothing_is_started(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.pipe").write_text("pipeline")
    assert main(["run", str(tmp_path), "--processes", "2"]) == 1
    assert capfd.readouterr().err.count("error[HR0") == 1


REFUSED = [
    (("--watch",), "--watch"),
    (("--control", "poll"), "--control poll"),
    (("--control", "explicit"), "may ask for control"),
    (("--allow", "settings", "--allow", "shared-memory"), "shared-memory and settings"),
    (("--trace-file", "t.json"), "--trace-file"),
    (("--grpc-carrier", "pygrpc-native"), "pygrpc-native"),
    (("--canary", "z@2=0.5"), "there is no `z` version 2"),
    (("--versions", "z=all"), "there is no `z`"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED)
def test_what_several_processes_cannot_do_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    put(tmp_path / "a.plan", 1.0)
    assert main(["run", str(tmp_path), "--processes", "2", *words]) == 2
    assert said in capsys.readouterr().err


def test_tokens_for_what_changes_one_process_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "a.plan", 1.0)
    (tmp_path / "tokens").write_text("ops control a-secret-of-the-operators\n")
    words = ["run", str(tmp_path / "a.plan"), "--tokens", str(tmp_path / "tokens")]
    assert main([*words, "--processes", "2"]) == 2
    assert "may ask for control: that would change one process" in capsys.readouterr().err


@pytest.mark.slow
def test_tokens_that_only_the_first_process_can_read_open_nothing(
    source: str, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text("ops infer a-secret-of-the-operators\n")
    words = ["run", source, "--processes", "2", "--tokens", "/dev/stdin"]
    ports = [word for name in ("http", "grpc", "metrics") for word in (f"--{name}-port", "0")]
    with (tmp_path / "tokens").open() as tokens:
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli", *words, *ports],
            stdin=tokens,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr.count("there is no token in the file") == 1


def test_states_are_kept_by_one_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.pipe").write_text(
        "pipeline sums(x: f32) -> (y: f32) per sequence idle 10s {\n"
        "    state total: f32 = 0.0\n"
        "    next total = total + x\n"
        "    return y = total + x\n"
        "}\n"
    )
    assert main(["run", str(tmp_path / "a.pipe"), "--processes", "2"]) == 2
    assert "`sums`, which keeps states" in capsys.readouterr().err


def test_a_folder_without_a_plan_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(tmp_path), "--processes", "2"]) == 2
    assert "there is no plan in" in capsys.readouterr().err


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_a_number_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: str
) -> None:
    assert main(["run", str(tmp_path), "--processes", count]) == 2
    assert "is no number from 1" in capsys.readouterr().err


def test_a_number_that_would_fill_the_machine_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(tmp_path), "--processes", "257"]) == 2
    assert "`257` is more than 256" in capsys.readouterr().err


def test_a_folder_too_deep_for_sockets_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "a.plan", 1.0)
    deep = tmp_path / ("a" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert main(["run", str(tmp_path / "a.plan"), "--processes", "2"]) == 3
    assert (
        "whose path is too long\nhelp: the environment variable TMPDIR" in capsys.readouterr().err
    )
    assert list(deep.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "a.plan", 1.0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    assert main(["run", str(tmp_path / "a.plan"), "--processes", "2"]) == 3
    assert "what the processes share cannot be written: No such file" in capsys.readouterr().err


@pytest.mark.slow
def test_versions_and_shares_are_those_of_one_process(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        put(tmp_path / f"a/{number}/model.plan", float(number))
    (tmp_path / "types.pipe").write_text("type Quad = f32[4, 2]\n")  # which is no app
    (tmp_path / "b.pipe").write_text(
        PIPE.replace("AMOUNT", "1.0").replace("pipeline p", "pipeline q")
    )
    shares = ("--versions", "a=specific:1", "--canary", "a@2=0.5")
    with running(str(tmp_path), "--processes", "2", *shares) as server:
        assert httpx.get(f"{server.http}/v2/models/p").json()["versions"] == ["1", "2"]
        with Client(server.http) as client:
            assert np.asarray(client.q(x=[0.0]).y).tolist() == [1.0]
            assert sorted(float(client.p(x=[0.0]).y[0]) for _ in range(10)) == [1.0] * 5 + [2.0] * 5


def wait_for(end: int) -> None:
    """Return when a process that is not a child of this one has ended."""
    select.select([end], [], [])
    os.close(end)


def folder_of(pid: int) -> Path:
    """Return the folder that a process answers the others in."""
    program = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    return Path(program.partition("folder='")[2].partition("'")[0])
