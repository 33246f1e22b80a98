"""HTTP as bytes: what a client can get wrong, and what only a raw client sees."""

import gzip
import json
import socket
import zlib
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import httpx
import numpy as np
import pytest

from headrace.runtime.protocols.limits import Limits
from headrace.runtime.server import Server
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import Gate, Start, eventually


@pytest.fixture(scope="module")
def http(one_server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://{one_server.addresses.http}", timeout=10) as client:
        yield client


def numbers(data: object, shape: list[int], **more: object) -> dict[str, object]:
    tensor = {"name": "x0", "datatype": "FP32", "shape": shape, "data": data}
    return {"inputs": [tensor], **more}


def assert_serves(http: httpx.Client) -> None:
    """A good request is served by the same process."""
    answer = http.post("/v2/models/echo_f32/infer", json=numbers([1, 2], [2]))
    assert answer.status_code == 200
    assert answer.json()["outputs"][0]["data"] == [1, 2]


def test_an_answer_is_json_with_the_id_and_the_version(http: httpx.Client) -> None:
    body = numbers([1.5, -0.1], [2], id="k 9")
    answer = http.post("/v2/models/echo_f32/versions/1/infer", json=body)
    assert answer.headers["content-type"] == "application/json"
    output = {
        "name": "y0",
        "datatype": "FP32",
        "shape": [2],
        "data": [1.5, float(np.float32(-0.1))],
    }
    assert answer.json() == {
        "model_name": "echo_f32",
        "model_version": "1",
        "id": "k 9",
        "outputs": [output],
    }


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v2", 200),
        ("/v2/health/live", 200),
        ("/v2/health/ready", 200),
        ("/v2/models/two", 200),
        ("/v2/models/two/versions/1", 200),
        ("/v2/models/two/versions/1/ready", 200),
        ("/v2/models/two/config", 200),
        ("/v2/models/two/versions/9", 404),
        ("/v2/models/nothing", 404),
        ("/v2/models/nothing/ready", 404),
        ("/v2/models/two/stats", 200),
        ("/v2/models/nothing/stats", 404),
        ("/v2/repository/index", 405),
        ("/v2/systemsharedmemory/status", 403),
        ("/v2/cudasharedmemory/status", 403),
        ("/v2/logging", 403),
        ("/v2/trace/setting", 403),
        ("/v2/nothing", 404),
    ],
)
def test_a_route_has_its_status_and_errors_are_json(
    http: httpx.Client, path: str, status: int
) -> None:
    answer = http.get(path)
    assert answer.status_code == status
    if status >= 400:
        assert isinstance(answer.json()["error"], str)


def test_the_configuration_names_types_that_dtypes_cannot_tell(http: httpx.Client) -> None:
    config = http.get("/v2/models/two/config").json()
    told = json.loads(config["parameters"]["headrace.signature"]["string_value"])
    assert told["inputs"] == [["x0", "f32[N]"], ["x1", "string"]]
    optional = http.get("/v2/models/optional/config").json()["input"]
    assert [tensor.get("optional", False) for tensor in optional] == [False, True]


@pytest.mark.parametrize(
    "name",
    ["..", "%2e%2e%2fetc", "a%0aERROR forged", "a%1b[31m", "a%00", "x" * 1000, "%2fetc%2fpasswd"],
)
def test_b29_strange_names_are_unknown_models_and_are_shown_escaped(
    http: httpx.Client, name: str
) -> None:
    answer = http.post(f"/v2/models/{name}/infer", json=numbers([1], [1]))
    assert answer.status_code in (404, 405)
    assert answer.text.isprintable()
    assert len(answer.text) < 500
    assert_serves(http)


@pytest.mark.parametrize("shape", [[-1], [-5], [2**62, 2**62], [2**70], [0, 2**62], [1e3], "x"])
def test_b04_a_bad_shape_is_400_and_the_next_request_works(
    http: httpx.Client, shape: object
) -> None:
    body = json.dumps(numbers([1.0], shape))  # type: ignore[arg-type]
    answer = http.post("/v2/models/echo_f32/infer", content=body)
    assert answer.status_code == 400
    assert_serves(http)


@pytest.mark.parametrize("size", [32, 128])
def test_b05_bytes_that_are_not_the_shape_are_400(http: httpx.Client, size: int) -> None:
    tensor = {"name": "x0", "datatype": "FP32", "shape": [16]}
    head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": size}}]}).encode()
    answer = http.post(
        "/v2/models/echo_f32/infer",
        content=head + bytes(size),
        headers={"Inference-Header-Content-Length": str(len(head))},
    )
    assert answer.status_code == 400
    assert "`x0`" in answer.json()["error"]
    assert_serves(http)


