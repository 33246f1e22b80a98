"""Sequences of requests over both protocols, with stock clients."""

import queue
from collections.abc import Iterator
from pathlib import Path
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

pipeline counted(x: f32) -> stream (y: f32) per sequence {
    state n: f32 = 0
    emit y = n
    emit y = n + x
    next n = n + x
}

pipeline told(x: f32) -> (y: f32) per sequence {
    return y = if sequence.start { x } else { if sequence.end { -x } else { 0 } }
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
        ({"sequence_id": 7}, InSequence(7, remote=True)),
        (
            {"sequence_id": 2**64 - 1, "sequence_start": True},
            InSequence(2**64 - 1, start=True, remote=True),
        ),
        (
            {"sequence_id": "call-7", "sequence_end": True},
            InSequence("call-7", end=True, remote=True),
        ),
        ({"sequence_id": 7, "sequence_start": False}, InSequence(7, remote=True)),
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


class Streaming:
    """One gRPC stream: sends requests, gives what comes back in the order in which it comes."""

    def __init__(self, where: str) -> None:
        module: Any = tritonclient.grpc
        self._module = module
        self._client: Any = module.InferenceServerClient(where)
        self._received: queue.Queue[tuple[Any, Any]] = queue.Queue()
        self._client.start_stream(self._take)

    def _take(self, result: Any, error: Any) -> None:
        self._received.put((result, error))

    def send(self, x: float, model: str = "total", **sequence: Any) -> None:
        tensor = self._module.InferInput("x", [1], "FP32")
        tensor.set_data_from_numpy(np.array([x], np.float32))
        self._client.async_stream_infer(model, [tensor], **sequence)

    def receive(self) -> float | str:
        """Return the next value, or what is said of an error."""
        result, error = self._received.get(timeout=10)
        return str(error) if result is None else float(result.as_numpy("y")[0])

    def __enter__(self) -> "Streaming":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop_stream()
        self._client.close()


def test_a_stream_keeps_nothing_for_a_sequence(address: Server) -> None:
    assert address.addresses.grpc is not None
    with Streaming(address.addresses.grpc) as stream:
        stream.send(1, "twice", sequence_id=3, sequence_start=True)
        assert "keeps nothing for a sequence" in str(stream.receive())


def test_a_stream_of_a_sequence_goes_on_from_the_one_before(address: Server) -> None:
    assert address.addresses.grpc is not None
    with Streaming(address.addresses.grpc) as stream:
        for i in range(3):
            stream.send(2, "counted", sequence_id=77, sequence_start=i == 0)
        assert [stream.receive() for _ in range(6)] == [0, 2, 2, 4, 4, 6]


def test_b24_an_end_without_a_start_gets_a_clear_error_and_the_server_lives(
    client: tuple[Any, Any],
) -> None:
    said = "nothing is kept of sequence 404: .* its first request says so with sequence_start"
    for _ in range(2):
        with pytest.raises(InferenceServerException, match=said):
            ask(client, 1, sequence_id=404, sequence_end=True)
    assert client[1].is_server_live()
    assert ask(client, 1, sequence_id=404, sequence_start=True, sequence_end=True) == 1.5


def test_a_pipeline_is_told_of_start_and_end(client: tuple[Any, Any]) -> None:
    points: tuple[dict[str, bool], ...] = ({"sequence_start": True}, {}, {"sequence_end": True})
    answers = [ask(client, 3, "told", sequence_id=11, **point) for point in points]
    assert answers == [3, 0, -3]


def test_sequences_share_a_stream_or_have_their_own_and_each_is_in_order(address: Server) -> None:
    assert address.addresses.grpc is not None
    with Streaming(address.addresses.grpc) as shared, Streaming(address.addresses.grpc) as own:
        for i in range(100):
            for id in ("left", "right"):
                shared.send(1, sequence_id=id, sequence_start=i == 0, sequence_end=i == 99)
            own.send(2, sequence_id="own", sequence_start=i == 0, sequence_end=i == 99)
        answers = [shared.receive() for _ in range(200)]
        assert answers[::2] == answers[1::2] == [i + 1.5 for i in range(100)]
        assert [own.receive() for _ in range(100)] == [2 * i + 2.5 for i in range(100)]


MEET = """
import threading

both = threading.Barrier(2)

def meet(x):
    both.wait(10)
    return x
"""


def test_sequences_on_one_stream_do_not_wait_for_one_another(tmp_path: Path) -> None:
    (tmp_path / "meet.py").write_text(MEET)
    (tmp_path / "p.pipe").write_text("""
fn meet(x: f32) -> (y: f32) = python "meet.py:meet"

pipeline met(x: f32) -> (y: f32) per sequence {
    state n: f32 = 0
    next n = n + 1
    return y = n + meet(x)
}
""")
    plan = headrace.compile(tmp_path / "p.pipe").plan
    engine = Engine(plan, EngineConfig(workers=2, intra_op_threads=1))
    config = ServerConfig(http_port=None, grpc_port=0, metrics_port=None)
    with serve([engine], config) as server:
        assert server.addresses.grpc is not None
        with Streaming(server.addresses.grpc) as stream:
            for i in range(3):
                for id in (1, 2):
                    stream.send(0, "met", sequence_id=id, sequence_start=i == 0)
            assert [stream.receive() for _ in range(6)] == [0, 0, 1, 1, 2, 2]
    engine.close()
