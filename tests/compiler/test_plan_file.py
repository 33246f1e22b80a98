"""Plan files: exact round trips, and one form."""

import math
from pathlib import Path
from typing import cast

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.compiler.plan_file import (
    plan_hash,
    read,
    to_bytes,
    write,
)
from headrace.dsl.types import (
    DType,
)
from headrace.stdlib.op import Array, Literal
from tests.compiler.plan_files import MODEL, digest_of, literal_of, make_plan, members_of


def test_a_plan_comes_back_equal_with_every_kind_of_step() -> None:
    assert read(to_bytes(make_plan())) == make_plan()


def test_a_plan_read_from_a_path_is_the_one_that_was_written(tmp_path: Path) -> None:
    write(make_plan(), tmp_path / "a.plan")
    assert read(tmp_path / "a.plan") == make_plan()
    assert [p.name for p in tmp_path.iterdir()] == ["a.plan"]


def test_the_hash_of_a_file_is_the_hash_of_its_plan(tmp_path: Path) -> None:
    write(make_plan(), tmp_path / "a.plan")
    assert plan_hash(tmp_path / "a.plan") == plan_hash(make_plan())
    assert plan_hash(to_bytes(make_plan(1))) != plan_hash(make_plan())


literals = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats()
    | st.text(st.characters(), max_size=8)
    | st.binary(max_size=8)
    | st.sampled_from(DType),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=8,
)


def same(left: object, right: object) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return np.float64(left).tobytes() == np.float64(right).tobytes()
    return type(left) is type(right) and left == right


@given(literals)
def test_literals_come_back_exact_and_of_the_same_type(literal: Literal) -> None:
    assert same(literal_of(read(to_bytes(make_plan(literal)))), literal)


def test_an_integer_longer_than_decimal_digits_may_be_comes_back() -> None:
    number = 7**9000
    assert literal_of(read(to_bytes(make_plan(number)))) == number


@pytest.mark.parametrize(
    "array",
    [
        np.array(3, np.int64),
        np.float32(0.1),
        np.zeros((0, 4, 2), np.float32),
        np.arange(12, dtype=np.uint8).reshape(3, 4)[:, ::2],
        np.array([math.nan, math.inf, -0.0]),
        np.array([[True], [False]]),
        np.arange(4, dtype=">i4"),
        np.arange(3).astype(np.float16),
        np.arange(3).astype(ml_dtypes.bfloat16),
        np.random.default_rng(0).standard_normal((40, 50)),
    ],
    ids=repr,
)
def test_arrays_come_back_with_dtype_shape_and_bits(array: Array) -> None:
    back = literal_of(read(to_bytes(make_plan(array))))
    assert type(back) is type(array)
    assert back.dtype == array.dtype.newbyteorder("<")
    assert back.shape == array.shape
    assert back.tobytes() == array.astype(back.dtype).tobytes()


def test_arrays_of_strings_and_bytes_come_back_as_objects() -> None:
    array = np.array([["a", "é\ud800"], [b"\xff", ""]], np.object_)
    back = literal_of(read(to_bytes(make_plan(array))))
    assert back.dtype == np.object_
    assert back.tolist() == array.tolist()


def test_arrays_of_a_plan_cannot_be_written_to() -> None:
    back = literal_of(read(to_bytes(make_plan(np.zeros(3)))))
    with pytest.raises(ValueError, match="read-only"):
        back[0] = 1


def test_what_a_plan_cannot_hold_is_our_bug_and_says_so() -> None:
    with pytest.raises(TypeError, match="cannot hold a set"):
        to_bytes(make_plan(cast("Literal", {1})))
    with pytest.raises(TypeError, match="cannot hold an array of <U1"):
        to_bytes(make_plan(np.array(["a"])))


def test_writing_a_plan_twice_gives_the_same_bytes() -> None:
    assert to_bytes(make_plan(("a", 1.5))) == to_bytes(make_plan(("a", 1.5)))


def test_equal_long_contents_are_stored_once() -> None:
    plan = make_plan((MODEL, MODEL, np.frombuffer(MODEL, np.uint8)))
    assert len(to_bytes(plan)) < 2 * len(MODEL) + 20_000
    assert [name for name in members_of(to_bytes(plan)) if name.startswith("blobs/")] == [
        f"blobs/{digest_of(MODEL)}"
    ]