def test_b12_an_unknown_output_is_400_with_the_valid_names(http: httpx.Client) -> None:
    body = numbers([1], [1], outputs=[{"name": "zz"}])
    answer = http.post("/v2/models/echo_f32/infer", json=body)
    assert answer.status_code == 400
    assert "'zz'" in answer.json()["error"]
    assert "`y0`" in answer.json()["error"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[" * 100_000, b'{"inputs":' + b"[" * 100_000, b"\xff\xfe", b'{"inputs":[]}'],
    ids=["nothing", "cut", "deep", "deep inputs", "no text", "no inputs"],
)
def test_b29_a_body_that_is_no_request_is_400(http: httpx.Client, body: bytes) -> None:
    answer = http.post("/v2/models/echo_f32/infer", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]
    assert_serves(http)


@pytest.mark.parametrize("length", ["-1", "x", "9" * 30, "5.0", "1000000"])
def test_b29_a_wrong_header_length_is_400(http: httpx.Client, length: str) -> None:
    answer = http.post(
        "/v2/models/echo_f32/infer",
        json=numbers([1], [1]),
        headers={"Inference-Header-Content-Length": length},
    )
    assert answer.status_code == 400
    assert_serves(http)


def test_an_image_may_be_sent_without_json(http: httpx.Client) -> None:
    answer = http.post(
        "/v2/models/scalar_bytes/infer",
        content=b"\xff\xd8 no text",
        headers={"Inference-Header-Content-Length": "0"},
    )
    assert answer.status_code == 200
    length = int(answer.headers["inference-header-content-length"])
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.content[length:] == b"\x0a\0\0\0\xff\xd8 no text"


def test_b28_an_answer_that_json_cannot_say_is_a_documented_400(http: httpx.Client) -> None:
    tensor = {"name": "x0", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}
    head = json.dumps({"inputs": [tensor]}).encode()
    answer = http.post(
        "/v2/models/echo_f32/infer",
        content=head + np.float32(np.nan).tobytes(),
        headers={"Inference-Header-Content-Length": str(len(head))},
    )
    assert answer.status_code == 400
    assert "binary_data" in answer.json()["error"]


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_b28_the_content_coding_is_the_one_asked_for(http: httpx.Client, coding: str) -> None:
    body = json.dumps(numbers([0.5] * 1000, [1000])).encode()
    packed = gzip.compress(body) if coding == "gzip" else zlib.compress(body)
    answer = http.post(
        "/v2/models/echo_f32/infer",
        content=packed,
        headers={"Content-Encoding": coding, "Accept-Encoding": coding},
    )
    assert answer.headers["content-encoding"] == coding
    assert answer.json()["outputs"][0]["data"] == [0.5] * 1000
    plain = http.post(
        "/v2/models/echo_f32/infer", content=body, headers={"Accept-Encoding": "identity"}
    )
    assert "content-encoding" not in plain.headers


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", b"no gzip"),
        ("gzip", gzip.compress(b"{}" * 1000)[:20]),
        ("deflate", b"no deflate"),
        ("br", b"x"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"{}"))),
    ],
    ids=["no gzip", "half of it", "no deflate", "unknown", "twice"],
)
def test_b28_a_body_that_is_not_in_its_coding_is_400(
    http: httpx.Client, coding: str, body: bytes
) -> None:
    answer = http.post(
        "/v2/models/echo_f32/infer", content=body, headers={"Content-Encoding": coding}
    )
    assert answer.status_code == 400
    assert_serves(http)


