"""`headrace run --model-repository --processes`: a Triton repository behind several processes."""

import os
import signal
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client

from headrace.cli import main
from tests.cli.test_run import Running, running
from tests.cli.test_run_processes import until_ready
from tests.triton.test_counts import steps
from tests.triton.test_run import TENSORS, given
from tests.triton.writing import put, unary

WHO = """
import os

import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        self.warm = 0

    def execute(self, requests):
        given = [one.inputs()[0].as_numpy() for one in requests]
        self.warm += sum(float(one[0][0]) == 9 for one in given)
        answers = [np.full_like(one, os.getppid()) for one in given]
        for one in answers:
            one[:, 1] = self.warm
        return [pb.InferenceResponse([pb.Tensor("Y", one)]) for one in answers]

    def finalize(self):
        open(os.path.join("KEPT", str(os.getpid())), "w").close()
"""
"""Gives the process that serves, and how often it was asked for nines."""

SAME = """
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        given = [one.inputs()[0].as_numpy() for one in requests]
        if any(one[0][0] == 7 for one in given):
            open("GATE").read()  # until whoever opens it has closed it
        return [pb.InferenceResponse([pb.Tensor("Y", one)]) for one in given]
"""

ASKS = """
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            if request.inputs()[0].as_numpy()[0][0] == 8:
                pb.unload_model("who")
            given = [pb.Tensor("X", one.as_numpy()) for one in request.inputs()]
            asked = pb.InferenceRequest(
                model_name="who", requested_output_names=["Y"], inputs=given
            ).exec()
            responses.append(pb.InferenceResponse(asked.output_tensors()))
        return responses
"""

