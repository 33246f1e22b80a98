"""Rows of different sizes in one line, with each kind of tensor that tells of a batch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http as http_client
from onnx import TensorProto, numpy_helper

import headrace
from tests.triton.test_run import following, given
from tests.triton.writing import INT32, program, put, save, tensor

INT64 = int(TensorProto.INT64)

CONFIG = """
max_batch_size: 8
input { name: "X" data_type: TYPE_FP32 dims: [ -1 ] allow_ragged_batch: true }
output [
  { name: "SUM" data_type: TYPE_FP32 dims: [ 1 ] },
  { name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "START" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "LONGEST" data_type: TYPE_INT64 dims: [ 1 ] },
  { name: "SHAPE" data_type: TYPE_FP32 dims: [ 1 ] },
  { name: "SIZES" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "TWICE" data_type: TYPE_FP32 dims: [ -1 ] }
]
batch_input [
  { kind: BATCH_ELEMENT_COUNT target_name: "count" data_type: TYPE_INT32 source_input: "X" },
  { kind: BATCH_ACCUMULATED_ELEMENT_COUNT target_name: "ends" data_type: TYPE_INT32
    source_input: "X" },
  { kind: BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO target_name: "bounds" data_type: TYPE_INT32
    source_input: "X" },
  { kind: BATCH_MAX_ELEMENT_COUNT_AS_SHAPE target_name: "longest" data_type: TYPE_FP32
    source_input: "X" },
  { kind: BATCH_ITEM_SHAPE target_name: "shape" data_type: TYPE_FP32 source_input: "X" },
  { kind: BATCH_ITEM_SHAPE_FLATTEN target_name: "sizes" data_type: TYPE_INT32 source_input: "X" }
]
batch_output { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "TWICE" source_input: "X" }
dynamic_batching { }
"""


def write_model(folder: Path) -> None:
    """A model that adds up each row of one line, and gives what it was told."""
    constants = {
        "front": np.array([1, 0]),
        "one": np.array([1]),
        "first": np.array([0]),
        "last": np.array([-1]),
        "axis": np.array(0),
    }
    nodes = [
        ("CumSum", ["X", "axis"], ["summed"]),
        ("Pad", ["summed", "front"], ["before"]),
        ("Sub", ["ends", "count"], ["begins"]),
        ("Gather", ["before", "ends"], ["upper"]),
        ("Gather", ["before", "begins"], ["lower"]),
        ("Sub", ["upper", "lower"], ["sum"]),
        ("Unsqueeze", ["sum", "one"], ["SUM"]),
        ("Unsqueeze", ["count", "one"], ["COUNT"]),
        ("Slice", ["bounds", "first", "last"], ["starts"]),
        ("Unsqueeze", ["starts", "one"], ["START"]),
        ("Shape", ["longest"], ["length"]),
        ("Shape", ["COUNT"], ["rows"]),
        ("Expand", ["length", "rows"], ["LONGEST"]),
        ("Identity", ["shape"], ["SHAPE"]),
        ("Unsqueeze", ["sizes", "one"], ["SIZES"]),
        ("Add", ["X", "X"], ["TWICE"]),
    ]
    save(
        folder / "sums/1/model.onnx",
        nodes,
        [
            tensor("X", ["T"]),
            tensor("count", ["N"], INT32),
            tensor("ends", ["N"], INT32),
            tensor("bounds", ["M"], INT32),
            tensor("longest", ["L"]),
            tensor("shape", ["N", 1]),
            tensor("sizes", ["N"], INT32),
        ],
        [
            tensor("SUM", ["N", 1]),
            tensor("COUNT", ["N", 1], INT32),
            tensor("START", ["N", 1], INT32),
            tensor("LONGEST", ["N", 1], INT64),
            tensor("SHAPE", ["N", 1]),
            tensor("SIZES", ["N", 1], INT32),
            tensor("TWICE", ["T"]),
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    put(folder / "sums/config.pbtxt", CONFIG)


def test_rows_of_a_run_are_told_of_each_other(tmp_path: Path) -> None:
    write_model(tmp_path)
    model, _, _ = program(tmp_path, "sums").text.partition("\n\n")
    put(
        tmp_path / "many.pipe",
        model
        + """

pipeline many(xs: list<f32[_], 9>) -> (sum: f32[N, 1], start: i32[N, 1], longest: i64[N, 1],
        counts: i32[N, 1], shape: f32[N, 1], sizes: i32[N, 1], twice: list<f32[_], 9>) {
    found = for x in xs {
        s, c, b, l, h, z, t = run_sums(x)
        yield s = s, c = c, b = b, l = l, h = h, z = z, t = t
    }
    return sum = found.s, start = found.b, longest = found.l, counts = found.c, shape = found.h,
        sizes = found.z, twice = found.t
}

schedule many { run_sums { batch { max = 8 } } }
""",
    )
    rows = [np.array(one, np.float32) for one in ([1, 2, 3], [4], [], [5, 6])]
    with headrace.load(tmp_path / "many.pipe") as app:
        found = app.many(xs=rows)
    assert found.sum.ravel().tolist() == [6, 4, 0, 11]
    assert found.counts.ravel().tolist() == found.sizes.ravel().tolist() == [3, 1, 0, 2]
    assert found.shape.ravel().tolist() == [3, 1, 0, 2]
    assert found.start.ravel().tolist() == [0, 3, 4, 4]
    assert found.longest.ravel().tolist() == [3, 3, 3, 3]
    for row, twice in zip(rows, found.twice, strict=True):
        np.testing.assert_array_equal(twice, row * 2)


@pytest.mark.slow  # a server
def test_stock_clients_ask_a_ragged_model(tmp_path: Path) -> None:
    write_model(tmp_path)
    with following(tmp_path) as (follower, http, _):
        assert not follower.failures, follower.failures
        client: Any = http_client.InferenceServerClient(http, concurrency=4)
        rows = [np.arange(n, dtype=np.float32)[None] for n in (3, 1, 5, 2)]
        asked = [client.async_infer("sums", [given(http_client, "X", row)]) for row in rows]
        for row, one in zip(rows, asked, strict=True):
            answer = one.get_result()
            assert answer.as_numpy("SUM").tolist() == [[row.sum()]]
            np.testing.assert_array_equal(answer.as_numpy("TWICE"), row * 2)
        client.close()
