"""Python models that keep something of a sequence themselves, as a tritonserver runs them."""

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
from numpy.typing import NDArray

from tests.triton.test_run import PLACES, following
from tests.triton.writing import STRING, put, save, tensor

pytestmark = pytest.mark.slow  # each model is a process

TOTALS = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.totals = {}
        self.number = int(args["model_instance_name"].rpartition("_")[2])

    def execute(self, requests):
        return [self.answer(one) for one in requests]

    def answer(self, request):
        key, flags = request.correlation_id(), request.flags()
        given = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
        start = pb_utils.get_input_tensor_by_name(request, "START").as_numpy()
        assert bool(start.item()) == bool(flags & 1)
        before = 0 if flags & 1 else self.totals[key]
        self.totals[key] = before + given
        alive = np.array([[len(self.totals)]], np.int32)
        answer = self.totals[key]
        if flags & 2:
            del self.totals[key]
        worker = np.array([[self.number]], np.int32)
        tensors = [pb_utils.Tensor("SUM", answer), pb_utils.Tensor("ALIVE", alive)]
        tensors.append(pb_utils.Tensor("WORKER", worker))
        return pb_utils.InferenceResponse(tensors)
"""

COUNTED = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.turns = {}

    def execute(self, requests):
        for request in requests:
            key = request.correlation_id()
            self.turns[key] = self.turns.get(key, 0) + 1
            sender = request.get_response_sender()
            for i in range(int(pb_utils.get_input_tensor_by_name(request, "X").as_numpy().item())):
                said = np.array([[self.turns[key], i]], np.float32)
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", said)]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

DOWN = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.left = {}

    def execute(self, requests):
        for request in requests:
            key = int(pb_utils.get_input_tensor_by_name(request, "ID").as_numpy().item())
            assert key == request.correlation_id()
            if pb_utils.get_input_tensor_by_name(request, "START").as_numpy().item() == 1:
                given = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
                self.left[key] = int(given.item())
            self.left[key] -= 1
            said = np.array([[self.left[key]]], np.float32)
            response = pb_utils.InferenceResponse([pb_utils.Tensor("Y", said)])
            if self.left[key] > 0:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                request.get_response_sender().send(response)
            else:
                final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
                request.get_response_sender().send(response, flags=final)
"""

FOUND_ONCE = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.turns = {}

    def execute(self, requests):
        answers = []
        for request in requests:
            key = request.correlation_id()
            self.turns[key] = self.turns.get(key, 0) + 1
            if self.turns[key] < 3:
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                answers.append(None)
            else:
                said = np.array([[self.turns[key]]], np.float32)
                answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", said)]))
        return answers
"""

HEAD = """
backend: "python"
max_batch_size: 4
input {{ name: "X" data_type: TYPE_FP32 dims: [ 1 ] }}
output {{ name: "Y" data_type: TYPE_FP32 dims: [ {} ] }}
"""

DECOUPLED = "model_transaction_policy { decoupled: true }\n"
START = 'control_input { name: "START" control { kind: CONTROL_SEQUENCE_START %s } }'
ID = 'control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }'


def totals(strategy: str) -> str:
    return f"""
backend: "python"
max_batch_size: 4
input {{ name: "X" data_type: TYPE_FP32 dims: [ 1 ] }}
output [ {{ name: "SUM" data_type: TYPE_FP32 dims: [ 1 ] }},
         {{ name: "ALIVE" data_type: TYPE_INT32 dims: [ 1 ] }},
         {{ name: "WORKER" data_type: TYPE_INT32 dims: [ 1 ] }} ]
