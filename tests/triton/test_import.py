"""A repository that is imported: sources that check, keep their form, pass their tests, answer."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.cli.command import Exit
from headrace.cli.main import main
from headrace.dsl.diagnostic import Diagnostic
from headrace.runtime.engine import EngineConfig
from headrace.runtime.repository.policy import All
from headrace.runtime.repository.repository import Repository
from headrace.runtime.server import serve
from headrace.runtime.server_config import ServerConfig
from headrace.triton.config import Message
from headrace.triton.importing import write as write_app
from headrace.triton.own_completion import OwnCompletions
from headrace.triton.repository import read
from headrace.triton.serving import Options, find, subjects_of
from tests.triton.comparing import ask, question
from tests.triton.corpus import CASES, Case
from tests.triton.test_run import ADD_ONE, PLACES, TENSORS, anywhere, following
from tests.triton.writing import ensemble, put, unary

ROWS = np.array([[1, -2], [3, -4]], np.float32)


def write(folder: Path) -> None:
    unary(folder / "neg.it/1/model.onnx", "Neg", "in:0", "out:0")
    unary(folder / "abs/2/model.onnx", "Abs", "x", "y")
    unary(folder / "abs/3/model.onnx", "Neg", "x", "y")
    put(folder / "abs/config.pbtxt", "# two of them\nversion_policy { all { } }\n")
    put(
        folder / "neg.it/config.pbtxt",
        """
max_batch_size: 4
output { name: "out:0" data_type: TYPE_FP32 dims: [ 2 ] label_filename: "words" }
model_warmup { name: "two rows" batch_size: 2 count: 5 inputs {
    key: "in:0" value { data_type: TYPE_FP32 dims: [ 2 ] input_data_file: "row" } } }
model_warmup { name: "nothing" batch_size: 1 inputs {
    key: "in:0" value { data_type: TYPE_FP32 dims: [ 2 ] zero_data: true } } }
""",
    )
    put(folder / "neg.it/words", "first\nsecond\n")
    (folder / "neg.it/warmup").mkdir()
    (folder / "neg.it/warmup/row").write_bytes(ROWS[0].tobytes())
    ensemble(folder, "e", ["A"], ["B"], ["neg.it: in:0=A > out:0=M", "abs@2: x=M > y=B"])


@pytest.mark.slow  # the command four times
def test_what_is_imported_is_an_app(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "models")
    out = tmp_path / "app"
    assert main(["import", "triton", str(tmp_path / "models"), "-o", str(out)]) == Exit.GOOD
    said = capsys.readouterr()
    assert f"--labels neg.it.out:0={out}/models/neg.it/words" in said.err
    assert sorted(str(one.relative_to(out)) for one in out.rglob("*.pipe")) == [
        "abs/2/model.pipe",
        "abs/3/model.pipe",
        "e.pipe",
        "neg.it.pipe",
    ]
    for words in (["check", str(out)], ["fmt", "--check", str(out)]):
        assert main(words) == Exit.GOOD
    assert main(["test", str(out / "neg.it.pipe")]) == Exit.GOOD
    told = capsys.readouterr()
    assert "passed" in told.out
    assert "2 tests passed" in told.err
    assert (out / "abs/2/model.pipe").read_text().startswith("# two of them\n")
    with headrace.load(out / "e.pipe") as app:
        np.testing.assert_array_equal(app.e(A=ROWS)[0], np.abs(ROWS))


def test_a_folder_that_is_there_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "models")
    put(tmp_path / "app/mine", "")
    words = ["import", "triton", str(tmp_path / "models"), "-o", str(tmp_path / "app")]
    assert main(words) == Exit.USAGE
    assert "not empty" in capsys.readouterr().err


def test_what_is_wrong_is_told_and_nothing_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unary(tmp_path / "models/m/1/model.onnx", "Neg", "x", "y")
    put(tmp_path / "models/m/config.pbtxt", 'cc_model_filenames { key: "7.5" value: "a" }')
    words = ["import", "triton", str(tmp_path / "models"), "-o", str(tmp_path / "app")]
    assert main(words) == Exit.MISTAKES
    assert "HR650" in capsys.readouterr().err
    assert not (tmp_path / "app").exists()


SERVED = [case for case in CASES if not case.refused and not case.unserved and case.answers]


def request(config: Message) -> dict[str, Any]:  # Any: JSON
    """Return a question to a model; of a sequence its first, of one row."""
    body = question(config)
    if config.HasField("sequence_batching"):
        body["parameters"] = {"sequence_id": 1, "sequence_start": True}
        for one in body["inputs"] if config.max_batch_size > 1 else ():
            one["shape"][0], one["data"] = 1, one["data"][: len(one["data"]) // 2]
    return body


ONLY_IN_A_PROCESS = {
    "modules beside a Python model": "the name of its own module is another",
    "processes, threads and signals of a model": "signals are the main thread's",
}
"""Cases of what a model in the server's process has otherwise, and why."""


