"""Sequences of requests over both protocols, with stock clients."""

import queue
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

import headrace
from headrace.client import Client
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.protocols.ext.sequence import read_sequence
from headrace.runtime.request import Fault, InSequence, RequestError
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import ServerConfig

SOURCE = """
pipeline total(x: f32) -> (y: f32) per sequence idle 30s {
    state kept: f32 = 0.5
    state last: f32[2] = zeros
    next kept = kept + x
    next last = [last[1], x]
    return y = kept + x
}

pipeline plain(x: f32) -> (y: f32) {
    return y = x
}

pipeline twice(x: f32) -> stream (y: f32) {
    emit y = x
    emit y = x
}
"""


@pytest.fixture(scope="module")
def address() -> Iterator[Server]:
    engine = Engine(headrace.compile(SOURCE).plan, EngineConfig(workers=2, intra_op_threads=1))
    config = ServerConfig(http_port=0, grpc_port=0, metrics_port=None)
    with serve([engine], config) as server:
        yield server
    engine.close()


@pytest.fixture(params=["http", "grpc"])
def client(request: pytest.FixtureRequest, address: Server) -> Iterator[tuple[Any, Any]]:
    module = tritonclient.http if request.param == "http" else tritonclient.grpc
    where = address.addresses.http if request.param == "http" else address.addresses.grpc
    with module.InferenceServerClient(where) as instance:
        yield module, instance


def ask(client: tuple[Any, Any], x: float, model: str = "total", **sequence: Any) -> float:
    module, triton = client
    tensor = module.InferInput("x", [1], "FP32")
    tensor.set_data_from_numpy(np.array([x], np.float32))
    return float(triton.infer(model, [tensor], **sequence).as_numpy("y")[0])


@pytest.mark.parametrize("id", [7, "call-7"])
def test_requests_of_a_sequence_go_on_from_one_another(
    client: tuple[Any, Any], id: int | str
) -> None:
    assert ask(client, 1, sequence_id=id, sequence_start=True) == 1.5
    assert ask(client, 2, sequence_id=id) == 3.5
    assert ask(client, 3, sequence_id=id, sequence_end=True) == 6.5
    with pytest.raises(InferenceServerException, match="nothing is kept of sequence"):
        ask(client, 4, sequence_id=id)
    assert ask(client, 4, sequence_id=id, sequence_start=True, sequence_end=True) == 4.5


@pytest.mark.parametrize("scheme", ["grpc", "http"])
@pytest.mark.parametrize("id", [None, 9, 2**64 - 1])
def test_our_client_keeps_the_place_of_a_sequence(
    address: Server, scheme: str, id: int | None
) -> None:
    where = address.addresses.http if scheme == "http" else address.addresses.grpc
    with Client(f"{scheme}://{where}") as client:
        calls = client.total.sequence(id)
        x = np.float32(1)
        assert [float(calls(x=x).y), float(calls(x=x, outputs=["y"]).y)] == [1.5, 2.5]
        assert float(calls.last(x=x).y) == 3.5
        assert float(calls(x=x).y) == 1.5
        with pytest.raises(Fault, match="give sequence_id"):
            client.total(x=x)


def test_what_keeps_state_wants_a_sequence_and_what_does_not_wants_none(
    client: tuple[Any, Any],
) -> None:
    with pytest.raises(InferenceServerException, match="give sequence_id"):
        ask(client, 1)
    with pytest.raises(InferenceServerException, match="keeps nothing for a sequence"):
        ask(client, 1, "plain", sequence_id=3, sequence_start=True)
    assert ask(client, 1, "plain") == 1


def test_the_server_says_that_it_keeps_sequences_and_what_of_them(
    client: tuple[Any, Any],
) -> None:
    options = {"as_json": True} if client[0] is tritonclient.grpc else {}
    extensions = client[1].get_server_metadata(**options)["extensions"]
    assert {"sequence", "sequence(string_id)"} <= set(extensions)
    config = client[1].get_model_config("total", **options)
    sequences = config.get("config", config)["sequence_batching"]
    assert int(sequences["max_sequence_idle_microseconds"]) == 30_000_000
    assert [state["input_name"] for state in sequences["state"]] == ["kept", "last"]
    assert [int(size) for size in sequences["state"][1]["dims"]] == [2]
    config = client[1].get_model_config("plain", **options)
    assert "sequence_batching" not in config.get("config", config)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"sequence_id": 7}, InSequence(7)),
        ({"sequence_id": 2**64 - 1, "sequence_start": True}, InSequence(2**64 - 1, start=True)),
        ({"sequence_id": "call-7", "sequence_end": True}, InSequence("call-7", end=True)),
        ({"sequence_id": 7, "sequence_start": False}, InSequence(7)),
        ({"sequence_id": 0, "sequence_start": False}, None),
        ({"sequence_id": ""}, None),
        ({}, None),
    ],
)
def test_the_parameters_of_a_sequence_are_read(
    parameters: dict[str, bool | int | str], expected: InSequence | None
) -> None:
    assert read_sequence(parameters) == expected


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"sequence_id": -1}, "whole number up to"),
        ({"sequence_id": 2**64}, "whole number up to"),
        ({"sequence_id": True}, "whole number up to"),
        ({"sequence_id": 1.5}, "whole number up to"),
        ({"sequence_id": "x" * 129}, "longer than 128 characters"),
        ({"sequence_id": 1, "sequence_start": 1}, "must be true or false"),
        ({"sequence_start": True}, "must have a sequence_id"),
        ({"sequence_id": 0, "sequence_end": True}, "must have a sequence_id"),
    ],
)
def test_wrong_parameters_of_a_sequence_are_refused(
    parameters: dict[str, bool | int | float | str], said: str
) -> None:
    with pytest.raises(RequestError, match=said):
        read_sequence(parameters)


def test_a_stream_keeps_nothing_for_a_sequence(address: Server) -> None:
    received: queue.Queue[str] = queue.Queue()

    def receive(result: object, error: object) -> None:
        assert result is None
        received.put(str(error))

    module: Any = tritonclient.grpc
    tensor = module.InferInput("x", [1], "FP32")
    tensor.set_data_from_numpy(np.array([1], np.float32))
    with module.InferenceServerClient(address.addresses.grpc) as triton:
        triton.start_stream(receive)
        triton.async_stream_infer("twice", [tensor], sequence_id=3, sequence_start=True)
        assert "keeps nothing for a sequence" in received.get(timeout=5)
        triton.stop_stream()
