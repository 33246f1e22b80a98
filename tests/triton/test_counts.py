"""Statistics of ensembles, their members and caches, as a tritonserver counts them (2.51 does)."""

import os
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client

from headrace.runtime.exposition import expose
from headrace.runtime.repository.figures import figures_of
from headrace.triton.serving import Options
from headrace.triton.translate.schedule import Serving
from tests.runtime.wire.conftest import eventually
from tests.triton.comparing import ask
from tests.triton.test_run import following
from tests.triton.writing import put

pytestmark = pytest.mark.slow

TENSORS = (
    'input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }\n'
    'output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }\nmax_batch_size: 4\n'
)
SAME = """
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        given = [one.inputs()[0].as_numpy() for one in requests]
        if any(one[0][0] == 7 for one in given):
            open("GATE").read()  # until whoever opens it has closed it
        if any(one[0][0] == -1 for one in given):
            raise ValueError("a bad row")
        return [pb.InferenceResponse([pb.Tensor("Y", one)]) for one in given]
"""
OFTEN = """
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender, given = request.get_response_sender(), request.inputs()[0].as_numpy()
            for _ in range(int(given[0][0])):
                sender.send(pb.InferenceResponse([pb.Tensor("Y", given)]))
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def steps(*names: str) -> str:
    """Return an ensemble of models, each after the one before."""
    tensors = ["X", *(f"t{i}" for i in range(1, len(names))), "Y"]
    written = "".join(
        f'step {{ model_name: "{name}" model_version: -1 input_map {{ key: "X" value: "{a}" }}'
        f' output_map {{ key: "Y" value: "{b}" }} }}\n'
        for name, a, b in zip(names, tensors, tensors[1:], strict=False)
    )
    return f'platform: "ensemble"\nensemble_scheduling {{\n{written}}}\n'


MODELS = {
    "plain": "",
    "kept": "response_cache { enable: true }",
    "meets": "dynamic_batching { preferred_batch_size: 4 }",
    "both": steps("plain", "kept"),
    "around": steps("both", "plain"),
    "keeps": "response_cache { enable: true }\n" + steps("plain", "kept", "plain"),
    "often": "model_transaction_policy { decoupled: true }",
    "follows": "model_transaction_policy { decoupled: true }\n" + steps("often", "plain"),
}


def write(folder: Path) -> None:
    same = SAME.replace("GATE", str(folder.parent / f"{folder.name}-gate"))
    for name, more in MODELS.items():
        put(folder / name / "config.pbtxt", f"{TENSORS}{more}\n")
        if "ensemble" in more:
            (folder / name / "1").mkdir()
        else:
            put(folder / name / "1/model.py", OFTEN if name == "often" else same)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("counts")
    write(made)
    return made


@pytest.fixture
def server(folder: Path) -> Iterator[tuple[str, str]]:
    options = Options(serving=Serving(cache=1 << 20))
    with following(folder, options) as (follower, http, grpc):
        assert not follower.failures
        yield f"http://{http}", grpc


def infer(address: str, model: str, *rows: float) -> None:
    shape, data = [len(rows), 2], [one for row in rows for one in (row, row)]
    given = {"name": "X", "datatype": "FP32", "shape": shape, "data": data}
    status, answer = ask(address, f"models/{model}/infer", {"inputs": [given]})
    assert status == 200, (status, answer)
    assert answer["outputs"][0]["data"] == data


def counted(address: str, model: str) -> dict[str, Any]:  # Any: numbers, and numbers by size
    _, answer = ask(address, f"models/{model}/stats")
    (one,) = answer["model_stats"]
    stats = {name: kind["count"] for name, kind in one["inference_stats"].items()}
    sizes = {size["batch_size"]: size["compute_infer"]["count"] for size in one["batch_stats"]}
    names = ("success", "fail", "compute_infer", "cache_hit", "cache_miss")
    found = {name: stats[name] for name in names if stats[name]}
    assert stats["queue"] == stats["success"]
    assert stats["compute_input"] == stats["compute_output"] == stats["compute_infer"]
    return {"rows": (one["inference_count"], one["execution_count"]), **found, "sizes": sizes}


def value(number: float) -> Any:
    made = grpc_client.InferInput("X", [1, 2], "FP32")
    made.set_data_from_numpy(np.full((1, 2), number, np.float32))
    return made


def ran(address: str, model: str) -> dict[int, int]:
    """Return the executions of a model, by their rows."""
    return counted(address, model)["sizes"]


def waiting(address: str, model: str) -> int:
    _, answer = ask(address, f"models/{model}/stages")
    return sum(stage["waiting"] for stage in answer["stages"])


def test_members_and_kept_answers_are_counted(server: tuple[str, str]) -> None:
    http, _ = server
    infer(http, "plain", 1.0)
    infer(http, "both", 2.0, 3.0)
    infer(http, "both", 2.0, 3.0)
    infer(http, "kept", 4.0)
    infer(http, "kept", 4.0)
    plain = {"success": 3, "compute_infer": 3}
    assert counted(http, "plain") == {"rows": (5, 3), **plain, "sizes": {1: 1, 2: 2}}
    kept = {"success": 4, "compute_infer": 2, "cache_hit": 2, "cache_miss": 2}
    assert counted(http, "kept") == {"rows": (3, 2), **kept, "sizes": {1: 1, 2: 1}}
    both = {"success": 2, "compute_infer": 2}
    assert counted(http, "both") == {"rows": (4, 2), **both, "sizes": {2: 2}}


def test_an_ensemble_that_is_cached_runs_nothing_twice(server: tuple[str, str]) -> None:
    http, _ = server
    for rows in ((1.0, 2.0), (1.0, 2.0), (3.0,), (1.0, 2.0)):
        infer(http, "keeps", *rows)
    with pytest.raises(AssertionError, match="500"):
        infer(http, "keeps", -1.0)
    keeps = {"success": 4, "fail": 1, "compute_infer": 2, "cache_hit": 2, "cache_miss": 2}
    assert counted(http, "keeps") == {"rows": (3, 2), **keeps, "sizes": {1: 1, 2: 1}}
    kept = {"success": 2, "compute_infer": 2, "cache_miss": 2}
    assert counted(http, "kept") == {"rows": (3, 2), **kept, "sizes": {1: 1, 2: 1}}
    assert ran(http, "plain") == {1: 2, 2: 1}  # what it gives has been asked again


def test_a_batch_in_which_requests_meet_is_one_execution(
    server: tuple[str, str], folder: Path
) -> None:
    http, grpc = server
    gate = folder.parent / f"{folder.name}-gate"
    os.mkfifo(gate)
    done: SimpleQueue[object] = SimpleQueue()

    def take(result: object, error: object) -> None:  # noqa: ARG001 the client calls it so
        done.put(error)

    with grpc_client.InferenceServerClient(grpc) as client:
        client.async_infer("meets", [value(7)], take)
        opened = gate.open("w")  # once the first is in the model
        for _ in range(7):
            client.async_infer("meets", [value(1)], take)
        eventually(lambda: waiting(http, "meets") == 7)
        opened.close()
        assert [done.get(timeout=20) for _ in range(8)] == [None] * 8
    found = {"rows": (8, 3), "success": 8, "compute_infer": 8, "sizes": {1: 1, 3: 1, 4: 1}}
    assert counted(http, "meets") == found


def test_what_fails_has_been_executed_where_it_has_come_to_a_model(
    server: tuple[str, str],
) -> None:
    http, _ = server
    for model in ("plain", "around"):
        with pytest.raises(AssertionError, match="500"):
            infer(http, model, -1.0)
    with pytest.raises(AssertionError, match="400"):
        infer(http, "plain", *range(5))  # which is refused before
    with pytest.raises(AssertionError, match="501"):
        infer(http, "often", 1.0)  # and so is this
    assert counted(http, "often") == {"rows": (0, 0), "sizes": {}}
    assert counted(http, "plain") == {"rows": (0, 2), "fail": 2, "sizes": {1: 2}}
    assert counted(http, "around") == {"rows": (0, 0), "fail": 1, "sizes": {}}


def test_an_ensemble_in_an_ensemble_and_all_members_count(server: tuple[str, str]) -> None:
    http, _ = server
    infer(http, "around", 1.0, 2.0, 3.0)
    one = {"rows": (3, 1), "success": 1, "compute_infer": 1, "sizes": {3: 1}}
    assert counted(http, "around") == counted(http, "both") == one
    plain = {"rows": (6, 2), "success": 2, "compute_infer": 2, "sizes": {3: 2}}
    assert counted(http, "plain") == plain
    assert counted(http, "kept") == {**one, "cache_miss": 1}


def test_members_count_each_response_that_they_are_given(server: tuple[str, str]) -> None:
    http, grpc = server
    answers: SimpleQueue[tuple[Any, Any]] = SimpleQueue()

    def take(result: Any, error: Any) -> None:  # Any: the client has no types
        answers.put((result, error))

    with grpc_client.InferenceServerClient(grpc) as client:
        client.start_stream(take)
        client.async_stream_infer("follows", [value(3)], enable_empty_final_response=True)
        given = [answers.get(timeout=20) for _ in range(4)]
        client.stop_stream()
    assert [error for _, error in given] == [None] * 4
    assert given[-1][0].get_response().parameters["triton_final_response"].bool_param
    once = {"rows": (1, 1), "success": 1, "compute_infer": 1, "sizes": {1: 1}}
    assert counted(http, "often") == counted(http, "follows") == once
    three = {"rows": (3, 3), "success": 3, "compute_infer": 3, "sizes": {1: 3}}
    assert counted(http, "plain") == three


def test_metrics_say_the_same(folder: Path) -> None:
    options = Options(serving=Serving(cache=1 << 20))
    with following(folder, options) as (follower, http, _):
        infer(f"http://{http}", "both", 2.0, 3.0)
        infer(f"http://{http}", "both", 2.0, 3.0)
        page = expose(figures_of(follower.repository)).decode()
    for model, success, count, executions in (
        ("both", 2, 4, 2),
        ("plain", 2, 4, 2),
        ("kept", 2, 2, 1),
    ):
        of = f'{{model="{model}",version="1"}}'
        assert f"nv_inference_request_success{of} {success}.0" in page
        assert f"nv_inference_count{of} {count}.0" in page
        assert f"nv_inference_exec_count{of} {executions}.0" in page
    kept = '{model="kept",version="1"}'
    assert f"nv_cache_num_hits_per_model{kept} 1.0" in page
    assert f"nv_cache_num_misses_per_model{kept} 1.0" in page
    assert 'headrace_stage_executions_total{app="both",stage="plain"} 2.0' in page
    assert 'headrace_stage_executions_total{app="plain",stage="run_plain"} 0.0' in page
