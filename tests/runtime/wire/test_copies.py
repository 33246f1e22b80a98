"""How often a large tensor is copied on its way: at most once in and once out."""

import asyncio
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.grpc.methods import inference_methods
from headrace.runtime.http import HttpFront
from headrace.runtime.protocols.datatypes import DATATYPES
from headrace.runtime.protocols.frames import in_stream, without_tensors
from headrace.runtime.protocols.limits import Limits
from headrace.runtime.protocols.messages import (
    ModelInferRequest,
    ModelInferResponse,
    ModelStreamInferResponse,
)
from headrace.runtime.protocols.operations import all_operations
from headrace.runtime.protocols.protobuf_writer import encode_response
from headrace.runtime.protocols.raw import LARGE, raw_buffer, read_raw
from headrace.runtime.repository.repository import Repository
from headrace.runtime.service import Service
from tests.runtime.wire.plans import toy_model, toy_plan

COUNT = 16_000_000
SIZE = COUNT * 4
INFER = "/inference.GRPCInferenceService/ModelInfer"
A_LITTLE = SIZE // 10
NAMED = {datatype.name: datatype for datatype in DATATYPES.values()}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    engine = Engine(toy_plan(), EngineConfig(workers=1))
    repository = Repository(engine.config)
    repository.adopt("toys", engine, 1)
    found = Service(repository, Limits())
    found.set_ready(True)
    yield found
    engine.close()


