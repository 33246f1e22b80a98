"""Requests and responses as values, in both encodings, without a server."""

import json
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from headrace.runtime.protocols.datatypes import BYTES, DATATYPES
from headrace.runtime.protocols.deliveries import Deliveries
from headrace.runtime.protocols.json_codec import encode_body
from headrace.runtime.protocols.messages import ModelInferRequest
from headrace.runtime.protocols.raw import RawError, read_raw, write_raw
from headrace.runtime.request import RequestError
from tests.runtime.wire.coding import decode, decode_json, encode, inputs_of, json_input, message
from tests.runtime.wire.plans import NUMBERS, optional_model, toy_model


def sample(dtype: str) -> np.ndarray:
    """Values at the edges of a dtype."""
    (datatype,) = (of.numpy for kind, of in DATATYPES.items() if kind.value == dtype)
    if datatype.kind in "iu":
        limits: Any = np.iinfo(datatype)  # type: ignore[call-overload]
        return np.array([limits.min, limits.max, 0, 1], datatype)
    if dtype == "bool":
        return np.array([True, False, True])
    limits = ml_dtypes.finfo(datatype)
    return np.array([limits.min, limits.max, limits.tiny, -0.0, 1.5], datatype)


@pytest.mark.parametrize("dtype", ["bool", *NUMBERS])
def test_b28_a_dtype_survives_raw_bytes_and_json_bit_by_bit(dtype: str) -> None:
    model, array = toy_model(f"echo_{dtype}"), sample(dtype)
    name = model.inputs["x0"].datatype.name
    asked = message(model, ("x0", name, [len(array)], array.tobytes()))
    results = {"y0": inputs_of(decode(model, asked))["x0"]}
    answer = encode(model, **results)
    assert answer.outputs[0].datatype == name
    assert answer.raw_output_contents[0] == array.tobytes()

    body = encode_body(model, "", results, Deliveries(False))[0]
    output = json.loads(body)["outputs"][0]
    again = decode_json(
        model, {"inputs": [json_input("x0", name, output["shape"], output["data"])]}
    )
    assert inputs_of(again)["x0"].dtype == array.dtype
    assert inputs_of(again)["x0"].tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("bool", [True, False]),
        ("i8", [-128, 127]),
        ("i64", [-(2**63), 2**63 - 1]),
        ("u16", [0, 65535]),
        ("u64", [0, 2**64 - 1]),
        ("i16", [-(2**15), 2**15 - 1]),
        ("i32", [-(2**31), 2**31 - 1]),
        ("u8", [0, 255]),
        ("u32", [0, 2**32 - 1]),
        ("f16", [0.5, -65504.0]),
        ("bf16", [0.5, -1.5]),
        ("f32", [0.5, -1.5]),
        ("f64", [0.1, 1e300]),
        ("bytes", [b"\xff", b""]),
        ("string", [b"a", b""]),
    ],
)
def test_typed_contents_are_read_as_raw_ones_are(dtype: str, values: list[object]) -> None:
    model = toy_model(f"echo_{dtype}")
    asked = ModelInferRequest(model_name=model.name)
    tensor = asked.inputs.add(name="x0", datatype=model.inputs["x0"].datatype.name, shape=[2])
    field = {"bool": "bool", "i64": "int64", "u64": "uint64", "f64": "fp64", "string": "bytes"}
    field |= dict.fromkeys(("i8", "i16", "i32"), "int") | dict.fromkeys(
        ("u8", "u16", "u32"), "uint"
    )
    field |= dict.fromkeys(("f16", "bf16", "f32"), "fp32") | {"bytes": "bytes"}
    getattr(tensor.contents, f"{field[dtype]}_contents").extend(values)
    given = inputs_of(decode(model, asked))["x0"]
    text = dtype == "string"
    expected = [v.decode() if text and isinstance(v, bytes) else v for v in values]
    assert given.tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "field", "value"),
    [("i8", "int", 300), ("u16", "uint", 65536), ("f16", "fp32", 1e5), ("bf16", "fp32", 3.4e38)],
)
def test_typed_contents_that_do_not_fit_the_datatype_are_refused(
    dtype: str, field: str, value: float
) -> None:
    model = toy_model(f"echo_{dtype}")
    datatype = model.inputs["x0"].datatype.name
    asked = ModelInferRequest(model_name=model.name)
    contents = asked.inputs.add(name="x0", datatype=datatype, shape=[1]).contents
    getattr(contents, f"{field}_contents").append(value)
    with pytest.raises(RequestError, match=f"does not fit in {datatype}"):
        decode(model, asked)


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_b28_any_bytes_survive_as_elements(elements: list[bytes]) -> None:
    assert read_raw(write_raw(elements), BYTES, len(elements)) == elements


