"""Requests that are small on the wire, or cheap to make, and large or dear once they are read."""

import json
import zlib

import httpx
import pytest

from headrace.runtime.protocols.field_count import check_fields
from headrace.runtime.protocols.json_codec import decode_body
from headrace.runtime.protocols.limits import Limits
from headrace.runtime.protocols.messages import ModelInferRequest
from headrace.runtime.protocols.protobuf_codec import decode_request
from headrace.runtime.request import RequestError
from tests.runtime.wire.plans import toy_model
from tests.safety.hosted import GOOD, INFER, MIB, Hosted
from tests.safety.http2 import INFER as CALL
from tests.safety.http2 import Connection, message

MANY = 30 * MIB


def bomb(inflated: int, coding: str) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if coding == "gzip" else 15)
    piece = bytes(MIB)
    return b"".join([*(packer.compress(piece) for _ in range(inflated // MIB)), packer.flush()])


@pytest.mark.slow
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("inflated", [40 * MIB, 200 * MIB], ids=["within limits", "beyond"])
def test_b29_a_compressed_body_that_swells_is_413(
    hosted: Hosted, coding: str, inflated: int
) -> None:
    content, before = bomb(inflated, coding), hosted.forget_peak()
    headers = {"Content-Encoding": coding}
    answer = httpx.post(f"http://{hosted.http}{INFER}", content=content, headers=headers)
    assert answer.status_code == 413
    assert hosted.peak() - before < 16 * MIB
    hosted.serves()


@pytest.mark.slow
def test_a_body_of_few_values_compresses_well_and_is_taken(hosted: Hosted) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    content = packer.compress(GOOD.ljust(900_000)) + packer.flush()
    answer = httpx.post(
        f"http://{hosted.http}{INFER}", content=content, headers={"Content-Encoding": "gzip"}
    )
    assert answer.status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_b29_a_compressed_message_that_swells_is_refused_before_it_does(
    hosted: Hosted, coding: str
) -> None:
    """With the carrier that is the default: it measures while it inflates."""
    content, before = message(bomb(200 * MIB, coding), compressed=True), hosted.forget_peak()
    with Connection(hosted.grpc) as connection:
        connection.call(1, CALL, ("grpc-encoding", coding))
        connection.upload(1, content)
        last = list(connection.until_closed(1))[-1]
    assert b"grpc-status\x018" in last.payload
    assert hosted.peak() - before < 160 * MIB  # twice the limit of 64 MiB, which it does hold
    hosted.serves()


def request(data: str, datatype: str = "FP32", shape: str = "[1]") -> str:
    tensor = f'{{"name": "x0", "datatype": "{datatype}", "shape": {shape}, "data": {data}}}'
    return f'{{"inputs": [{tensor}]}}'


def listed(element: str, size: int = MANY) -> str:
    return "[" + f"{element}," * (size // (len(element) + 1)) + element + "]"


BODIES = {
    "numbers": lambda: request(listed("1")),
    "lists": lambda: request(listed("[]")),
    "nested": lambda: request("[" * MANY),
    "strings": lambda: request(listed('""'), "BYTES"),
    "a shape": lambda: request("[1]", shape=listed("1")),
    "inputs": lambda: '{"inputs": ' + listed('{"name": "", "datatype": "", "shape": []}') + "}",
    "outputs": lambda: '{"inputs": [], "outputs": ' + listed('{"name": ""}') + "}",
    "parameters": lambda: (
        '{"inputs": [], "parameters": {'
        + ",".join(f'"{number}": 1' for number in range(MANY // 12))
        + "}}"
    ),
    "an id": lambda: '{"inputs": [], "id": "' + "a" * MANY + '"}',
    "a number": lambda: request("[" + "9" * MANY + "]"),
    "a size": lambda: request("[1]", shape="[" + "9" * MANY + "]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BODIES)
def test_b29_a_body_of_many_things_is_400_and_takes_little_more_than_itself(
    hosted: Hosted, kind: str
) -> None:
    content = BODIES[kind]().encode()
    before = hosted.forget_peak()
    answer = httpx.post(f"http://{hosted.http}{INFER}", content=content, timeout=60)
    assert answer.status_code == 400
    assert hosted.peak() - before < 6 * MANY
    hosted.serves()


NO_NUMBERS = """
[NaN]
[Infinity]
[-Infinity]
[1e999999999]
[0x1]
[01]
[1,]
[.5]
["1"]
[null]
[true]
[{}]
{}
"1"
1
[[[1],[2]]]
"""
NO_SHAPES = """
[-1]
[-9223372036854775808]
[9223372036854775808]
[4294967296, 4294967296]
[0, 281474976710657]
[1.5]
["1"]
[true]
[[1]]
{}
"""
LONG = f"[{'9' * 4000}]"


@pytest.mark.slow
@pytest.mark.parametrize("data", [*NO_NUMBERS.split("\n")[1:-1], LONG], ids=lambda text: text[:12])
def test_b28_what_json_has_no_number_for_is_400(hosted: Hosted, data: str) -> None:
    answer = httpx.post(f"http://{hosted.http}{INFER}", content=request(data))
    assert answer.status_code == 400
    assert answer.json()["error"]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*NO_SHAPES.split("\n")[1:-1], LONG], ids=lambda text: text[:24])
def test_b04_a_shape_that_is_none_is_400(hosted: Hosted, shape: str) -> None:
    answer = httpx.post(f"http://{hosted.http}{INFER}", content=request("[1.5]", shape=shape))
    assert answer.status_code == 400
    hosted.serves()


@pytest.mark.slow
def test_of_a_member_given_twice_the_last_counts(hosted: Hosted) -> None:
    good, bad = request("[1.5]"), request('["x"]')
    for first, last, status in ((bad, good, 200), (good, bad, 400)):
        content = first[:-1] + "," + last[1:]
        assert httpx.post(f"http://{hosted.http}{INFER}", content=content).status_code == status


def call(**contents: object) -> bytes:
    asked = ModelInferRequest(model_name="echo_f32")
    tensor = asked.inputs.add(name="x0", datatype="FP32", shape=[1])
    for name, values in contents.items():
        getattr(tensor.contents, name).extend(values)
    return asked.SerializeToString()


SMALL = Limits(fields=100, elements=1000)


@pytest.mark.parametrize(
    "payload",
    [
        b"\x2a\x00" * 1000,
        b"\x32\x00" * 1000,
        b"\x3a\x00" * 1000,
        b"\x0a\x01a" * 1000,
        b"\xf8\x07\x01" * 1000,
        call(bytes_contents=[b""] * 1000),
        call(int64_contents=[1] * 5000),
        call(bool_contents=[True] * 5000),
        call(fp32_contents=[1.0] * 5000),
        call(fp64_contents=[1.0] * 5000),
    ],
    ids=["inputs", "outputs", "raws", "names", "unknown", "strings", "int64", "bool", "f32", "f64"],
)
def test_a_message_of_many_things_is_refused_before_it_is_parsed(payload: bytes) -> None:
    with pytest.raises(RequestError, match="more than"):
        check_fields(payload, SMALL)


def test_raw_strings_are_counted_before_they_are_taken_apart() -> None:
    raw, shape, model = bytes(4 * 1001), [1001], toy_model("echo_string")
    asked = ModelInferRequest(model_name="echo_string", raw_input_contents=[raw])
    asked.inputs.add(name="x0", datatype="BYTES", shape=shape)
    with pytest.raises(RequestError, match="1001 elements of BYTES: at most 1000"):
        decode_request(model, asked, SMALL, 0.0, None)
    tensor = {"name": "x0", "datatype": "BYTES", "shape": shape}
    head = json.dumps({"inputs": [tensor | {"parameters": {"binary_data_size": len(raw)}}]})
    with pytest.raises(RequestError, match="1001 elements of BYTES: at most 1000"):
        decode_body(model, head.encode() + raw, len(head), SMALL, lambda: 0.0)


def test_a_message_whose_bulk_is_raw_is_let_through_and_so_is_what_is_none() -> None:
    asked = ModelInferRequest(model_name="echo_f32", raw_input_contents=[bytes(10_000)])
    check_fields(asked.SerializeToString(), SMALL)
    check_fields(call(fp32_contents=[1.0] * 900), SMALL)
    check_fields(call(int64_contents=[-1] * 900), SMALL)  # ten bytes each
    for number in range(256):
        check_fields(bytes((number,)) + b"\xff" * 300, SMALL)


@pytest.mark.slow
def test_a_call_of_many_things_is_refused_by_the_server(hosted: Hosted) -> None:
    before = hosted.forget_peak()
    with Connection(hosted.grpc) as connection:
        connection.call(1, CALL)
        connection.upload(1, message(b"\x2a\x00" * (MANY // 2)))
        last = list(connection.until_closed(1))[-1]
    assert b"grpc-status\x013" in last.payload
    assert hosted.peak() - before < 6 * MANY
    hosted.serves()


@pytest.mark.slow
def test_what_a_caller_writes_forges_no_line_of_the_log(hosted: Hosted) -> None:
    forged = "x\n2026-01-01 ERROR forged\r\x1b[2J"
    tensor = {"name": forged, "datatype": forged, "shape": [1], "data": [1.0]}
    content = json.dumps({"inputs": [tensor], "id": forged, "outputs": [{"name": forged}]})
    answer = httpx.post(f"http://{hosted.http}{INFER}", content=content)
    assert answer.status_code == 400
    marker = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["marker"]}
    content = json.dumps({"inputs": [marker], "id": forged})
    answer = httpx.post(f"http://{hosted.http}/v2/models/fail/infer", content=content)
    assert answer.status_code == 500
    assert forged not in answer.json()["error"]
    log = hosted.log.read_text()
    assert r"\n2026-01-01 ERROR forged\r" in log
    assert "\n2026-01-01 ERROR" not in log
    assert "\x1b" not in log