def peak(call: Callable[[], Any]) -> tuple[Any, int]:
    """Return what a call returns, and how many bytes it had at most beside what there was."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def request(*raws: bytes, **fields: Any) -> bytes:
    message = ModelInferRequest(raw_input_contents=raws, **fields)
    for number, raw in enumerate(raws):
        message.inputs.add(name=f"x{number}", datatype="UINT8", shape=[len(raw)])
    return message.SerializeToString()


@pytest.mark.slow
def test_a_large_tensor_crosses_grpc_with_one_copy_in_and_one_out(service: Service) -> None:
    infer = inference_methods(service, all_operations("0")).unary[INFER]
    numbers = np.arange(COUNT, dtype=np.float32)
    message = ModelInferRequest(model_name="echo_f32", raw_input_contents=[numbers.tobytes()])
    message.inputs.add(name="x0", datatype="FP32", shape=[COUNT])
    payload = message.SerializeToString()
    del message

    def answer() -> bytes:
        outcome = infer(payload, None, {})
        return outcome if isinstance(outcome, bytes) else outcome.finish(outcome.future)

    given, most = peak(answer)
    assert most < 2 * SIZE + A_LITTLE

    response = ModelInferResponse.FromString(given)
    assert response.raw_output_contents[0] == numbers.tobytes()


@pytest.mark.slow
def test_a_large_tensor_crosses_http_with_one_copy_in_and_one_out(service: Service) -> None:
    front = HttpFront(service, all_operations("0"))
    numbers = np.arange(COUNT, dtype=np.float32)
    head = msgspec.json.encode(
        {
            "inputs": [
                {
                    "name": "x0",
                    "datatype": "FP32",
                    "shape": [COUNT],
                    "parameters": {"binary_data_size": SIZE},
                }
            ],
            "parameters": {"binary_data_output": True},
        }
    )
    body = memoryview(head + numbers.tobytes())
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v2/models/echo_f32/infer",
        "headers": [(b"inference-header-content-length", b"%d" % len(head))],
    }
    sent: list[Message] = []

    async def answer() -> None:
        starts = iter(range(0, len(body), LARGE))

        async def receive() -> Message:
            start = next(starts, None)
            if start is None:
                await asyncio.Event().wait()  # the client stays
            assert start is not None
            piece = bytes(body[start : start + LARGE])
            return {"type": "http.request", "body": piece, "more_body": start + LARGE < len(body)}

        async def send(message: Message) -> None:
            sent.append(message)

        await front(scope, receive, send)

    _, most = peak(lambda: asyncio.run(answer()))
    assert sent[0]["status"] == 200
    # what is read is kept in memory that grows by an eighth at a time
    assert most < 2 * SIZE + SIZE // 8 + A_LITTLE
    length = int(dict(sent[0]["headers"])[b"inference-header-content-length"])
    assert memoryview(sent[1]["body"])[length:] == numbers.data.cast("B")


@given(st.lists(st.binary(max_size=40), max_size=4), st.integers(0, 300), st.booleans())
def test_tensors_are_cut_out_of_a_request_and_nothing_else_changes(
    raws: list[bytes], extra: int, typed: bool
) -> None:
    large = [raw + bytes(LARGE) for raw in raws]
    payload = request(*large, id="i" * extra, model_name="m")
    if typed:  # of the kinds of fields that this message does not have
        payload += b"\x78\xac\x02" + b"\x81\x01" + bytes(8) + b"\x8d\x01" + bytes(4)
    rest, tensors = without_tensors(payload)
    assert [bytes(tensor) for tensor in tensors] == large
    whole = np.frombuffer(payload, np.uint8)
    assert all(np.shares_memory(np.frombuffer(tensor, np.uint8), whole) for tensor in tensors)
    asked, all_of_it = ModelInferRequest.FromString(rest), ModelInferRequest.FromString(payload)
    all_of_it.ClearField("raw_input_contents")
    assert asked == all_of_it


@pytest.mark.parametrize(
    "end",
    [
        b"\x3a",
        b"\x3a\xff",
        b"\x3a\x05abcd",
        b"\x3b",
        b"\x3e",
        b"\xff" * 11,
        b"\x08" + b"\xff" * 11,
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x08\x01" * 5000,
    ],
    ids=[
        "no length",
        "half a length",
        "too short",
        "a group",
        "no kind",
        "an endless key",
        "an endless number",
        "huge",
        "too many fields",
    ],
)
def test_what_is_no_message_is_left_to_the_parser(end: bytes) -> None:
    payload = request(bytes(LARGE)) + end
    assert without_tensors(payload) == (payload, [])


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16383, 16384, LARGE, 1 << 21])
def test_a_response_is_written_as_its_message_would_be(length: int) -> None:
    request_id = "\N{LATIN SMALL LETTER E WITH ACUTE}" * min(length, 200)
    values = np.arange(length, dtype=np.uint8)
    response = ModelInferResponse(model_name="echo_u8", model_version="1", id=request_id)
    response.outputs.add(name="y0", datatype="UINT8", shape=[length])
    response.raw_output_contents.append(values.tobytes())
    written = encode_response(toy_model("echo_u8"), request_id, {"y0": values})
    assert written == response.SerializeToString()
    response.parameters["more"].bool_param = True
    added = ModelInferResponse(parameters={"more": {"bool_param": True}}).SerializeToString()
    found = ModelStreamInferResponse.FromString(in_stream(written, added))
    assert found == ModelStreamInferResponse(infer_response=response)


@pytest.mark.parametrize("askew", [0, 1, 4])
@pytest.mark.parametrize("name", ["FP32", "INT64", "BOOL", "BF16"])
def test_numbers_are_a_view_of_a_body_unless_they_stand_askew(name: str, askew: int) -> None:
    datatype = NAMED[name]
    body = np.zeros(LARGE + askew, np.uint8)
    numbers = read_raw(body.data[askew:].toreadonly(), datatype, LARGE // datatype.width)
    assert isinstance(numbers, np.ndarray)
    assert numbers.flags.aligned
    assert np.shares_memory(numbers, body) == (askew % datatype.width == 0)


@pytest.mark.parametrize("name", ["FP16", "BF16", "BOOL", "INT64"])
def test_a_large_result_is_sent_from_where_it_lies(name: str) -> None:
    values = np.zeros((2, LARGE), NAMED[name].numpy)
    sent = raw_buffer(values)
    assert np.shares_memory(np.frombuffer(sent, np.uint8), values)
    turned = raw_buffer(values.T)
    assert bytes(turned) == values.T.tobytes()