@given(st.data())
@settings(max_examples=50)
def test_arrays_of_any_shape_survive_raw_bytes(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(DATATYPES.values(), key=lambda each: each.name)))
    if not kind.width or kind.name == "BF16":
        return
    shape = data.draw(array_shapes(min_dims=0, min_side=0, max_side=4))
    array = data.draw(arrays(kind.numpy, shape))
    flat = np.asarray(read_raw(write_raw(array), kind, array.size))
    assert flat.reshape(shape).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "raw",
    [b"\x01", b"\x05\0\0\0abc", b"\x01\0\0\0a\0", b"\xff\xff\xff\xffabc", b""],
    ids=["no length", "too short", "left over", "huge length", "nothing"],
)
def test_malformed_elements_are_refused(raw: bytes) -> None:
    with pytest.raises(RawError):
        read_raw(raw, BYTES, 1)


def test_b28_a_hundred_thousand_short_strings_are_decoded_in_under_a_second() -> None:
    model = toy_model("echo_string")
    raw = write_raw([f"w{i}" for i in range(100_000)])
    start = time.process_time()
    given = decode(model, message(model, ("x0", "BYTES", [100_000], raw)))
    assert time.process_time() - start < 1
    assert inputs_of(given)["x0"][99_999] == "w99999"


@pytest.mark.parametrize("shape", [[1], []])
def test_a_scalar_is_one_element_or_no_dimension(shape: list[int]) -> None:
    model = toy_model("scalar_f32")
    asked = message(model, ("x0", "FP32", shape, np.float32(2.5).tobytes()))
    value = inputs_of(decode(model, asked))["x0"]
    assert value.shape == ()
    answer = encode(model, y0=value)
    assert list(answer.outputs[0].shape) == [1]


def test_a_scalar_string_is_str_and_bytes_are_bytes() -> None:
    raw = write_raw(["höhe"])
    for name, expected in (("scalar_string", "höhe"), ("scalar_bytes", "höhe".encode())):
        model = toy_model(name)
        assert inputs_of(decode(model, message(model, ("x0", "BYTES", [1], raw))))["x0"] == expected


def test_a_string_that_is_not_utf8_is_refused_and_bytes_take_it() -> None:
    raw = write_raw([b"\xff\xfe"])
    model = toy_model("scalar_string")
    with pytest.raises(RequestError, match="`x0` is a string, but its bytes are no UTF-8"):
        decode(model, message(model, ("x0", "BYTES", [1], raw)))
    model = toy_model("scalar_bytes")
    assert inputs_of(decode(model, message(model, ("x0", "BYTES", [1], raw))))["x0"] == b"\xff\xfe"


@pytest.mark.parametrize("shape", [[2, 1], [2]])
def test_a_batch_pipeline_has_a_leading_axis(shape: list[int]) -> None:
    model = toy_model("rows")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    asked = message(
        model,
        ("x0", "FP32", [2, 3], array.tobytes()),
        ("x1", "BYTES", shape, write_raw(["a", "b"])),
    )
    inputs = inputs_of(decode(model, asked))
    assert np.array_equal(inputs["x0"], array)
    assert list(inputs["x1"]) == ["a", "b"]
    strings = np.array(["a", "b"], object)
    answer = encode(model, y0=array, y1=strings)
    assert [list(output.shape) for output in answer.outputs] == [[2, 3], [2, 1]]
    assert answer.raw_output_contents[1] == write_raw(["a", "b"])