def resident_bytes() -> int:
    """The most memory that this process, which is also the server's, has had."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def bomb(inflated: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = bytes(1 << 20)
    parts = [packer.compress(piece) for _ in range(inflated >> 20)]
    return b"".join([*parts, packer.flush()])


def test_b29_a_bomb_is_413_and_takes_little_memory(http: httpx.Client) -> None:
    body = bomb(160 << 20)
    before = resident_bytes()
    answer = http.post(
        "/v2/models/echo_f32/infer", content=body, headers={"Content-Encoding": "gzip"}
    )
    assert answer.status_code == 413
    assert resident_bytes() - before < 64 << 20
    assert_serves(http)


@pytest.mark.slow
def test_b29_a_body_over_the_limit_is_413_whether_its_length_is_told_or_not(start: Start) -> None:
    server = start(limits=Limits(body=100_000))
    with httpx.Client(base_url=f"http://{server.addresses.http}") as http:
        for content in (bytes(200_000), iter([bytes(50_000)] * 4)):
            answer = http.post("/v2/models/echo_f32/infer", content=content)
            assert answer.status_code == 413
        assert_serves(http)


def test_b29_what_comes_of_a_body_after_its_refusal_is_no_head(start: Start) -> None:
    server = start(limits=Limits(body=100_000))
    first, rest = bytes(100_001), bytes(250_000)  # the rest is more than a head may have
    path = "/v2/models/echo_f32/infer"
    with closing(HTTPConnection(server.addresses.http or "")) as http:
        for _ in range(5):
            http.putrequest("POST", path)
            http.putheader("content-length", str(len(first + rest)))
            http.endheaders(first)
            refused = http.getresponse()
            assert refused.status == 413
            refused.read()
            http.send(rest)
        http.request("POST", path, json.dumps(numbers([0.25], [1])))
        assert http.getresponse().status == 200


def test_b29_many_inputs_whose_sum_is_over_the_limit_are_413(start: Start) -> None:
    server = start(limits=Limits(body=100_000))
    tensor = {"name": "x0", "datatype": "FP32", "shape": [1000], "data": [0.0] * 1000}
    with httpx.Client(base_url=f"http://{server.addresses.http}") as http:
        answer = http.post("/v2/models/echo_f32/infer", json={"inputs": [tensor] * 50})
        assert answer.status_code == 413


def test_a_body_in_many_small_chunks_is_read_whole(http: httpx.Client) -> None:
    body = json.dumps(numbers([0.25] * 2000, [2000])).encode()
    pieces = (body[i : i + 7] for i in range(0, len(body), 7))
    answer = http.post("/v2/models/echo_f32/infer", content=pieces)
    assert answer.json()["outputs"][0]["data"] == [0.25] * 2000


def test_an_error_of_a_stage_is_500_and_says_where(http: httpx.Client) -> None:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["marker"]}
    answer = http.post("/v2/models/fail/infer", json={"inputs": [tensor], "id": "a\nb"})
    assert answer.status_code == 500
    assert "stage `fail`" in answer.json()["error"]
    assert r"[request id: 'a\nb']" in answer.json()["error"]


def send_for_ever(connection: socket.socket, line: bytes) -> None:
    while True:
        connection.sendall(line)


@pytest.mark.parametrize("line", [b"X-A: " + b"a" * 1000 + b"\r\n", b"a" * 1000])
def test_b29_a_head_that_does_not_end_is_400_and_takes_little_memory(
    http: httpx.Client, one_server: Server, line: bytes
) -> None:
    host, _, port = str(one_server.addresses.http).rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        before = resident_bytes()
        connection.sendall(b"GET /v2 HTTP/1.1\r\nX-B: ")
        with pytest.raises(OSError):  # the server closes while there is more to send
            send_for_ever(connection, line)
    assert resident_bytes() - before < 16 << 20
    assert_serves(http)


def wait_request(gate: Gate) -> dict[str, object]:
    path = {"name": "path", "datatype": "BYTES", "shape": [1], "data": [str(gate.path)]}
    return {"inputs": [path]}


def raw_post(server: Server, model: str, body: object) -> socket.socket:
    """Send a request and keep the connection, so that it can be broken off."""
    host, _, port = str(server.addresses.http).rpartition(":")
    connection = socket.create_connection((host, int(port)))
    content = json.dumps(body)
    connection.sendall(
        f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Content-Length: {len(content)}\r\n\r\n{content}".encode()
    )
    return connection


def test_b23_a_client_that_goes_away_takes_its_queued_request_along(
    start: Start, gates: tuple[Gate, Gate]
) -> None:
    server = start(Carrier.NATIVE)
    first, second = gates
    running = raw_post(server, "wait", wait_request(first))
    first.entered()
    queued = raw_post(server, "wait", wait_request(second))
    eventually(lambda: pending(server) == 1)
    queued.close()
    eventually(lambda: pending(server) == 0)
    first.open(b"the first")
    with running, running.makefile("rb") as answer:
        assert b"the first" in answer.read()
    assert second.was_never_entered()


def pending(server: Server) -> int:
    text = httpx.get(f"http://{server.addresses.metrics}/metrics").text
    (line,) = [
        line
        for line in text.splitlines()
        if line.startswith('nv_inference_pending_request_count{model="wait"')
    ]
    return int(float(line.split()[-1]))
