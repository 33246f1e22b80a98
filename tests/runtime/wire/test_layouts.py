"""JSON that is known is read as the first time, and what is kept of it is bounded."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from headrace.runtime.protocols.deliveries import Deliveries
from headrace.runtime.protocols.json_codec import decode_body, encode_body
from headrace.runtime.protocols.layouts import LONGEST
from headrace.runtime.protocols.limits import Limits
from headrace.runtime.protocols.models import Model
from headrace.runtime.request import Fault, Remarked
from tests.runtime.wire.plans import toy_model

Members = Mapping[str, Any]  # Any: JSON


def told(model: Model, head: bytes, raw: bytes, longer: int = 0) -> str:
    """Return all that a body is read as, or why it is refused."""
    try:
        request, deliveries = decode_body(
            model, head + raw, len(head) + longer, Limits(), lambda: 5.0
        )
    except Fault as fault:
        return str(fault)
    inputs = {
        name: (value.dtype, value.shape, value.tobytes(), value.flags.writeable)
        if isinstance(value, np.ndarray)
        else value
        for name, value in request.inputs.items()
    }
    sent = [deliveries.of(one, one) for one in model.outputs]
    return repr((request._replace(inputs=inputs), sent))  # pyright: ignore[reportArgumentType] to be shown


def tensor(name: str = "x0", shape: tuple[int, ...] = (2,), size: int = 8) -> Members:
    sized = {"binary_data_size": size}
    return {"name": name, "datatype": "FP32", "shape": shape, "parameters": sized}


TEXT = {**tensor("x1", (1,), 5), "datatype": "BYTES"}
INLINE = {"name": "x0", "datatype": "FP32", "shape": (2,), "data": (1, 2)}
ALL = {"binary_data_output": True}
WANTED = {"name": "y0", "parameters": {"binary_data": True}}
UNSAID = {"name": "y0"}
BODIES: Mapping[str, tuple[str, Members]] = {
    "plain": ("echo_f32", {"inputs": [tensor()]}),
    "of one number": ("echo_f32", {"inputs": [tensor(shape=(1,), size=4)]}),
    "of none": ("echo_f32", {"inputs": [tensor(shape=(0,), size=0)]}),
    "of a rank that does not fit": ("echo_f32", {"inputs": [tensor(shape=(1, 2))]}),
    "all binary": ("echo_f32", {"inputs": [tensor()], "parameters": ALL}),
    "one binary": ("echo_f32", {"inputs": [tensor()], "outputs": [WANTED]}),
    "one of which nothing is said": ("echo_f32", {"inputs": [tensor()], "outputs": [UNSAID]}),
    "unsaid, all binary": (
        "echo_f32",
        {"inputs": [tensor()], "outputs": [UNSAID], "parameters": ALL},
    ),
    "one of classes": (
        "echo_f32",
        {"inputs": [tensor()], "outputs": [{"name": "y0", "parameters": {"classification": 1}}]},
    ),
    "one that is none": ("echo_f32", {"inputs": [tensor()], "outputs": [{"name": "z"}]}),
    "with an id": ("echo_f32", {"id": "a", "inputs": [tensor()]}),
    "with a parameter": ("echo_f32", {"inputs": [tensor()], "parameters": {"a": 1}}),
    "in a time": ("echo_f32", {"inputs": [tensor()], "parameters": {"timeout": 1000000}}),
    "in JSON": ("echo_f32", {"inputs": [INLINE]}),
    "two": ("two", {"inputs": [tensor(shape=(1,), size=4), TEXT]}),
    "another that is none": ("echo_f32", {"inputs": [tensor(), tensor("x9")]}),
    "twice": ("echo_f32", {"inputs": [tensor(), tensor()]}),
    "of two outputs": (
        "two",
        {
            "inputs": [tensor(shape=(1,), size=4), TEXT],
            "outputs": [WANTED, {"name": "y1", "parameters": {"binary_data": False}}],
        },
    ),
}
RAWS = (b"\0\0\x80\x3f\1\0\0\0a", b"\1\0\0\0\1\0\0\0", b"abcd", b"", b"\0\0\x80\x3f\1\0\0\0b")


@pytest.mark.parametrize("body", BODIES)
def test_json_that_is_known_is_read_as_the_first_time(body: str) -> None:
    name, members = BODIES[body]
    head, model = msgspec.json.encode(members), toy_model(name)
    for raw in RAWS * 2:
        for longer in (0, 1):
            assert told(model, head, raw, longer) == told(toy_model(name), head, raw, longer)


def test_what_says_something_of_one_request_is_not_kept() -> None:
    for body, (name, members) in BODIES.items():
        model = toy_model(name)
        for raw in RAWS:
            told(model, msgspec.json.encode(members), raw)
        kept = body in ("plain", "of one number", "of none", "all binary")
        kept = kept or body in ("one binary", "one of which nothing is said", "unsaid, all binary")
        assert len(model.layouts) == kept, body


def test_what_is_kept_of_json_is_bounded() -> None:
    model = toy_model("echo_f32")
    for number in range(1000):
        head = msgspec.json.encode({"inputs": [tensor()], "more": number})
        told(model, head, bytes(8))
        assert head in model.layouts
    assert len(model.layouts) == 64
    model = toy_model("echo_f32")
    head = msgspec.json.encode({"inputs": [tensor()], "more": "x" * LONGEST})
    assert told(model, head, bytes(8)) == told(toy_model("echo_f32"), head, bytes(8))
    large = msgspec.json.encode({"inputs": [tensor(shape=(1 << 14,), size=1 << 16)]})
    assert "float32" in told(model, large, bytes(1 << 16))
    assert not model.layouts
    for size in range(1000):
        encode_body(model, "", {"y0": np.zeros(size, np.float32)}, Deliveries(True))
    assert len(model.heads) == 64


def test_answers_in_known_shapes_are_written_as_the_first_time() -> None:
    model = toy_model("echo_f32")
    arrays = [np.full(size, value, np.float32) for size in (1, 2, 0, 1 << 15) for value in (1, 2)]
    results: list[Any] = [{"y0": array} for array in arrays]
    results += [{}, Remarked({"y0": arrays[0]}, {"a": 1}), {"y0": arrays[2][::-1]}]
    for outputs in results * 2:
        for request_id in ("", "a", ""):
            for deliveries in (Deliveries(True), Deliveries(False)):
                first = encode_body(toy_model("echo_f32"), request_id, outputs, deliveries)
                assert encode_body(model, request_id, outputs, deliveries) == first
