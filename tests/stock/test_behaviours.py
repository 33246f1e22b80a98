"""What stock examples and tools rely on, in words of our own: see `examples.py` for theirs."""

import json
import socket
import zlib
from base64 import b64encode
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from headrace.runtime.server import Server
from tests.runtime.wire.stock import KINDS, Stock, stock
from tests.stock.examples import serving

MODELS = (
    "custom_identity_int32",
    "densenet_onnx",
    "inception_onnx",
    "repeat_int32",
    "simple",
    "simple_string_dyna_sequence",
)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(MODELS) as server:
        yield server


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, server: Server) -> Iterator[Stock]:
    with stock(request.param, server) as client:
        yield client


@pytest.fixture
def http(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{server.addresses.http}", timeout=20) as http:
        yield http


NUMBERS = np.arange(16, dtype=np.int32).reshape(1, 16)
BODY = {"inputs": [{"name": "INPUT0", "datatype": "INT32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
INFER = "/v2/models/custom_identity_int32/infer"


def pair(client: Stock) -> list[Any]:
    return [client.tensor(name, "INT32", NUMBERS) for name in ("INPUT0", "INPUT1")]


def config(client: Stock, model: str) -> dict[str, Any]:
    found = client.get_model_config(model)
    return found if client.is_http else found["config"]


def test_a_server_is_called_what_it_was_started_with(client: Stock) -> None:
    assert client.get_server_metadata()["name"] == "triton"


def test_of_gpu_memory_nothing_is_kept_and_only_to_register_is_refused(client: Stock) -> None:
    client.unregister_cuda_shared_memory()
    client.unregister_cuda_shared_memory("mine")
    assert not client.get_cuda_shared_memory_status()
    with pytest.raises(InferenceServerException, match="cuda_shared_memory is not served"):
        client.register_cuda_shared_memory("mine", b64encode(b"handle"), 0, 64)


def test_a_load_may_say_how_many_rows_and_nothing_else(client: Stock) -> None:
    many = np.zeros((9, 4), np.int32)
    asked = [client.tensor("INPUT0", "INT32", many)]
    name = "custom_identity_int32"
    client.load_model(name, config='{"max_batch_size": "16"}')
    assert config(client, name)["max_batch_size"] == 16
    assert np.array_equal(client.infer(name, asked).as_numpy("OUTPUT0"), many)
    read = config(client, name)
    for said, complaint in (
        ('{"max_batch_size": {', "failed to load"),
        ('{"max_batches": 2}', "failed to load"),
        ('{"max_batch_size": -1}', "at least one row"),
        ('{"backend": "python"}', "`backend` cannot be set by a load"),
        ('{"name": "another"}', "`name` cannot be set by a load"),
    ):
        with pytest.raises(InferenceServerException, match=complaint) as raised:
            client.load_model(name, config=said)
        assert "failed to load" in str(raised.value)
    client.load_model(name, config=json.dumps(read))  # what was read may be said again
    assert config(client, name)["max_batch_size"] == 16
    client.load_model(name)
    assert config(client, name)["max_batch_size"] == 8
    with pytest.raises(InferenceServerException, match="takes at most 8"):
        client.infer(name, asked)
    with pytest.raises(InferenceServerException, match="has no `batch`"):
        client.load_model("densenet_onnx", config='{"max_batch_size": 4}')
    with pytest.raises(InferenceServerException, match="files come from the server's own folder"):
        client.load_model(name, config="{}", files={"file:1/model.plan": b"a plan"})


def test_configurations_say_where_the_colours_of_pictures_are(client: Stock) -> None:
    formats = {
        model: config(client, model)["input"][0].get("format", "FORMAT_NONE")
        for model in ("densenet_onnx", "inception_onnx", "simple")
    }
    assert formats == {
        "densenet_onnx": "FORMAT_NCHW",
        "inception_onnx": "FORMAT_NHWC",
        "simple": "FORMAT_NONE",
    }


def test_tracing_that_is_off_is_told_and_not_changed(client: Stock) -> None:
    found = client.get_trace_settings()
    level = found["trace_level"] if client.is_http else found["settings"]["trace_level"]["value"]
    assert level == ["OFF"]
    with pytest.raises(InferenceServerException, match="trace is not served"):
        client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]})


def test_a_sequence_is_named_by_a_text_that_its_pipeline_reads(client: Stock) -> None:
    found: list[int] = []
    for place, value in enumerate((20, -11, 1)):
        one = client.tensor("INPUT", "INT32", np.array([[value]], np.int32))
        order = {"sequence_start": place == 0, "sequence_end": place == 2}
        answer = client.infer("simple_string_dyna_sequence", [one], sequence_id="1002", **order)
        found.append(int(answer.as_numpy("OUTPUT")[0, 0]))
    assert found == [20, 9, 1012]


@pytest.fixture
def repeat(server: Server) -> Iterator[Any]:
    """Asks `repeat_int32` for numbers with outputs by name; the answers wait in a queue."""
    module: Any = tritonclient.grpc
    found: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
    with module.InferenceServerClient(str(server.addresses.grpc)) as triton:

        def take(result: Any, error: Any) -> None:
            found.put((result, error))

        triton.start_stream(take)

        def ask(*outputs: Any) -> SimpleQueue[tuple[Any, Any]]:
            given = (("IN", [7, 8, 9], "INT32"), ("DELAY", [0, 0, 0], "UINT32"))
            tensors: list[Any] = []
            for name, values, datatype in (*given, ("WAIT", [0], "UINT32")):
                tensors.append(module.InferInput(name, [len(values)], datatype))
                dtype = np.int32 if datatype == "INT32" else np.uint32
                tensors[-1].set_data_from_numpy(np.array(values, dtype))
            triton.async_stream_infer("repeat_int32", tensors, outputs=list(outputs))
            return found

        yield ask


def wanted(name: str, **options: Any) -> Any:
    return tritonclient.grpc.InferRequestedOutput(name, **options)


def test_of_what_a_stream_emits_a_caller_has_what_it_names(repeat: Any) -> None:
    found = repeat(wanted("OUT"))
    for value in (7, 8, 9):
        result, error = found.get(timeout=20)
        assert error is None
        assert result.as_numpy("OUT").tolist() == [value]
        assert result.as_numpy("IDX") is None
    found = repeat(wanted("IDX"), wanted("OUT", class_count=1))
    for place, value in enumerate((7, 8, 9)):
        result, error = found.get(timeout=20)
        assert error is None
        assert [one.name for one in result.get_response().outputs] == ["IDX", "OUT"]
        assert result.as_numpy("IDX").tolist() == [place]
        assert result.as_numpy("OUT").tolist() == [b"%d:0" % value]


def test_what_a_stream_emits_is_not_put_where_the_last_was(repeat: Any) -> None:
    place = wanted("OUT")
    place.set_shared_memory("mine", 4)
    _, error = repeat(place).get(timeout=20)
    assert error is not None
    _, error = repeat(wanted("ALL")).get(timeout=20)
    assert "there is no output 'ALL'; the outputs are `OUT`, `IDX`" in error.message()


@pytest.mark.parametrize("kind", ["grpc", "grpc.aio"])
def test_a_channel_may_have_settings_of_its_own(server: Server, kind: str) -> None:
    module: Any = tritonclient.grpc
    kept_alive = module.KeepAliveOptions(10_000, 5_000, True, 0)
    settings = [("grpc.max_receive_message_length", 1 << 20), ("grpc.dns_enable_srv_queries", 1)]
    with stock(kind, server) as ordinary:
        expected = ordinary.infer("simple", pair(ordinary)).as_numpy("OUTPUT0")
        for options in ({"keepalive_options": kept_alive}, {"channel_args": settings}):
            at = str(server.addresses.grpc)
            with module.InferenceServerClient(at, **options) as triton:
                for coding in (None, "gzip", "deflate"):
                    answer = triton.infer("simple", pair(ordinary), compression_algorithm=coding)
                    assert np.array_equal(answer.as_numpy("OUTPUT0"), expected)


def test_probes_tell_in_json_too(http: httpx.Client) -> None:
    assert http.get("/v2/health/live").json() == {"live": True}
    assert http.get("/v2/health/ready").json() == {"ready": True}
    assert http.get("/v2/models/simple/ready").json() == {"ready": True}


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", INFER, "POST"),
        ("OPTIONS", INFER, "POST"),
        ("POST", "/v2", "GET, HEAD"),
        ("DELETE", "/v2/logging", "GET, HEAD, POST"),
    ],
)
def test_a_method_that_a_path_has_not_is_answered_with_those_it_has(
    http: httpx.Client, method: str, path: str, allowed: str
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed


def test_head_is_a_get_without_its_body(http: httpx.Client) -> None:
    got, head = http.get("/v2"), http.head("/v2")
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["content-length"] == str(len(got.content))


def test_bodies_come_in_pieces_and_compressed_with_either_coding(http: httpx.Client) -> None:
    body = json.dumps(BODY).encode()
    pieces = http.post(INFER, content=iter([body[:10], body[10:]]))
    assert pieces.json()["outputs"][0]["data"] == [1, 2, 3, 4]
    for coding, bits in (("gzip", 31), ("deflate", 15)):
        packer = zlib.compressobj(wbits=bits)
        packed = packer.compress(body) + packer.flush()
        answer = http.post(INFER, content=packed, headers={"content-encoding": coding})
        assert answer.json()["outputs"][0]["data"] == [1, 2, 3, 4]


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_large_answer_is_compressed_as_it_is_accepted(http: httpx.Client, coding: str) -> None:
    many = list(range(1000))
    one = {"name": "INPUT0", "datatype": "INT32", "shape": [1, 1000], "data": many}
    answer = http.post(INFER, json={"inputs": [one]}, headers={"accept-encoding": coding})
    assert answer.headers["content-encoding"] == coding
    assert answer.json()["outputs"][0]["data"] == many


def raw(server: Server, sent: bytes) -> bytes:
    """Send bytes, and return all that comes until the server closes."""
    host, _, port = str(server.addresses.http).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as line:
        line.sendall(sent)
        found = b""
        while piece := line.recv(65536):
            found += piece
    return found


def test_http_1_0_and_who_waits_to_be_told_to_go_on_are_answered(server: Server) -> None:
    body = json.dumps(BODY).encode()
    length = b"content-length: %d\r\n" % len(body)
    old = raw(server, b"POST %b HTTP/1.0\r\n%b\r\n%b" % (INFER.encode(), length, body))
    assert old.split(b"\r\n", 1)[0].endswith(b"200 OK")
    assert b'"data":[1,2,3,4]' in old
    start = b"POST %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n" % INFER.encode()
    waits = raw(server, start + length + b"expect: 100-continue\r\n\r\n" + body)
    assert b'"data":[1,2,3,4]' in waits


def test_one_connection_serves_many_requests_whatever_became_of_the_last(server: Server) -> None:
    body = json.dumps(BODY).encode()
    good = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n%%b\r\n%b"
    one = good % (INFER.encode(), len(body), body)
    wrong = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{]" % INFER.encode()
    found = raw(server, one % b"" + wrong + one % b"connection: close\r\n")
    assert [found.count(b"HTTP/1.1 " + status) for status in (b"200", b"400")] == [2, 1]
