"""Columns of a group: what is split by rows and joined again is what it was."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.rows import Rows, merge, scatter


@given(st.data())
def test_a_column_that_is_split_and_joined_is_the_same(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 12))
    order = data.draw(st.permutations(range(count)))
    cut = data.draw(st.integers(1, count - 1))
    whole = np.arange(count * 6, dtype=np.float32).reshape(count, 2, 3)
    column = Rows.stacked(whole)
    parts = [(rows, column.take(rows)) for rows in (order[:cut], order[cut:])]
    joined = scatter(count, parts)
    np.testing.assert_array_equal(joined.stack(), whole)
    assert [item.tolist() for item in map(np.asarray, joined.items())] == whole.tolist()


@pytest.mark.parametrize("join", ["scatter", "merge"])
@pytest.mark.parametrize(
    "other", [np.array([[2, 3]], np.int64), np.zeros((1, 3), np.float32)], ids=["type", "shape"]
)
def test_rows_of_another_type_or_shape_keep_theirs(other: np.ndarray, join: str) -> None:
    ours = np.array([[0.5, 1.5]], np.float32)
    pieces = [Rows.stacked(ours), Rows.stacked(other)]
    joined = (
        scatter(2, [([1], pieces[0]), ([0], pieces[1])]) if join == "scatter" else merge(pieces)
    )
    first, second = (np.asarray(item) for item in joined.items())
    if join == "scatter":
        first, second = second, first
    assert (first.dtype, second.dtype) == (ours.dtype, other.dtype)
    assert (first.tolist(), second.tolist()) == (ours[0].tolist(), other[0].tolist())


def test_single_values_are_as_python_has_them() -> None:
    assert Rows.stacked(np.array([True, False])).plain() == [True, False]
    assert Rows.stacked(np.array(["a", "é"], object)).plain() == ["a", "é"]
    assert Rows.of([np.float32(0.5), "b", b"c"]).plain() == [0.5, "b", b"c"]
    assert Rows.shared(np.int64(3), 2).plain() == [3, 3]