COUNTS = """
import numpy as np
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender, given = request.get_response_sender(), request.inputs()[0].as_numpy()
            for number in range(3):
                sender.send(pb.InferenceResponse([pb.Tensor("Y", given + np.float32(number))]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

WARMUP = """
model_warmup {
  name: "nines"
  batch_size: 1
  inputs {
    key: "X"
    value { data_type: TYPE_FP32 dims: [ 2 ] input_data_file: "nines" }
  }
}
"""
LABELS = TENSORS.replace('"Y" data_type', '"Y" label_filename: "names.txt" data_type')
DECOUPLED = "model_transaction_policy { decoupled: true }"
SEQUENCE = "sequence_batching { max_sequence_idle_microseconds: 1000000 }"
LIMITED = 'instance_group { rate_limiter { resources { name: "R" count: 1 } } }'


OURS = "headrace*"
"""Folders that a server leaves behind, if it does."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write a repository beside a folder in which who is finalized leaves a file, and a gate."""
    (tmp_path / "kept").mkdir()
    os.mkfifo(tmp_path / "gate")
    models = tmp_path / "models"
    write(models, "who", WHO.replace("KEPT", str(tmp_path / "kept")), LABELS + WARMUP)
    (models / "who/warmup").mkdir()
    np.full(2, 9, np.float32).tofile(models / "who/warmup/nines")
    put(models / "who/names.txt", "one\ntwo\n")
    write(models, "same", SAME.replace("GATE", str(tmp_path / "gate")), TENSORS)
    write(models, "asks", ASKS, TENSORS)
    write(models, "counts", COUNTS, f"{TENSORS}{DECOUPLED}\n")
    unary(models / "neg/1/model.onnx", "Neg", "X", "Y")
    put(models / "neg/config.pbtxt", f'platform: "onnxruntime_onnx"\n{TENSORS}')
    put(models / "both/config.pbtxt", TENSORS + steps("neg", "same"))
    (models / "both/1").mkdir()
    return models


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make a folder for temporary files of servers, whose path is short."""
    with TemporaryDirectory() as made:
        monkeypatch.setenv("TMPDIR", made)
        yield Path(made)


def write(models: Path, name: str, program: str, config: str) -> None:
    put(models / name / "config.pbtxt", f'backend: "python"\n{config}')
    put(models / name / "1/model.py", program)


@contextmanager
def two(models: Path, *words: str) -> Generator[Running, None, None]:
    with running("--model-repository", str(models), "--processes", "2", *words) as server:
        yield server


def asked(server: Running, model: str, value: float = 1.0) -> list[float]:
    """Return the row that a model answers, over a connection of its own."""
    tensor = {"name": "X", "datatype": "FP32", "shape": [1, 2], "data": [value, value]}
    answer = httpx.post(f"{server.http}/v2/models/{model}/infer", json={"inputs": [tensor]})
    assert answer.status_code == 200, answer.text
    return answer.json()["outputs"][0]["data"]


def both(server: Running, model: str = "who") -> set[int]:
    """Return the processes, once each has answered."""
    found: set[int] = set()
    while len(found) < 2:
        found.add(int(asked(server, model)[0]))
    return found


def told(server: Running, path: str) -> Any:  # Any: JSON
    return httpx.get(f"{server.http}/v2/{path}").json()


@pytest.mark.slow
def test_each_process_has_all_models_and_they_count_together(folder: Path) -> None:
    with two(folder) as server:
        assert {asked(server, "who")[1] for _ in range(4)} == {1.0}  # each was warmed up
        before = counted(server, "who")
        first, second = both(server)
        assert server.process.pid not in (first, second)
        assert both(server, "asks") == {first, second}  # what a model asks stays where it is
        for number in range(6):
            assert asked(server, "both", number / 8) == [-number / 8] * 2
        assert counted(server, "both") == counted(server, "neg") == counted(server, "same") == 6
        assert {counted(server, "both") for _ in range(6)} == {6}
        assert counted(server, "who") > before
        assert told(server, "models/who/config")["input"][0]["dims"] == [2]
        index = httpx.post(f"{server.http}/v2/repository/index").json()
        assert {one["name"]: one["state"] for one in index} == dict.fromkeys(
            ("asks", "both", "counts", "neg", "same", "who"), "READY"
        )
        assert server.stop() == 0
    finalized = {int(one.name) for one in (folder.parent / "kept").iterdir()}
    assert len(finalized) == 2


def counted(server: Running, model: str) -> int:
    (stats,) = told(server, f"models/{model}/stats")["model_stats"]
    return stats["inference_stats"]["success"]["count"]


@pytest.mark.slow
def test_stock_clients_see_one_server(folder: Path) -> None:
    with two(folder) as server:
        address = server.http.removeprefix("http://")
        value = np.full((1, 2), 2, np.float32)
        for kind, where in ((http_client, address), (grpc_client, server.grpc)):
            with kind.InferenceServerClient(where) as client:
                assert client.is_server_ready()
                assert client.is_model_ready("both")
                answer = client.infer("both", [given(kind, "X", value)])
                assert answer.as_numpy("Y").tolist() == [[-2, -2]]
                wanted = kind.InferRequestedOutput("Y", class_count=1)
                classes = client.infer("who", [given(kind, "X", value)], outputs=[wanted])
                assert classes.as_numpy("Y")[0][0].endswith(b":0:one")
        assert responses(server.grpc) == [2.0, 3.0, 4.0]


def responses(address: str) -> list[float]:
    """Return what a stream answers."""
    said: SimpleQueue[Any] = SimpleQueue()

    def hear(result: Any, error: Any) -> None:  # Any: of tritonclient
        said.put(error or result)

    with grpc_client.InferenceServerClient(address) as client:
        client.start_stream(hear)
        value = np.full((1, 2), 2, np.float32)
        client.async_stream_infer("counts", [given(grpc_client, "X", value)])
        found = [said.get(timeout=30) for _ in range(3)]
        client.stop_stream()
    return [float(one.as_numpy("Y")[0][0]) for one in found]


@pytest.mark.slow
def test_one_that_is_killed_loads_what_all_have_loaded(folder: Path) -> None:
    with two(folder) as server:
        first, second = both(server)
        before = counted(server, "who")
        put(folder / "who/config.pbtxt", "no configuration")
        put(folder / "same/1/model.py", "no program")
        os.kill(first, signal.SIGKILL)
        assert "was ended by signal 9, and is started again" in server.hears("process")
        assert told(server, "models/who/config")["name"] == "who"
        until_ready(server)
        assert second in (anew := both(server))
        assert first not in anew
        assert {asked(server, "same")[0] for _ in range(6)} == {1.0}
        assert {asked(server, "who")[1] for _ in range(6)} == {1.0}  # it was warmed up, too
        assert counted(server, "who") > before
        assert server.stop() == 0


@pytest.mark.slow
def test_models_change_nothing_of_what_others_serve_too(folder: Path) -> None:
    with two(folder) as server:
        tensor = {"name": "X", "datatype": "FP32", "shape": [1, 2], "data": [8.0, 8.0]}
        answer = httpx.post(f"{server.http}/v2/models/asks/infer", json={"inputs": [tensor]})
        assert "what is served here cannot be changed by a model" in answer.json()["error"]
        assert counted(server, "who") == 0
        assert len(both(server)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("count", ["1", "2"])
def test_requests_that_take_too_long_leave_no_files(folder: Path, place: Path, count: str) -> None:
    words = ("--model-repository", str(folder), "--processes", count, "--grace", "0.1")
    with running(*words) as server:
        address = server.http.removeprefix("http://")
        assert len(list(place.glob(OURS))) == 1
        with http_client.InferenceServerClient(address) as client:
            tensor = given(http_client, "X", np.full((1, 2), 7, np.float32))
            client.async_infer("same", [tensor])
            with (folder.parent / "gate").open("w"):  # which waits until the model is there
                server.process.send_signal(signal.SIGTERM)
                assert server.process.wait(60) == 3
    assert list(place.glob(OURS)) == []


@pytest.mark.slow
def test_what_a_killed_server_has_left_is_removed_by_the_next(folder: Path, place: Path) -> None:
    with running("--model-repository", str(folder)) as server:
        server.process.kill()
        server.process.wait()
        (left,) = place.glob(OURS)
    with running("--model-repository", str(folder)) as first:
        (own,) = place.glob(OURS)
        assert own != left
        with running("--model-repository", str(folder)) as second:
            assert own in place.glob(OURS)  # whose server is there
            assert second.stop() == 0
        assert first.stop() == 0
    assert list(place.glob(OURS)) == []


REFUSED: Mapping[tuple[str, ...], str] = {
    ("--model-control-mode=explicit",): "--model-control-mode",
    ("--model-control-mode=poll",): "--model-control-mode poll",
    ("--exit-on-error=false",): "processes might serve different models",
    ("--allow", "shared-memory"): "callers who may ask for shared-memory",
    ("--trace-config=triton,file=t.json",): "--trace-file",
    ("--rate-limit=execution_count",): "the rate limiter of `limited`",
    ("--print-config", "--allow", "control"): "callers who may ask for control",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_several_processes_cannot_do_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    write(tmp_path, "limited", SAME, TENSORS + LIMITED)
    assert main(["run", "--model-repository", str(tmp_path), "--processes", "2", *words]) == 2
    err = capsys.readouterr().err
    assert REFUSED[words] in err
    assert err.count("help: leave `--processes` out") + err.count("send traces") == 1


def test_all_that_is_refused_is_told_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("sums", "tells"):
        write(tmp_path, name, SAME, TENSORS + SEQUENCE)
    write(tmp_path, "limited", SAME, TENSORS + LIMITED)
    write(tmp_path, "wrong", SAME, TENSORS + "nonsense")
    words = ("--rate-limit=execution_count", "--allow", "control")
    assert main(["run", "--model-repository", str(tmp_path), "--processes", "2", *words]) == 2
    err = capsys.readouterr().err
    assert err.count("usage: --processes does not go with") == 4
    for said in ("`sums`, which keeps states", "`tells`, which", "`limited`", "ask for control"):
        assert said in err
    assert "wrong/config.pbtxt" in err


def test_a_model_that_cannot_be_read_is_told_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "wrong", SAME, TENSORS + "nonsense")
    assert main(["run", "--model-repository", str(tmp_path), "--processes", "2"]) == 1
    assert capfd.readouterr().err.count("error[HR6") == 1


def test_a_file_is_no_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.pipe"
    file.touch()
    assert main(["run", "--model-repository", str(file), "--processes", "2"]) == 2
    err = capsys.readouterr().err
    assert "is a file, and --model-repository is a folder of models" in err
    assert f"help: `headrace run {file}`" in err
