"""Servers of another kind, or broken ones: each answer is a result or a Fault that says what is
wrong with it, and never an error of ours."""

import json
import struct
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, TypeAlias

import grpc
import pytest

from headrace import Client, Code, Fault
from headrace.client import NEVER
from headrace.runtime.protocols.messages import ModelInferResponse, message

LENGTH = "Inference-Header-Content-Length"
NUMBERS = struct.pack("<2f", 1, 2)
CONFIG = {
    "name": "m",
    "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [2]}],
    "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [2]}],
}


Answer: TypeAlias = tuple[int, dict[str, str], bytes]


class Other:
    """A server that answers as it is told: a status, headers and a body for each verb."""

    def __init__(self) -> None:
        self.config: Answer = (200, {}, b"")
        self.answer: Answer = self.config
        other = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.give(*other.config)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.give(*other.answer)

            def give(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | {**headers}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Tell nobody."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture(scope="module")
def other() -> Iterator[Other]:
    made = Other()
    thread = Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def plain(value: object) -> Answer:
    return 200, {}, json.dumps(value).encode()


def tensors(*outputs: object, length: str = "") -> Answer:
    head = json.dumps({"outputs": outputs}).encode()
    return 200, {LENGTH: length or str(len(head))}, head + NUMBERS


def output(**changed: object) -> dict[str, object]:
    size = {"binary_data_size": changed.pop("size", 8)}
    return {"name": "y", "datatype": "FP32", "shape": [2], "parameters": size, **changed}


BROKEN = "speaks another protocol, or is broken"
UNLIKE = "the answer is none of `m`: "
ANSWERS = {
    "another datatype": (tensors(output(datatype="INT32")), UNLIKE + "output `y`.*wants FP32"),
    "a datatype of nobody": (tensors(output(datatype=5)), BROKEN),
    "another name": (tensors(output(name="z")), UNLIKE + "there is no output 'z'; the outputs are"),
    "no name": (tensors({"parameters": {"binary_data_size": 8}}), BROKEN),
    "nothing": (tensors(), UNLIKE + "it has no output `y`"),
    "other sizes": (tensors(output(shape=[1])), UNLIKE),
    "another shape": (tensors(output(shape=[1, 2])), UNLIKE + "output `y`.*wants shape"),
    "a shape of words": (tensors(output(shape="ab")), BROKEN),
    "no shape": (tensors(output(shape=None)), BROKEN),
    "more bytes than came": (tensors(output(size=999)), BROKEN + ".*999 bytes, of which 8"),
    "fewer bytes than none": (tensors(output(size=-1)), BROKEN),
    "a size of words": (tensors(output(size="8")), BROKEN),
    "twice": (tensors(output(size=4), output(size=4)), UNLIKE + "output"),
    "outputs that are none": (plain({"outputs": 3}), BROKEN),
    "outputs of numbers": (plain({"outputs": [3]}), BROKEN),
    "no outputs": (plain({}), BROKEN),
    "a list": (plain([1]), BROKEN),
    "null": (plain(None), BROKEN),
    "a length of words": (tensors(output(), length="abc"), "HTTP 200 OK, and no JSON"),
    "a length below none": (tensors(output(), length="-4"), "HTTP 200 OK, and no JSON"),
    "a page": ((502, {}, b"<html>Bad gateway"), "HTTP 502 Bad Gateway, and no JSON"),
    "an error that is none": ((400, {}, b'{"error": null}'), "HTTP 400 Bad Request, and no JSON"),
    "no text": ((200, {}, b"\xff\xfe"), "HTTP 200 OK, and no JSON"),
    "a depth without end": ((200, {}, b"[" * 100_000), "HTTP 200 OK, and no JSON"),
    "an eternity": ((503, {"Retry-After": "9" * 400}, b'{"error": "later"}'), "^later$"),
    "an endless fault": (
        (503, {"headrace-fault": '{"retry_after": Infinity}'}, b'{"error": "later"}'),
        "^later$",
    ),
    "a wait of words": (
        (503, {"headrace-fault": '{"retry_after": "x"}'}, b'{"error": "later"}'),
        "^later$",
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_that_is_none_is_the_servers_fault(case: str, other: Other) -> None:
    other.config, (other.answer, said) = plain(CONFIG), ANSWERS[case]
    with Client(other.address, retries=NEVER) as client, pytest.raises(Fault, match=said) as error:
        client.m(x=[1, 2])
    assert error.value.retry_after is None


CONFIGS = {
    "a list": [],
    "null": None,
    "no name of an input": {**CONFIG, "input": [{"data_type": "TYPE_FP32", "dims": [2]}]},
    "no datatype": {**CONFIG, "input": [{"name": "x", "dims": [2]}]},
    "a datatype of nobody": {**CONFIG, "input": [{"name": "x", "data_type": "TYPE_X", "dims": []}]},
    "dims of words": {
        **CONFIG,
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": "ab"}],
    },
    "no list of inputs": {**CONFIG, "input": 3},
    "a batch of words": {**CONFIG, "max_batch_size": "many"},
    "a list of parameters": {**CONFIG, "parameters": []},
    "a signature of nobody": {
        **CONFIG,
        "parameters": {"headrace.signature": {"string_value": "{"}},
    },
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_configuration_that_is_none_is_the_servers_fault(case: str, other: Other) -> None:
    other.config = plain(CONFIGS[case])
    with Client(other.address, retries=NEVER) as client, pytest.raises(Fault) as error:
        client.m(x=[1, 2])
    assert error.value.code is Code.UNSUPPORTED


@pytest.mark.parametrize("index", [{}, [1], None, [{}], [{"name": 3}]], ids=str)
def test_an_index_that_is_none_is_the_servers_fault(index: object, other: Other) -> None:
    other.answer = plain(index)
    with Client(other.address, retries=NEVER) as client, pytest.raises(Fault, match=BROKEN):
        client.pipelines()


class Methods(grpc.GenericRpcHandler):
    """Answers with the bytes it is told."""

    def __init__(self) -> None:
        self.answers = dict[str, bytes]()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # Any: as grpcio's
        answer = self.answers.get(handler_call_details.method.rpartition("/")[2])
        return None if answer is None else grpc.unary_unary_rpc_method_handler(lambda *_: answer)


def described(datatype: int) -> bytes:
    made = message("ModelConfigResponse")()
    made.config.input.add(name="x", data_type=datatype, dims=[2])
    made.config.output.add(name="y", data_type=11, dims=[2])
    return made.SerializeToString()


def answered(*shape: int, raw: bytes = NUMBERS) -> bytes:
    made = ModelInferResponse(raw_output_contents=[raw])
    made.outputs.add(name="y", datatype="FP32", shape=shape)
    return made.SerializeToString()


@pytest.mark.parametrize(
    ("config", "answer", "said"),
    [
        (b"\xff", b"", BROKEN),
        (described(0), b"", BROKEN),
        (described(99), b"", BROKEN),
        (described(11), b"\xff", BROKEN),
        (described(11), b"", "it has no output `y`"),
        (described(11), answered(2, raw=b"abc"), "2 elements of FP32 are 8 bytes, but 3 were sent"),
        (described(11), answered(-2), "negative"),
        (described(11), answered(1 << 40, 1 << 40), "wants shape"),
        (described(11), answered(1, raw=b"abcd"), r"is \[2\], and came as \[1\]"),
    ],
)
def test_over_grpc_too(config: bytes, answer: bytes, said: str) -> None:
    methods = Methods()
    methods.answers = {"ModelConfig": config, "ModelInfer": answer}
    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads, handlers=[methods])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with (
            Client(f"grpc://127.0.0.1:{port}", retries=NEVER) as client,
            pytest.raises(Fault, match=said) as error,
        ):
            client.m(x=[1, 2])
        assert error.value.code is Code.UNSUPPORTED
        server.stop(None).wait()