def test_a_list_of_one_shape_is_a_tensor_with_one_more_axis() -> None:
    model = toy_model("quads")
    array = np.arange(16, dtype=np.float32).reshape(2, 4, 2)
    items = inputs_of(decode(model, message(model, ("x0", "FP32", [2, 4, 2], array.tobytes()))))[
        "x0"
    ]
    assert len(items) == 2
    assert np.array_equal(items[1], array[1])
    answer = encode(model, y0=items)
    assert list(answer.outputs[0].shape) == [2, 4, 2]
    assert answer.raw_output_contents[0] == array.tobytes()


@pytest.mark.parametrize(
    ("name", "shape", "datatype"), [("quads", [0, 4, 2], "FP32"), ("words", [0], "BYTES")]
)
def test_b01_an_empty_list_keeps_dtype_and_rank(name: str, shape: list[int], datatype: str) -> None:
    model = toy_model(name)
    results = {"y0": []}
    output = encode(model, **results).outputs[0]
    assert (output.datatype, list(output.shape)) == (datatype, shape)
    written = json.loads(encode_body(model, "", results, Deliveries(False))[0])["outputs"][0]
    assert (written["datatype"], written["shape"], written["data"]) == (datatype, shape, [])


def test_items_of_different_shape_are_flat_values_and_their_shapes() -> None:
    model = toy_model("ragged")
    items = [np.full((2, width), width, np.float32) for width in (1, 3)]
    answer = encode(model, y0=items)
    assert [output.name for output in answer.outputs] == ["y0", "y0_shape"]
    assert [list(output.shape) for output in answer.outputs] == [[8], [2, 2]]
    assert np.frombuffer(answer.raw_output_contents[0], "<f4").tolist() == [1.0] * 2 + [3.0] * 6
    assert np.frombuffer(answer.raw_output_contents[1], "<i8").tolist() == [2, 1, 2, 3]
    flat, shapes = answer.raw_output_contents
    asked = message(model, ("x0", "FP32", [8], flat), ("x0_shape", "INT64", [2, 2], shapes))
    again = inputs_of(decode(model, asked))["x0"]
    assert all(np.array_equal(one, other) for one, other in zip(again, items, strict=True))


def test_no_items_of_different_shape_have_no_values_and_no_shapes() -> None:
    answer = encode(toy_model("ragged"), y0=[])
    assert [list(output.shape) for output in answer.outputs] == [[0], [0, 2]]
    assert [output.datatype for output in answer.outputs] == ["FP32", "INT64"]


def test_lists_in_a_batch_are_ragged_by_row() -> None:
    model = toy_model("rows_of_lists")
    rows = [[np.array([1, 2], np.float32)], []]
    answer = encode(model, y0=rows)
    assert np.frombuffer(answer.raw_output_contents[1], "<i8").tolist() == [1, 2, 0, 2]
    flat, shapes = answer.raw_output_contents
    asked = message(model, ("x0", "FP32", [2], flat), ("x0_shape", "INT64", [2, 2], shapes))
    again = inputs_of(decode(model, asked))["x0"]
    assert [len(row) for row in again] == [1, 0]


@pytest.mark.parametrize(
    ("shapes", "complaint"),
    [
        ([[2, 3]], "speaks of 6 values, but `x0` holds 2"),
        ([[2, -1]], "negative dimension"),
        ([[2**40, 2**40]], "too many elements"),
    ],
)
def test_shapes_that_do_not_add_up_are_refused(shapes: list[list[int]], complaint: str) -> None:
    model = toy_model("ragged")
    asked = message(
        model,
        ("x0", "FP32", [2], np.zeros(2, np.float32).tobytes()),
        ("x0_shape", "INT64", [len(shapes), 2], np.array(shapes, np.int64).tobytes()),
    )
    with pytest.raises(RequestError, match=complaint):
        decode(model, asked)


def test_shapes_without_their_values_are_refused() -> None:
    asked = message(toy_model("ragged"), ("x0_shape", "INT64", [0, 2], b""))
    with pytest.raises(RequestError, match="came without `x0`"):
        decode(toy_model("ragged"), asked)


def test_an_absent_optional_result_is_left_out() -> None:
    model = optional_model()
    assert not encode(model, y=None).outputs
