"""A Triton repository behind a server, asked by tritonclient: names, metadata, answers."""

import json
import queue
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from numpy.typing import NDArray
from tritonclient.utils import InferenceServerException

from headrace.runtime.access import DEFAULT, Access, Policy, policy_of
from headrace.runtime.engine import EngineConfig
from headrace.runtime.repository.keeper import Apps, Keeper
from headrace.runtime.repository.policy import All
from headrace.runtime.repository.repository import Repository
from headrace.runtime.repository.state import LoadFailed
from headrace.runtime.server import serve
from headrace.runtime.server_config import ServerConfig
from headrace.triton.overlay import configuring
from headrace.triton.own_completion import OwnCompletions
from headrace.triton.serving import Options, find
from headrace.triton.translate.schedule import Serving
from tests.triton.test_translate import write_sequences
from tests.triton.writing import ensemble, put, unary

Array = NDArray[Any]

ADD_ONE = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(4)
        config.add_input({"name": "X", "data_type": "TYPE_FP32", "dims": [2]})
        config.add_output({"name": "Y", "data_type": "TYPE_FP32", "dims": [2]})
        return config

    def execute(self, requests):
        given = [pb_utils.get_input_tensor_by_name(one, "X").as_numpy() for one in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", one + 1)]) for one in given]
"""

THREE_TIMES = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            given = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            for i in range(3):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", given * i)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

TENSORS = (
    'input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }\n'
    'output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }\nmax_batch_size: 4\n'
)


PLACES = [Options(), Options(serving=Serving(in_process=True))]
"""Python models in processes of their own, and in the server's."""

anywhere = pytest.mark.parametrize("options", PLACES, ids=["processes", "in process"])


class Follower:
    """A repository that keeps to a folder, and why models of it are not served."""

    def __init__(self, folder: Path, options: Options) -> None:
        own = OwnCompletions()

        def found(over: Path | None = None) -> Apps:
            return find((folder,), options, lambda _: None, own, over)

        self.repository = Repository(
            EngineConfig(workers=2),
            policies={"": All()},
            find=lambda app: found().get(app, {}),
            configure=configuring((folder,), found),
            takes_files=True,
            one_stock=True,
        )
        self.failures: dict[str, LoadFailed] = {}
        self._keeper = Keeper(self.repository, found)

    def renew(self) -> None:
        self.failures.clear()
        self._keeper.renew(self._tell)

    def _tell(self, name: str, failure: LoadFailed | None) -> None:
        if failure is not None:
            self.failures[name] = failure


@contextmanager
def following(
    folder: Path, options: Options | None = None, policy: Policy = DEFAULT
) -> Generator[tuple[Follower, str, str]]:
    """Serve a folder, or what callers load of it where they may; gives addresses of HTTP, gRPC."""
    follower = Follower(folder, options or Options())
    if policy is DEFAULT:
        follower.renew()
    config = ServerConfig(http_port=0, grpc_port=0, metrics_port=None, policy=policy)
    try:
        with serve(follower.repository, config) as server:
            yield follower, str(server.addresses.http), str(server.addresses.grpc)
    finally:
        follower.repository.close()


def given(client: Any, name: str, value: Array) -> Any:
    made = client.InferInput(name, list(value.shape), "FP32")
    made.set_data_from_numpy(value)
    return made


ROWS = np.array([[1, -2], [3, -4]], np.float32)


@pytest.mark.slow  # both clients, and models in two versions
def test_stock_clients_meet_models_under_their_names(tmp_path: Path) -> None:
    unary(tmp_path / "neg.it/2/model.onnx", "Neg", "in:0", "out:0")
    unary(tmp_path / "neg.it/5/model.onnx", "Abs", "in:0", "out:0")
    put(
        tmp_path / "neg.it/config.pbtxt",
        """
version_policy { all { } }
max_batch_size: 8
dynamic_batching { max_queue_delay_microseconds: 100 }
output { name: "out:0" data_type: TYPE_FP32 dims: [ 2 ] label_filename: "words" }
""",
    )
    put(tmp_path / "neg.it/words", "first\nsecond\n")
    ensemble(tmp_path, "pair", ["A"], ["B"], ["neg.it@2: in:0=A > out:0=B"])
    with following(tmp_path) as (_, http, grpc):
        over_http: Any = http_client.InferenceServerClient(http)
        metadata = over_http.get_model_metadata("neg.it")
        assert metadata == {
            "name": "neg.it",
            "versions": ["2", "5"],
            "platform": "onnxruntime_onnx",
            "inputs": [{"name": "in:0", "datatype": "FP32", "shape": [-1, 2]}],
            "outputs": [{"name": "out:0", "datatype": "FP32", "shape": [-1, 2]}],
        }
        config = over_http.get_model_config("neg.it")
        assert config["backend"] == "onnxruntime"
        assert config["dynamic_batching"]["max_queue_delay_microseconds"] == 100
        assert config["input"][0]["dims"] == [2]
        assert over_http.get_model_metadata("pair")["platform"] == "ensemble"
        over_grpc: Any = grpc_client.InferenceServerClient(grpc)
        assert over_grpc.get_model_config("neg.it").config.max_batch_size == 8
        for client, module in ((over_http, http_client), (over_grpc, grpc_client)):
            rows = [given(module, "in:0", ROWS)]
            answer = client.infer("neg.it", rows).as_numpy("out:0")
            np.testing.assert_array_equal(answer, np.abs(ROWS))  # the newest
            answer = client.infer("neg.it", rows, model_version="2").as_numpy("out:0")
            np.testing.assert_array_equal(answer, -ROWS)
            answer = client.infer("pair", [given(module, "A", ROWS)]).as_numpy("B")
            np.testing.assert_array_equal(answer, -ROWS)
        wanted = [http_client.InferRequestedOutput("out:0", class_count=1)]
        found = over_http.infer("neg.it", [given(http_client, "in:0", ROWS)], outputs=wanted)
        assert [one.item().rpartition(b":")[2] for one in found.as_numpy("out:0")] == [
            b"second"
        ] * 2
        over_http.close()
        over_grpc.close()


def test_a_sequence_goes_through_a_model_and_an_ensemble(tmp_path: Path) -> None:
    write_sequences(tmp_path, "direct { }")
    ensemble(tmp_path, "e", ["A"], ["B"], ["seq: X=A > SUM=B"])
    with following(tmp_path) as (_, _, grpc):
        client: Any = grpc_client.InferenceServerClient(grpc)
        answers = [
            client.infer(
                model,
                [given(grpc_client, "X" if model == "seq" else "A", np.ones((1, 2), np.float32))],
                sequence_id=42,
                sequence_start=number == 0,
                sequence_end=number == 2,
            )
            for model in ("seq", "e")
            for number in range(3)
        ]
        sums = [one.as_numpy("SUM") for one in answers[:3]]
        sums += [one.as_numpy("B") for one in answers[3:]]
        # The state begins as 1, 2; the first request is told that it is.
        assert [one.tolist() for one in sums] == [[[3, 4]], [[3, 4]], [[4, 5]]] * 2
        assert [one.as_numpy("WHO").item() for one in answers[:3]] == [42] * 3
        assert [one.as_numpy("LAST").item() for one in answers[:3]] == [3, 3, 7]
        client.close()


@pytest.mark.slow  # each of three models is a process
@anywhere
def test_python_models_answer_once_or_often_alone_and_in_an_ensemble(
    tmp_path: Path, options: Options
) -> None:
    put(tmp_path / "once/1/model.py", ADD_ONE)
    put(tmp_path / "often/1/model.py", THREE_TIMES)
    put(
        tmp_path / "often/config.pbtxt",
        TENSORS + 'backend: "python"\nmodel_transaction_policy { decoupled: true }',
    )
    ensemble(
        tmp_path, "e", ["A"], ["B"], ["often: X=M > Y=N", "once: X=A > Y=M", "once: X=N > Y=B"]
    )
    with following(tmp_path, options) as (_, _, grpc):
        client: Any = grpc_client.InferenceServerClient(grpc)
        answer = client.infer("once", [given(grpc_client, "X", ROWS)]).as_numpy("Y")
        np.testing.assert_array_equal(answer, ROWS + 1)
        told: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def tell(result: Any, error: Any) -> None:
            told.put(error or result)

        client.start_stream(tell)
        for model, x, y, each in (
            ("often", "X", "Y", [ROWS * i for i in range(3)]),
            ("e", "A", "B", [(ROWS + 1) * i + 1 for i in range(3)]),
        ):
            client.async_stream_infer(model, [given(grpc_client, x, ROWS)])
            for wanted in each:
                np.testing.assert_array_equal(told.get(timeout=20).as_numpy(y), wanted)
        client.stop_stream()
        client.close()


def test_a_model_is_warmed_up_with_its_data_and_nobody_counts_it(tmp_path: Path) -> None:
    unary(tmp_path / "m/1/model.onnx", "Neg", "x", "y")
    warm = """
max_batch_size: 4
model_warmup { name: "w" batch_size: 2 count: 3 inputs {
    key: "x" value { data_type: TYPE_FP32 dims: [ 2 ] input_data_file: "two" } } }
"""
    put(tmp_path / "m/config.pbtxt", warm)
    (tmp_path / "m/warmup").mkdir()
    (tmp_path / "m/warmup/two").write_bytes(ROWS[0].tobytes())
    with following(tmp_path) as (follower, http, _):
        assert not follower.failures
        client: Any = http_client.InferenceServerClient(http)
        (counts,) = client.get_inference_statistics("m")["model_stats"]
        assert counts["inference_count"] == 0
        client.close()


def test_what_is_wrong_with_one_model_keeps_no_other_from_being_served(tmp_path: Path) -> None:
    unary(tmp_path / "good/1/model.onnx", "Neg", "x", "y")
    put(tmp_path / "good/config.pbtxt", "")
    unary(tmp_path / "bad/1/model.onnx", "Neg", "x", "y")
    put(tmp_path / "bad/config.pbtxt", 'model_repository_agents { agents { name: "sum" } }')
    follower = Follower(tmp_path, Options())
    follower.renew()
    assert list(follower.repository.routes) == ["good"]
    assert "agents" in str(follower.failures["bad"].cause)
    put(tmp_path / "bad/config.pbtxt", "")
    follower.renew()
    assert sorted(follower.repository.routes) == ["bad", "good"]
    unary(tmp_path / "bad/1/model.onnx", "Abs", "x", "y")
    before = follower.repository.routes["good"].main
    follower.renew()
    assert follower.repository.routes["good"].main is before  # its files are as they were
    put(tmp_path / "bad/config.pbtxt", "max_batch_size: 2")
    follower.renew()
    served = follower.repository.routes["bad"].main
    assert served is not None
    assert served.model.described is not None
    assert served.model.described.config["max_batch_size"] == 2
    follower.repository.close()


def test_an_ensemble_is_not_served_where_one_in_it_lacks_what_is_asked(tmp_path: Path) -> None:
    unary(tmp_path / "neg/1/model.onnx", "Neg", "x", "y")
    put(tmp_path / "neg/config.pbtxt", "")
    ensemble(tmp_path, "inner", ["A"], ["B", "C"], ["neg: x=A > y=B"])
    ensemble(tmp_path, "outer", ["A"], ["D"], ["inner: A=A > C=D"])
    follower = Follower(tmp_path, Options())
    follower.renew()
    assert list(follower.repository.routes) == ["neg"]
    assert "nothing makes `C`" in str(follower.failures["outer"].cause)
    follower.repository.close()


def test_callers_load_an_ensemble_with_what_it_is_made_of_and_models_by_other_configurations(
    tmp_path: Path,
) -> None:
    unary(tmp_path / "neg/1/model.onnx", "Neg", "x", "y")
    put(tmp_path / "neg/config.pbtxt", "")
    ensemble(tmp_path, "e", ["A"], ["B"], ["neg: x=A > y=B"])
    with following(tmp_path, policy=policy_of([Access.CONTROL], [])) as (follower, http, _):
        client: Any = http_client.InferenceServerClient(http)
        client.load_model("e")
        assert sorted(follower.repository.routes) == ["e", "neg"]
        given_instead = {"backend": "onnxruntime", "max_batch_size": 6}
        client.load_model("neg", config=json.dumps(given_instead))
        assert client.get_model_config("neg")["max_batch_size"] == 6
        client.load_model("neg")
        assert client.get_model_config("neg")["max_batch_size"] == 4
        with pytest.raises(InferenceServerException, match="`nope` is no backend"):
            client.load_model("neg", config=json.dumps({"backend": "nope"}))
        with pytest.raises(InferenceServerException, match="the configuration cannot be read"):
            client.load_model("neg", config="{")
        client.unload_model("e", unload_dependents=True)
        assert not follower.repository.routes
        client.close()


@pytest.mark.slow  # a model that is a process
def test_callers_load_files_that_are_no_code(tmp_path: Path) -> None:
    unary(tmp_path / "models/neg/1/model.onnx", "Neg", "x", "y")
    put(tmp_path / "models/neg/config.pbtxt", "")
    put(tmp_path / "models/py/1/model.py", ADD_ONE)
    put(tmp_path / "models/py/config.pbtxt", 'backend: "python"')
    unary(tmp_path / "given.onnx", "Abs", "x", "y")
    content = (tmp_path / "given.onnx").read_bytes()
    config = json.dumps({"backend": "onnxruntime", "max_batch_size": 6})
    with following(tmp_path / "models", policy=policy_of([Access.CONTROL], [])) as (_, http, grpc):
        for url, module in ((http, http_client), (grpc, grpc_client)):
            client: Any = module.InferenceServerClient(url)
            client.load_model("neg", config=config, files={"file:3/model.onnx": content})
            assert client.infer("neg", [given(module, "x", ROWS)]).as_numpy("y").tolist() == [
                [1, 2],
                [3, 4],
            ]
            client.load_model("new", config=config, files={"file:1/model.onnx": content})
            client.load_model("neg")
            assert client.infer("neg", [given(module, "x", ROWS)]).as_numpy("y")[0, 0] == -1
            for files, said in (
                ({"file:../1/model.onnx": content}, "no file of a version"),
                ({"file:model.onnx": content}, "no file of a version"),
                ({"file:1/model.py": ADD_ONE.encode()}, "never comes from callers"),
            ):
                backend = "python" if "file:1/model.py" in files else "onnxruntime"
                with pytest.raises(InferenceServerException, match=said):
                    client.load_model("neg", config=json.dumps({"backend": backend}), files=files)
            client.load_model("py", config=json.dumps({"backend": "python", "max_batch_size": 4}))
            answer = client.infer("py", [given(module, "X", ROWS)]).as_numpy("Y")
            np.testing.assert_array_equal(answer, ROWS + 1)
            other = {"EXECUTION_ENV_PATH": {"string_value": "/tmp"}}
            with pytest.raises(InferenceServerException, match="the server's to say"):
                client.load_model("py", config=json.dumps({"parameters": other}))
            client.close()


WHO = """
import random
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.who = random.SystemRandom().randrange(1 << 24)

    def execute(self, requests):
        who = [np.full_like(one.inputs()[0].as_numpy(), self.who) for one in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", one)]) for one in who]
"""


@pytest.mark.slow  # a process is started
@anywhere
def test_a_python_model_and_ensembles_with_it_have_the_same_workers(
    tmp_path: Path, options: Options
) -> None:
    put(tmp_path / "who/config.pbtxt", 'backend: "python"\n' + TENSORS)
    put(tmp_path / "who/1/model.py", WHO)
    ensemble(tmp_path, "e", ["A"], ["B"], ["who: X=A > Y=B"])
    ensemble(tmp_path, "f", ["A"], ["B"], ["who: X=A > Y=t", "who: X=t > Y=B"])
    with following(tmp_path, options) as (follower, http, _):
        client: Any = http_client.InferenceServerClient(http)
        x = np.ones((1, 2), np.float32)

        def who(model: str) -> float:
            taken, gives = ("X", "Y") if model == "who" else ("A", "B")
            answer = client.infer(model, [given(http_client, taken, x)])
            return float(answer.as_numpy(gives)[0, 0])

        first = who("who")
        assert [who(model) for model in ("e", "f", "who")] == [first] * 3
        follower.repository.unload("e").result(20)
        assert [who(model) for model in ("f", "who")] == [first] * 2
        follower.repository.unload("who").result(20)
        assert who("f") == first
        follower.repository.load("who")
        assert who("who") != first  # begun anew, as whoever lets go of it wants
        first = who("who")
        put(tmp_path / "who/1/model.py", WHO + "\n# another\n")
        follower.renew()
        changed = who("who")
        assert changed != first
        assert who("f") in (first, changed)
        client.close()