@pytest.mark.exhaustive  # a process for each Python model, twice
@anywhere
@pytest.mark.parametrize("case", SERVED, ids=lambda case: case.title)
def test_what_is_imported_answers_as_the_repository(
    case: Case, tmp_path: Path, options: Options
) -> None:
    if options.serving.in_process and case.title in ONLY_IN_A_PROCESS:
        pytest.skip(ONLY_IN_A_PROCESS[case.title])
    repository = read(case.write(tmp_path / "models"))
    imported = write_app(repository, tmp_path / "app", options)
    assert not imported.mistakes
    app = Repository(EngineConfig(workers=2), policies={"": All()})
    for source in imported.sources:
        alone = source.parent == tmp_path / "app"
        name, version = (source.stem, 1) if alone else (source.parts[-3], int(source.parts[-2]))
        app.load(name, headrace.compile(source).plan, version)
    config = ServerConfig(http_port=0, grpc_port=None, metrics_port=None)
    with following(tmp_path / "models") as (follower, http, _), serve(app, config) as server:
        assert not follower.failures
        for subject in subjects_of(repository, Options(), OwnCompletions()):
            if subject.config.model_transaction_policy.decoupled:
                continue
            path, body = f"models/{subject.name}/infer", request(subject.config)
            theirs = ask(f"http://{http}", path, body)
            ours = ask(f"http://{server.addresses.http}", path, body)
            assert (ours[0], ours[1].get("outputs")) == (theirs[0], theirs[1].get("outputs"))
            assert ours[0] == 200 or ours[1]["error"]
    app.close()


def test_python_models_are_in_the_server_s_process_where_that_is_asked_for(tmp_path: Path) -> None:
    own = 'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/opt/env" } }'
    for name, more in (("plain", ""), ("apart", own)):
        put(tmp_path / f"models/{name}/config.pbtxt", f'backend: "python" {TENSORS} {more}')
        put(tmp_path / f"models/{name}/1/model.py", ADD_ONE.replace("auto_", ""))
    ensemble(tmp_path / "models", "e", ["A"], ["B"], ["plain: X=A > Y=M", "apart: X=M > Y=B"])
    _, in_process = PLACES
    imported = write_app(read(tmp_path / "models"), tmp_path / "app", in_process)
    texts = {one.stem: one.read_text() for one in imported.sources}
    off = "isolate = off"
    assert [(name, text.count(off)) for name, text in sorted(texts.items())] == [
        ("apart", 0),
        ("e", 1),
        ("plain", 1),
    ]
    assert f"plain {{ instances = 1, {off} }}" in " ".join(texts["e"].split())
    told = "`apart` keeps processes of its own: it has an environment of its own"
    assert imported.notes == (told,)
    warned: list[Diagnostic] = []
    find((tmp_path / "models",), in_process, warned.extend, OwnCompletions())
    assert [one.message for one in warned] == [told]


@pytest.mark.slow  # a process of a Python model
def test_links_to_folders_are_followed_and_end_where_they_lead_back(tmp_path: Path) -> None:
    config = (
        'backend: "python"\ninput { name: "X" data_type: TYPE_FP32 dims: [ 1 ] }\n'
        'output { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }\n'
    )
    put(tmp_path / "weights/w/by.txt", "2")
    put(tmp_path / "models/m/config.pbtxt", config)
    put(tmp_path / "models/m/1/model.py", READS)
    (tmp_path / "models/m/1/linked").symlink_to(tmp_path / "weights")
    (tmp_path / "models/m/1/linked/back").symlink_to(tmp_path / "models/m")
    (tmp_path / "models/m/3").symlink_to("1")
    imported = write_app(read(tmp_path / "models"), tmp_path / "app", Options())
    assert not imported.mistakes
    asked = {"inputs": [{"name": "X", "datatype": "FP32", "shape": [1], "data": [4]}]}
    with following(tmp_path / "models") as (follower, http, _):
        assert not follower.failures
        status, answer = ask(f"http://{http}", "models/m/infer", asked)
        assert (status, answer["model_version"], answer["outputs"][0]["data"]) == (200, "3", [8])
    (source,) = imported.sources
    with headrace.load(source) as app:
        assert app.m(X=[4.0])[0] == 8


READS = """
from pathlib import Path

import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        by = float((Path(__file__).parent / "linked/w/by.txt").read_text())
        inputs = [pb.get_input_tensor_by_name(one, "X").as_numpy() for one in requests]
        return [pb.InferenceResponse([pb.Tensor("Y", by * one)]) for one in inputs]
"""
