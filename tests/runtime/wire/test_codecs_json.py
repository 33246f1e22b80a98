"""JSON and what may stand behind it in a body, without a server."""

import json

import msgspec
import numpy as np
import pytest

from headrace.runtime.protocols.deliveries import Deliveries
from headrace.runtime.protocols.json_codec import decode_body, encode_body
from headrace.runtime.request import RequestError
from tests.runtime.wire.coding import LIMITS, decode_json, inputs_of, json_input
from tests.runtime.wire.plans import toy_model


@pytest.mark.parametrize("data", [[[1, 2, 3], [4, 5, 6], [7, 8, 9]], [1, 2, 3, 4, 5, 6, 7, 8, 9]])
def test_json_data_may_be_nested_or_flat(data: object) -> None:
    model = toy_model("matrix")
    request = decode_json(model, {"inputs": [json_input("x0", "FP32", [3, 3], data)]})
    assert inputs_of(request)["x0"].tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


@pytest.mark.parametrize(
    ("datatype", "model", "data"),
    [
        ("FP32", "echo_f32", ["a"]),
        ("FP32", "echo_f32", [True]),
        ("FP32", "echo_f32", [1e300]),
        ("FP32", "echo_f32", [None]),
        ("FP32", "echo_f32", {"a": 1}),
        ("FP32", "echo_f32", 1.0),
        ("FP32", "echo_f32", [1.0, 2.0]),
        ("FP32", "echo_f32", [[[[[[[[[[1]]]]]]]]]]),
        ("INT8", "echo_i8", [128]),
        ("INT8", "echo_i8", [1.5]),
        ("UINT8", "echo_u8", [-1]),
        ("INT64", "echo_i64", [2**64]),
        ("BOOL", "echo_bool", [2]),
        ("BYTES", "echo_string", [1]),
    ],
)
def test_json_data_that_is_not_the_datatype_is_refused(
    datatype: str, model: str, data: object
) -> None:
    content = json.dumps({"inputs": [json_input("x0", datatype, [1], data)]}).encode()
    with pytest.raises(RequestError, match="`x0`"):
        decode_body(toy_model(model), content, None, LIMITS, lambda: 0.0)


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity"])
def test_b28_tokens_that_are_not_json_are_refused(token: str) -> None:
    body = f'{{"inputs":[{{"name":"x0","datatype":"FP32","shape":[1],"data":[{token}]}}]}}'
    with pytest.raises(RequestError):
        decode_body(toy_model("echo_f32"), body.encode(), None, LIMITS, lambda: 0.0)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_b28_an_answer_that_json_cannot_say_is_refused_and_binary_says_it(value: float) -> None:
    model = toy_model("echo_f32")
    results = {"y0": np.array([value], np.float32)}
    with pytest.raises(RequestError, match=r"`y0` holds NaN or infinity.*`binary_data`"):
        encode_body(model, "", results, Deliveries(False))
    body, length = encode_body(model, "", results, Deliveries(True))
    assert body[length:] == np.float32(value).tobytes()


def test_b28_bytes_that_json_cannot_say_are_refused() -> None:
    results = {"y0": b"\xff"}
    with pytest.raises(RequestError, match="no UTF-8"):
        encode_body(toy_model("scalar_bytes"), "", results, Deliveries(False))


def test_outputs_are_binary_as_asked_one_by_one_or_all_together() -> None:
    model = toy_model("two")
    inputs = [json_input("x0", "FP32", [1], [1]), json_input("x1", "BYTES", [1], ["a"])]
    outputs = [{"name": "y1", "parameters": {"binary_data": False}}, {"name": "y0"}]
    content = {
        "inputs": inputs,
        "outputs": outputs,
        "parameters": {"binary_data_output": True},
    }
    request, asked = decode_body(model, msgspec.json.encode(content), None, LIMITS, lambda: 0.0)
    assert request.outputs == ("y1", "y0")
    assert asked.of("y0", "y0").binary
    assert not asked.of("y1", "y1").binary


def test_a_body_without_json_is_the_only_input() -> None:
    request, _ = decode_body(toy_model("scalar_bytes"), b"\xff\xd8", 0, LIMITS, lambda: 0.0)
    assert request.inputs == {"x0": b"\xff\xd8"}
    request, _ = decode_body(
        toy_model("echo_f32"), np.zeros(3, "<f4").tobytes(), 0, LIMITS, lambda: 0.0
    )
    assert inputs_of(request)["x0"].shape == (3,)
    with pytest.raises(RequestError, match="needs one input"):
        decode_body(toy_model("two"), b"", 0, LIMITS, lambda: 0.0)
    with pytest.raises(RequestError, match="3 bytes"):
        decode_body(toy_model("echo_f32"), b"abc", 0, LIMITS, lambda: 0.0)


@pytest.mark.parametrize(
    ("size", "sent", "length", "complaint"),
    [
        (8, 4, None, "8, but 4 bytes are left"),
        (4, 5, None, "1 bytes of the body belong to no input"),
        (3, 3, None, "are 4 bytes, but 3 were sent"),
        (4, 4, 10_000, "Inference-Header-Content-Length is 10000"),
        (-1, 4, None, "no infer request"),
    ],
)
def test_binary_sizes_that_do_not_add_up_are_refused(
    size: int, sent: int, length: int | None, complaint: str
) -> None:
    parameters = {"binary_data_size": size}
    tensor = {"name": "x0", "datatype": "FP32", "shape": [1], "parameters": parameters}
    head = msgspec.json.encode({"inputs": [tensor]})
    with pytest.raises(RequestError, match=complaint):
        decode_body(
            toy_model("echo_f32"), head + bytes(sent), length or len(head), LIMITS, lambda: 0.0
        )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"inputs": 3}',
        b'{"inputs": [{}]}',
        b"\xff",
        b"[" * 100_000,
        b'{"inputs":[{"name":"x0","datatype":"FP32","shape":[1],"data":' + b"[" * 100_000,
        b'{"inputs":' + b'{"a":' * 100_000,
    ],
)
def test_b29_bodies_that_are_no_request_are_refused(body: bytes) -> None:
    with pytest.raises(RequestError):
        decode_body(toy_model("echo_f32"), body, None, LIMITS, lambda: 0.0)
