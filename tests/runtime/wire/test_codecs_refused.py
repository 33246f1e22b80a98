"""Requests whose names, sizes or parameters do not fit, refused in both encodings."""

from contextlib import nullcontext

import msgspec
import pytest

from headrace.runtime.protocols.json_codec import decode_body
from headrace.runtime.protocols.limits import Limits
from headrace.runtime.protocols.protobuf_codec import decode_request
from headrace.runtime.request import Code, Fault, RequestError
from tests.runtime.wire.coding import decode, decode_json, json_input, message
from tests.runtime.wire.plans import toy_model


@pytest.mark.parametrize(
    ("shape", "complaint"),
    [
        ([-1], "negative dimension"),
        ([-5], "negative dimension"),
        ([2**63 - 1], "too many elements"),
        ([4, 4], r"wants shape \[-1\], got \[4, 4\]"),
        ([1] * 100, "wants shape"),
    ],
)
def test_b04_bad_dimensions_are_refused_by_name(shape: list[int], complaint: str) -> None:
    model = toy_model("echo_f32")
    with pytest.raises(RequestError, match=complaint) as error:
        decode(model, message(model, ("x0", "FP32", shape, bytes(64))))
    assert "`x0`" in str(error.value)
    with pytest.raises(RequestError, match=complaint):
        decode_json(model, {"inputs": [json_input("x0", "FP32", shape, [0.0])]})


def test_b04_dimensions_whose_product_overflows_are_refused() -> None:
    model = toy_model("matrix")
    for shape in ([2**32, 2**33], [0, 2**62]):
        with pytest.raises(RequestError, match="too many elements"):
            decode(model, message(model, ("x0", "FP32", shape, b"")))


@pytest.mark.parametrize("size", [32, 128])
def test_b05_bytes_that_are_not_the_shape_are_refused(size: int) -> None:
    model = toy_model("echo_f32")
    with pytest.raises(RequestError, match=f"`x0`: 16 elements of FP32 are 64 bytes, but {size}"):
        decode(model, message(model, ("x0", "FP32", [16], bytes(size))))


def test_b12_unknown_names_are_answered_with_the_valid_ones() -> None:
    model = toy_model("two")
    with pytest.raises(RequestError, match="no input 'zz'; the inputs are `x0`, `x1`"):
        decode(model, message(model, ("zz", "FP32", [1], bytes(4))))
    asked = message(model, ("x0", "FP32", [1], bytes(4)))
    asked.outputs.add(name="zz")
    with pytest.raises(RequestError, match="no output 'zz'; the outputs are `y0`, `y1`"):
        decode(model, asked)


def test_an_input_given_twice_is_refused() -> None:
    model = toy_model("echo_f32")
    tensor = ("x0", "FP32", [1], bytes(4))
    with pytest.raises(RequestError, match="given twice"):
        decode(model, message(model, tensor, tensor))


def test_a_wrong_datatype_is_refused() -> None:
    model = toy_model("echo_f32")
    with pytest.raises(RequestError, match="wants FP32, got 'INT32'"):
        decode(model, message(model, ("x0", "INT32", [1], bytes(4))))


def test_timeout_and_priority_reach_the_request_and_the_shorter_time_counts() -> None:
    model = toy_model("echo_f32")
    asked = message(model, ("x0", "FP32", [1], bytes(4)))
    asked.parameters["timeout"].int64_param = 250_000
    asked.parameters["priority"].uint64_param = 2
    asked.parameters["user"].string_param = "me"
    request = decode(model, asked, remaining=9.0)
    assert (request.deadline, request.priority) == (10.25, 2)
    assert request.parameters == {"user": "me"}
    assert decode(model, asked, remaining=0.125).deadline == 10.125


@pytest.mark.parametrize("name", ["classification", "shared_memory_byte_size"])
def test_parameters_of_tensors_are_refused_on_the_request(name: str) -> None:
    model = toy_model("echo_f32")
    asked = message(model, ("x0", "FP32", [1], bytes(4)))
    asked.parameters[name].int64_param = 1
    with pytest.raises(RequestError, match="belongs to an input or output"):
        decode(model, asked)
    content = {"inputs": [json_input("x0", "FP32", [1], [1])], "parameters": {name: 1}}
    with pytest.raises(RequestError, match="belongs to an input or output"):
        decode_json(model, content)


def test_parameters_that_are_too_large_together_are_refused_in_both_encodings() -> None:
    model, limits = toy_model("echo_f32"), Limits(arguments=100)
    for size, fits in ((40, True), (60, False)):
        said = dict.fromkeys(("a", "b"), "x" * size)
        asked = message(model, ("x0", "FP32", [1], bytes(4)))
        for name, value in said.items():
            asked.parameters[name].string_param = value
        content = {"inputs": [json_input("x0", "FP32", [1], [1])], "parameters": said}
        body = msgspec.json.encode(content)
        with nullcontext() if fits else pytest.raises(RequestError, match="more than 100 bytes"):
            decode_request(model, asked, limits, 10.0, None)
        with nullcontext() if fits else pytest.raises(RequestError, match="more than 100 bytes"):
            decode_body(model, body, None, limits, lambda: 0.0)


def test_shared_memory_is_refused_in_both_encodings_where_there_is_none() -> None:
    model = toy_model("echo_f32")
    place = {"shared_memory_region": "r", "shared_memory_byte_size": 4}
    given = {"name": "x0", "datatype": "FP32", "shape": [1], "parameters": place}
    outputs = [{"name": "y0", "parameters": place}]
    sent = json_input("x0", "FP32", [1], [1])
    for content in ({"inputs": [given]}, {"inputs": [sent], "outputs": outputs}):
        with pytest.raises(Fault, match="needs the extension system_shared_memory") as error:
            decode_json(model, content)
        assert error.value.code is Code.UNSUPPORTED
    for where in ("inputs", "outputs"):
        asked = message(model, ("x0", "FP32", [1], bytes(4)))
        tensor = asked.inputs[0] if where == "inputs" else asked.outputs.add(name="y0")
        tensor.parameters["shared_memory_region"].string_param = "r"
        tensor.parameters["shared_memory_byte_size"].int64_param = 4
        with pytest.raises(Fault, match="needs the extension system_shared_memory"):
            decode(model, asked)


def test_too_many_raw_entries_are_refused() -> None:
    model = toy_model("echo_f32")
    asked = message(model, ("x0", "FP32", [1], bytes(4)))
    asked.raw_input_contents.append(b"more")
    with pytest.raises(RequestError, match="1 inputs, but raw_input_contents has 2"):
        decode(model, asked)
