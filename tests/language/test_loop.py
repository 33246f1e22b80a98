"""What a loop gives, and what it says when a size does not stay what it was declared to be."""

from pathlib import Path

import pytest

from tests.language.programs import answers, source

DOUBLE = """
import numpy as np

def double(x):
    return np.concatenate([x, x])
"""


@pytest.mark.parametrize(
    ("carried", "following", "place"),
    [
        ("h: f32[N] = x", "double(h)", "stage `double`, item 0"),  # its stage makes the check
        ("h: f32[N] = double(x)", "h", "stage `loop`"),  # what it starts with has been made
        ("h: f32[N] = x", "h[len(x) - 1:]", "stage `getitem`, item 0"),
    ],
)
def test_a_carried_size_that_does_not_stay_is_said_by_name_and_dimension(
    tmp_path: Path, carried: str, following: str, place: str
) -> None:
    text = f"""
fn double(x: f32[N]) -> (y: f32[M]) = python "double.py:double"
pipeline p(x: f32[N]) -> (y: f32[N]) {{
    y = loop ({carried}) max 3 {{ next h = {following} }}
    return y = y
}}
"""
    (((failure,),)) = answers(source(text, tmp_path, double=DOUBLE), {"x": [1, 2]})
    assert f"pipeline `p`, {place}" in failure
    assert "`dimension 0 of h == N` does not hold" in failure


def test_each_carried_value_is_said_of_its_own_dimension(tmp_path: Path) -> None:
    text = """
fn double(x: f32[2, N]) -> (y: f32[2, M]) = python "double.py:double"
pipeline p(x: f32[2, N]) -> (y: f32[2, N]) {
    y, _ = loop (h: f32[2, N] = x, g: f32[2, N] = x) max 3 { next h = h, g = double(g) }
    return y = y
}
"""
    double = DOUBLE.replace("[x, x]", "[x, x], axis=1")
    (((failure,),)) = answers(source(text, tmp_path, double=double), {"x": [[1], [2]]})
    assert "`dimension 1 of g == N` does not hold: 2 == 1" in failure
