"""Boxes, masks and vectors."""

import numpy as np
import pytest

from headrace.dsl.types import DType
from tests.stdlib.calls import call, refusal, tensor

F32, I64 = DType.F32, DType.I64
BOXES = np.array(
    [[0, 0, 10, 10], [1, 0, 11, 10], [20, 20, 30, 30], [0, 0, 10, 10], [10, 10, 0, 0]], np.float32
)
SCORES = np.array([0.5, 0.9, 0.1, 0.5, 0.7], np.float32)


def test_of_boxes_that_overlap_the_best_is_kept() -> None:
    assert call("nn.nms", BOXES, SCORES).tolist() == [1, 2]
    assert call("nn.nms", BOXES, SCORES, 0.9).tolist() == [1, 4, 2], "any two corners make a box"
    assert call("nn.nms", BOXES, SCORES, min_score=0.1).tolist() == [1]
    assert call("nn.nms", BOXES, SCORES, max_boxes=1).tolist() == [1]


def test_of_equal_scores_the_first_box_is_kept() -> None:
    assert call("nn.nms", BOXES[[0, 3]], SCORES[[0, 3]]).tolist() == [0]


def test_what_is_no_box_suppresses_none() -> None:
    boxes = np.array([[0, 0, np.nan, 9], [0, 0, 9, 9], [5, 5, 5, 5]], np.float32)
    assert call("nn.nms", boxes, np.array([3, 2, 1], np.float32), 0.0).tolist() == [0, 1, 2]
    assert call("nn.nms", boxes, np.array([np.nan, 2, -np.inf], np.float32)).tolist() == [1]


def test_boxes_and_scores_go_together() -> None:
    assert refusal("nn.nms", tensor(F32, 3, 5), tensor(F32, 3)).startswith("boxes: f32[N, 4]")
    assert refusal("nn.nms", tensor(F32, 3, 4), tensor(F32, 2)) == (
        "scores: one score a box: 3 and 2 differ"
    )
    assert refusal("nn.nms", tensor(F32, 3, 4), tensor(F32, 3), 1.5) == (
        "max_overlap: 0 to 1, not 1.5"
    )


@pytest.mark.parametrize("kind", ["mean", "max"])
def test_what_is_masked_out_does_not_count_whatever_it_is(kind: str) -> None:
    x = np.array([[1, 4], [3, 2], [np.nan, np.inf]], np.float32)
    want = [2, 3] if kind == "mean" else [3, 4]
    assert call("nn.pool", x, np.array([1, 1, 0]), kind).tolist() == want


def test_the_mean_of_nothing_is_a_vector_of_zeros() -> None:
    assert call("nn.pool", np.ones((2, 3), np.float32), np.array([0, 0])).tolist() == [0, 0, 0]


def test_directions_are_compared_whatever_the_length() -> None:
    rows = np.array([[2, 0], [0, 5], [-1, 0], [0, 0]], np.float32)
    assert call("nn.cosine", np.array([3, 0], np.float32), rows).tolist() == [1, 0, -1, 0]
    assert refusal("nn.cosine", tensor(F32, 3), tensor(F32, 4, 2)).startswith("rows: vectors as")


def test_normalised_layers_have_mean_0_and_variance_1() -> None:
    x = np.random.default_rng(3).normal(5, 3, (2, 64)).astype(np.float32)
    y = call("nn.layer_norm", x, np.full(64, 2, np.float32), np.ones(64, np.float32))
    np.testing.assert_allclose(y.mean(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(y.std(axis=1), 2, atol=1e-4)


def test_logarithms_of_probabilities_do_not_underflow() -> None:
    x = np.array([0, -200], np.float32)
    assert call("nn.softmax", x)[1] == 0
    assert call("nn.log_softmax", x).tolist() == [0, -200]
