"""`headrace run` of folders: versions, shares, changes on disk."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from shutil import which

import httpx
import pytest

from headrace.cli import main
from headrace.client import Client
from headrace.compiler import compile_source
from headrace.compiler.plan_file import write
from headrace.dsl.source import Source

PIPE = "pipeline p(x: f32[N]) -> (y: f32[N]) { return y = x + AMOUNT }\n"


def put(path: Path, amount: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write(compile_source(Source("p.pipe", PIPE.replace("AMOUNT", str(amount)))), path)


class Running:
    """The command in a process of its own; `http` and `grpc` are where, `said` what it prints."""

    def __init__(self, *words: str) -> None:
        ports = [word for name in ("http", "grpc", "metrics") for word in (f"--{name}-port", "0")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli", "run", *words, *ports],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: SimpleQueue[str] = SimpleQueue()
        self._readers = [
            threading.Thread(target=self._read, args=(stream,))
            for stream in (self.process.stdout, self.process.stderr)
        ]
        for reader in self._readers:
            reader.start()
        self.http = self.hears("http").split()[1].partition("/v2")[0]
        self.grpc = self.hears("grpc").split()[1].removeprefix("grpc://")
        self.metrics = self.hears("metrics").split()[1]

    def hears(self, start: str) -> str:
        """Return the next line that begins so."""
        while not (line := self.said.get(timeout=60)).startswith(start):
            assert self.process.poll() is None, line
        return line

    def answer(self) -> float:
        with Client(self.http) as client:
            return float(client.p(x=[0.0]).y[0])

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _read(self, stream: Iterable[str] | None) -> None:
        for line in stream or ():
            self.said.put(line.rstrip())


@contextmanager
def running(*words: str) -> Generator[Running, None, None]:
    made = Running(*words)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
def test_a_folder_is_served_and_followed(tmp_path: Path) -> None:
    put(tmp_path / "a.plan", 1.0)
    with running(str(tmp_path), "--watch") as server:
        assert server.answer() == 1.0
        put(tmp_path / "a.plan", 2.0)
        assert server.hears("`a`") == "`a` has changed and is served anew"
        assert server.answer() == 2.0
        (tmp_path / "a.plan").write_bytes(b"not a plan\n")
        assert "is not a plan" in server.hears("error[HR410]")
        assert server.hears("`a`") == "`a` is served as before"
        assert server.answer() == 2.0
        assert httpx.get(f"{server.http}/v2/health/ready").status_code == 200
        assert server.stop() == 0


@pytest.mark.slow
def test_a_load_that_does_not_come_to_an_end_does_not_hold_up_the_end(tmp_path: Path) -> None:
    (tmp_path / "stages.py").write_text("def f(x):\n    return x + 1\n")
    (tmp_path / "a.pipe").write_text(
        'fn f(x: f32[N]) -> (y: f32[N]) = python "stages.py:f"\n'
        "pipeline p(x: f32[N]) -> (y: f32[N]) { return y = f(x) }\n"
    )
    gate = tmp_path.parent / f"{tmp_path.name}-gate"
    os.mkfifo(gate)
    with running(str(tmp_path), "--watch") as server:
        assert server.answer() == 1.0
        (tmp_path / "stages.py").write_text(
            f"open({str(gate)!r}, 'rb').read()\n\ndef f(x):\n    return x + 2\n"
        )
        with gate.open("wb"):  # which waits until the load is there
            assert server.answer() == 1.0
            assert server.stop() == 0


@pytest.mark.slow
def test_versions_share_the_traffic(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        put(tmp_path / f"a/{number}/model.plan", float(number))
    shares = ("--versions", "a=specific:1", "--canary", "a@2=0.5", "--shadow", "a@3=1")
    with running(str(tmp_path), *shares) as server:
        assert httpx.get(f"{server.http}/v2/models/p").json()["versions"] == ["1", "2", "3"]
        assert sorted(server.answer() for _ in range(10)) == [1.0] * 5 + [2.0] * 5
        page = httpx.get(server.metrics).text
        assert 'nv_inference_request_success{model="p",version="1"} 5.0' in page
        assert 'headrace_shadow_copies_total{model="p",outcome="dropped",version="3"} 0.0' in page


@pytest.mark.slow
def test_a_folder_that_cannot_be_told_apart_for_a_while_stops_nothing(tmp_path: Path) -> None:
    put(tmp_path / "a.plan", 1.0)
    with running(str(tmp_path), "--watch") as server:
        (tmp_path / "my plan.plan").write_bytes(b"")
        assert "cannot be a name" in server.hears("failed")
        (tmp_path / "my plan.plan").unlink()
        put(tmp_path / "a.plan", 2.0)
        assert server.hears("`a`") == "`a` has changed and is served anew"
        assert server.answer() == 2.0


@pytest.mark.slow
def test_with_explicit_control_nothing_is_loaded_but_what_is_named(tmp_path: Path) -> None:
    put(tmp_path / "a.plan", 1.0)
    put(tmp_path / "b.plan", 1.0)
    with running(str(tmp_path), "--control", "explicit", "--load", "b") as server:
        assert server.answer() == 1.0


@pytest.mark.slow
def test_a_token_lets_its_bearer_load_and_nobody_else(tmp_path: Path) -> None:
    put(tmp_path / "plans/a.plan", 1.0)
    tokens = tmp_path / "tokens"
    tokens.write_text("ops control a-secret-of-the-operators\n")
    with running(
        str(tmp_path / "plans"), "--control", "explicit", "--tokens", str(tokens)
    ) as server:
        load = f"{server.http}/v2/repository/models/a/load"
        assert httpx.post(load).status_code == 401
        bearer = {"authorization": "Bearer a-secret-of-the-operators"}
        assert httpx.post(load, headers=bearer).status_code == 200
        assert server.answer() == 1.0
        assert httpx.get(f"{server.http}/v2/logging", headers=bearer).status_code == 403


@pytest.mark.slow
@pytest.mark.skipif(which("openssl") is None, reason="there is no openssl command")
def test_infer_asks_with_tls_and_a_token_at_the_addresses_that_run_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path / "a.plan", 1.0)
    key, own = str(tmp_path / "key.pem"), str(tmp_path / "own.pem")
    made = f"req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -keyout {key} -out {own}"
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", *made.split(), *names], check=True, capture_output=True)
    (tmp_path / "tokens").write_text("me read,infer a-secret-of-the-callers\n")
    (tmp_path / "mine").write_text("a-secret-of-the-callers\n")
    secure = ["--tls-certificate", own, "--tls-key", key, "--tokens", str(tmp_path / "tokens")]
    with running(str(tmp_path / "a.plan"), *secure) as server:
        assert server.http.startswith("https://")
        words = ["infer", f"{server.http}/p", "x=[1]", "--json", "--tls-authority", own]
        assert main(words) == 3
        assert "read needs a token" in capsys.readouterr().err
        assert main([*words, "--token-file", str(tmp_path / "mine")]) == 0


@pytest.mark.slow
def test_what_is_allowed_is_listed_as_served(tmp_path: Path) -> None:
    put(tmp_path / "a.plan", 1.0)
    labels = tmp_path / "labels"
    labels.write_text("zero\none\n")
    with running(
        str(tmp_path), "--allow", "settings", "--allow", "shared-memory", "--labels",
        f"p.y={labels}", "--shared-memory-prefix", "mine-",
    ) as server:  # fmt: skip
        extensions = httpx.get(f"{server.http}/v2").json()["extensions"]
        assert {"logging", "system_shared_memory"} <= set(extensions)
        asked = {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [0, 1]}],
            "outputs": [{"name": "y", "parameters": {"classification": 1}}],
        }
        answer = httpx.post(f"{server.http}/v2/models/p/infer", json=asked).json()
        assert answer["outputs"][0]["data"] == ["2.000000:1:one"]
        region = f"{server.http}/v2/systemsharedmemory/region/r/register"
        body = {"key": "/other", "byte_size": 1}
        assert "may be registered" in httpx.post(region, json=body).json()["error"]


@pytest.mark.slow
def test_a_library_in_a_folder_is_not_an_app(tmp_path: Path) -> None:
    (tmp_path / "types.pipe").write_text("type Quad = f32[4, 2]\n")
    (tmp_path / "a.pipe").write_text(PIPE.replace("AMOUNT", "1.0"))
    with running(str(tmp_path)) as server:
        assert server.answer() == 1.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--canary", "a=0.1"), "`a=0.1` is no NAME@VERSION=SHARE"),
        (("--canary", "a@2=1.5"), "with a share over 0, up to 1"),
        (("--canary", "a@2=0.6", "--canary", "a@3=0.6"), "the shares add up to 1.2"),
        (("--canary", "a@2=0.5"), "--canary: there is no `a` version 2"),
        (("--shadow", "z@1=0.5"), "--shadow: there is no `z` version 1"),
        (("--versions", "newest"), "`newest` is no policy"),
        (("--versions", "z=all"), "--versions: there is no `z`"),
        (("--http-port", "off", "--grpc-port", "off"), "without HTTP and gRPC nothing is served"),
        (("--load", "a"), "--load goes with --control explicit"),
        (("--watch", "--control", "explicit"), "--watch loads what changes"),
        (("--control", "explicit", "--load", "z"), "there is no `z` to be loaded"),
        (("--grace", "soon"), "`soon` is no number of seconds"),
        (("--allow", "everything"), "invalid choice: 'everything'"),
        (("--tokens", "missing"), "`missing` cannot be read"),
        (("--forward-headers", "("), "`(` is no pattern"),
        (("--labels", "p=x"), "`p=x` is no MODEL.OUTPUT=FILE"),
        (("--labels", "p.y=missing"), "`missing` cannot be read"),
        (("--labels", f"p.z={__file__}"), "`p` has no output `z`, but `y`"),
        (("--labels", f"q.y={__file__}"), "there is no pipeline `q`"),
        (("--host", "0.0.0.0", "--allow", "settings"), "settings would be anybody's"),
        (("--host", "0.0.0.0", "--control", "explicit"), "control would be anybody's"),
        (("--shared-memory-prefix", "a"), "goes with --allow shared-memory"),
        (("--host-name", "http://a.example:8000"), "is no name of a host"),
        (("--allow-load-files",), "--allow-load-files is for callers who may load"),
        (("--allow-load-code", "--allow", "control"), "goes with --allow-load-files"),
    ],
)
def test_wrong_usage_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    put(tmp_path / "a.plan", 1.0)
    assert main(["run", str(tmp_path), *words]) == 2
    assert said in capsys.readouterr().err


def test_what_the_command_says_is_json_where_the_log_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half_a_source(tmp_path)
    assert main(["run", str(tmp_path), "--log-format", "json"]) == 1
    (said,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (said["level"], said["message"].splitlines()[0][:9]) == ("error", "error[HR0")


Make = Callable[[Path], None]


def nothing(_: Path) -> None:
    pass


def no_plan(folder: Path) -> None:
    (folder / "a.plan").write_bytes(b"x")


def half_a_source(folder: Path) -> None:
    (folder / "a.pipe").write_text("pipeline")


def one_pipeline_twice(folder: Path) -> None:
    put(folder / "a.plan", 1.0)
    put(folder / "b.plan", 2.0)


def two_of_one_name(folder: Path) -> None:
    put(folder / "a.plan", 1.0)
    put(folder / "a/1/model.plan", 1.0)


@pytest.mark.parametrize(
    ("make", "status", "said"),
    [
        (nothing, 2, "in a folder lie NAME.plan, NAME.pipe or NAME/VERSION/model.plan"),
        (two_of_one_name, 2, "are both version 1"),
        (no_plan, 1, "error[HR410]"),
        (half_a_source, 1, "error[HR0"),
        (one_pipeline_twice, 3, "two plans hold a pipeline `p`: those of the apps `a` and `b`"),
    ],
)
def test_a_folder_that_cannot_be_served_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Make, status: int, said: str
) -> None:
    make(tmp_path)
    assert main(["run", str(tmp_path)]) == status
    assert said in capsys.readouterr().err