instance_group {{ count: 3 kind: KIND_CPU }}
sequence_batching {{ {strategy} {START % "bool_false_true: [ false, true ]"} }}
"""


def anew(*controls: str) -> str:
    return f"sequence_batching {{ iterative_sequence: true {' '.join(controls)} }}\n"


@pytest.fixture(scope="module", params=PLACES, ids=["processes", "in process"])
def client(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("models")
    for name, model, config in (
        ("direct", TOTALS, totals("direct { }")),
        ("oldest", TOTALS, totals("oldest { max_candidate_sequences: 6 }")),
        ("often", COUNTED, HEAD.format(2) + DECOUPLED + "sequence_batching { direct { } }"),
        ("down", DOWN, HEAD.format(1) + DECOUPLED + anew(START % "int32_false_true: [ 0, 1 ]", ID)),
        ("once", FOUND_ONCE, HEAD.format(1) + anew()),
    ):
        put(folder / name / "1/model.py", model)
        put(folder / name / "config.pbtxt", config)
    with following(folder, request.param) as (follower, _, grpc):
        assert not follower.failures, follower.failures
        with grpc_client.InferenceServerClient(grpc) as client:
            yield client


def x(value: float) -> list[Any]:
    made: Any = grpc_client.InferInput("X", [1, 1], "FP32")
    made.set_data_from_numpy(np.array([[value]], np.float32))
    return [made]


def streamed(client: Any, model: str, count: int, value: float, **told: Any) -> list[NDArray[Any]]:
    """Return so many answers to one request."""
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def tell(result: Any, error: Any) -> None:
        answers.put(error or result)

    client.start_stream(tell)
    client.async_stream_infer(model, x(value), **told)
    found = [answers.get(timeout=30).as_numpy("Y") for _ in range(count)]
    client.stop_stream()
    return found


@pytest.mark.parametrize("model", ["direct", "oldest"])
def test_what_a_model_keeps_of_a_sequence_is_there_at_the_next_request(
    client: Any, model: str
) -> None:
    sums: dict[int, float] = {}
    workers: dict[int, set[int]] = {7: set(), 8: set(), 9: set()}
    for step in range(3):
        for key in (7, 8, 9):  # more than one instance would have them in turn
            told = {"sequence_start": step == 0, "sequence_end": step == 2}
            answer = client.infer(model, x(key + step), sequence_id=key, **told)
            sums[key] = answer.as_numpy("SUM").item()
            workers[key].add(answer.as_numpy("WORKER").item())
    assert sums == {7: 24, 8: 27, 9: 30}
    assert [len(one) for one in workers.values()] == [1, 1, 1]
    assert len(set.union(*workers.values())) == 3  # as many as instances
    last = client.infer(model, x(1), sequence_id=5, sequence_start=True, sequence_end=True)
    assert last.as_numpy("ALIVE").item() == 1  # and nobody else: no row stands for a sequence


def test_ids_of_sequences_may_be_texts(tmp_path: Path) -> None:
    save(
        tmp_path / "who/1/model.onnx",
        [("Identity", ["ID"], ["WHO"]), ("Identity", ["X"], ["Y"])],
        [tensor("X", ["N", 1]), tensor("ID", ["N", 1], STRING)],
        [tensor("WHO", ["N", 1], STRING), tensor("Y", ["N", 1])],
    )
    put(
        tmp_path / "who/config.pbtxt",
        """
max_batch_size: 4
input { name: "X" data_type: TYPE_FP32 dims: [ 1 ] }
output { name: "WHO" data_type: TYPE_STRING dims: [ 1 ] }
sequence_batching { control_input { name: "ID"
    control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_STRING } } }
""",
    )
    with following(tmp_path) as (follower, _, grpc):
        assert not follower.failures, follower.failures
        with grpc_client.InferenceServerClient(grpc) as client:
            for key in ("left", "right"):
                infer: Any = client.infer  # Any: its types know no ids that are texts
                answer = infer("who", x(1), sequence_id=key, sequence_start=True)
                assert answer.as_numpy("WHO").item() == key.encode()


def test_each_request_of_a_sequence_may_be_answered_often(client: Any) -> None:
    other = streamed(client, "often", 1, 1, sequence_id=4, sequence_start=True)
    first = streamed(client, "often", 2, 2, sequence_id=3, sequence_start=True)
    second = streamed(client, "often", 3, 3, sequence_id=3, sequence_end=True)
    assert [one.tolist() for one in other] == [[[1, 0]]]
    assert [one.tolist() for one in first] == [[[1, 0]], [[1, 1]]]
    assert [one.tolist() for one in second] == [[[2, 0]], [[2, 1]], [[2, 2]]]


def test_a_request_that_is_scheduled_anew_goes_on_in_a_sequence_of_its_own(client: Any) -> None:
    assert [one.item() for one in streamed(client, "down", 4, 4)] == [3, 2, 1, 0]
    assert [one.item() for one in streamed(client, "down", 2, 2)] == [1, 0]
    for _ in range(2):
        assert client.infer("once", x(0)).as_numpy("Y").item() == 3
