"""Lists where tensors are wanted, and the other way round: also of nothing, and of unlike items."""

import numpy as np
import pytest

from tests.language.programs import answers, mistakes, source


@pytest.mark.parametrize(
    ("result", "expr", "shape"),
    [
        ("f32[N, 3]", "xs", (0, 3)),
        ("f32[N, 3]", "xs * 2", (0, 3)),
        ("f32[3]", "sum(xs, axis = 0)", (3,)),
        ("f32[N, 6]", "for x in xs { yield concat(x, x) }", (0, 6)),
        ("f32[N, 3]", "concat(xs, [[1, 2, 3]])[1:]", (0, 3)),
    ],
)
def test_no_items_are_a_tensor_of_no_rows(result: str, expr: str, shape: tuple[int, ...]) -> None:
    text = f"pipeline p(xs: list<f32[3], 9>) -> (y: {result}) {{ return y = {expr} }}\n"
    none, two = answers(source(text), {"xs": []}, {"xs": np.ones((2, 3), np.float32)})
    assert none[0]["y"].shape == shape
    assert none[0]["y"].dtype == np.float32
    assert two[0]["y"].shape[1:] == shape[1:]


def test_a_size_that_another_value_tells_is_that_of_no_items_too() -> None:
    text = """
pipeline p(xs: list<f32[W]>, w: f32[W]) -> (y: f32[N, W]) { return y = xs }
"""
    ((none,),) = answers(source(text), {"xs": [], "w": [1, 2]})
    assert none["y"].shape == (0, 2)


def test_items_of_unlike_shape_are_named_with_both_shapes() -> None:
    text = "pipeline p(xs: list<f32[_]>) -> (y: f32[N, M]) { return y = xs }\n"
    (((failure,),)) = answers(
        source(text), {"xs": [np.zeros(3, np.float32), np.zeros(2, np.float32)]}
    )
    assert "item 1 has shape [2], but item 0 has [3]" in failure


def test_an_index_outside_of_a_list_is_named_with_how_many_there_are() -> None:
    text = "pipeline p(xs: list<f32[_]>, i: i64) -> (y: f32[N]) { return y = xs[i] }\n"
    items = [np.zeros(3, np.float32), np.ones(1, np.float32)]
    last, failed = answers(source(text), {"xs": items, "i": -1}, {"xs": items, "i": 2})
    assert last[0]["y"].tolist() == [1]
    assert "index 2 is out of bounds for a list of 2" in failed[0]


def test_more_indices_than_axes_are_counted() -> None:
    (found,) = mistakes("pipeline p(x: f32[3, 4]) -> (y: f32) { return y = x[1, 2, 0] }\n")
    assert found.message == "`x` is f32[3, 4], which takes at most 2 indices, not 3"
