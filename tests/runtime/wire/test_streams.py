"""Pipelines that are streams, called with a stock client over gRPC and refused over HTTP."""

from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton

import headrace
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier, ServerConfig
from tests.runtime.wire.conftest import free_ports

SOURCE = """
pipeline count(most: i64, first: i64 = 1) -> stream (n: i64) {
    loop (n: i64 = first) max most {
        emit n = n
        next n = n + 1
    }
}

pipeline halves(n: i64) -> stream (half: f32[N]) {
    loop (left: i64 = n, i: i64 = 0) max 3 {
        emit half = cast(range(left), f32) when left > 0
        next left = left - 4, i = i + 1
    }
    emit half = cast(range(9), f32)[n:9]
}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    plan = headrace.compile(SOURCE).plan
    engine = Engine(plan, EngineConfig(workers=2))
    config: ServerConfig = free_ports(Carrier.AUTO)
    with serve([engine], config) as server:
        yield server
    engine.close()


class Caller:
    """A stream of a stock client; what comes back waits in a queue."""

    def __init__(self, server: Server) -> None:
        self.client = triton.InferenceServerClient(str(server.addresses.grpc))
        self.answers: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        self.client.start_stream(self._take)

    def _take(self, result: Any, error: Any) -> None:
        self.answers.put((result, error))

    def ask(self, model: str, request_id: str, **inputs: int) -> None:
        tensors: list[triton.InferInput] = []
        for name, value in inputs.items():
            tensors.append(triton.InferInput(name, [1], "INT64"))
            tensors[-1].set_data_from_numpy(np.array([value], np.int64))
        self.client.async_stream_infer(
            model, tensors, request_id=request_id, enable_empty_final_response=True
        )

    def until_final(self) -> list[Any]:
        """Return the responses up to the last one, which holds nothing."""
        found: list[Any] = []
        while True:
            result, error = self.answers.get(timeout=10)
            assert error is None, error
            response = result.get_response()
            if response.parameters["triton_final_response"].bool_param:
                assert not response.outputs
                return found
            found.append(result)


@pytest.fixture
def caller(server: Server) -> Iterator[Caller]:
    caller = Caller(server)
    yield caller
    caller.client.stop_stream()
    caller.client.close()


def test_each_emit_is_a_response_and_the_last_one_is_empty(caller: Caller) -> None:
    caller.ask("count", "a", most=100)
    answers = caller.until_final()
    assert [int(one.as_numpy("n")[0]) for one in answers] == list(range(1, 101))
    assert {one.get_response().id for one in answers} == {"a"}


def test_the_responses_of_two_requests_of_one_stream_follow_each_other(caller: Caller) -> None:
    caller.ask("count", "a", most=40)
    caller.ask("count", "b", most=3, first=7)
    first, second = caller.until_final(), caller.until_final()
    assert [one.get_response().id for one in first] == ["a"] * 40
    assert [int(one.as_numpy("n")[0]) for one in second] == [7, 8, 9]


def test_a_stream_of_nothing_is_only_its_end(caller: Caller) -> None:
    caller.ask("count", "a", most=0)
    assert caller.until_final() == []


def test_what_was_emitted_before_a_failure_comes_and_then_the_error(caller: Caller) -> None:
    caller.ask("count", "bad", most=-1)
    result, error = caller.answers.get(timeout=10)
    assert result is None
    assert "`max` of the loop is -1" in error.message()
    caller.ask("halves", "a", n=5)  # and the stream goes on
    assert [len(one.as_numpy("half")) for one in caller.until_final()] == [5, 1, 4]


def test_the_configuration_says_that_a_stream_is_decoupled(server: Server) -> None:
    url = f"http://{server.addresses.http}/v2/models/count/config"
    assert httpx.get(url, timeout=5).json()["model_transaction_policy"] == {"decoupled": True}


def test_a_call_that_can_be_answered_only_once_is_refused(server: Server) -> None:
    client = triton.InferenceServerClient(str(server.addresses.grpc))
    tensor = triton.InferInput("most", [1], "INT64")
    tensor.set_data_from_numpy(np.array([2], np.int64))
    with pytest.raises(triton.InferenceServerException, match="call ModelStreamInfer") as raised:
        client.infer("count", [tensor])
    assert raised.value.status() == "StatusCode.UNIMPLEMENTED"
    client.close()


def test_over_http_who_is_refused_one_answer_is_told_what_http_has(server: Server) -> None:
    tensor = {"name": "most", "datatype": "INT64", "shape": [1], "data": [2]}
    url = f"http://{server.addresses.http}/v2/models/count/infer"
    answer = httpx.post(url, json={"inputs": [tensor]}, timeout=5)
    assert answer.status_code == 501
    assert "call generate_stream, or infer with the header" in answer.json()["error"]
    assert "ModelStreamInfer" not in answer.text
