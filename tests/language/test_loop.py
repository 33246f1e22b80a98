"""What a loop gives, and what it says when a size does not stay what it was declared to be."""

from pathlib import Path

import pytest

from tests.language.programs import answers, mistakes, source

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


def test_zeros_stand_behind_a_written_type_and_nowhere_else() -> None:
    text = """
const none: f32[2] = zeros
pipeline p(x: f32[2] = zeros) -> (y: f32[2]) {
    y = loop (h: f32[2] = zeros) max 3 { next h = h + x + none + 1 }
    return y = y
}
"""
    first, second = answers(source(text), {}, {"x": [1, 2]})
    assert first[0]["y"].tolist() == [3, 3]
    assert second[0]["y"].tolist() == [6, 9]
    (found,) = mistakes("pipeline p(x: f32[2]) -> (y: f32[2]) { return y = x + zeros }\n")
    assert found.code == "HR116"
    assert "zeros([2, 3])" in str(found.help)


def test_zeros_need_to_know_how_many() -> None:
    text = """
const z: string = zeros
pipeline p(x: f32[N], h: f32[_] = zeros) -> (y: f32[N]) {
    y = loop (h: f32[N] = zeros) max 3 { next h = x }
    return y = y
}
"""
    found = mistakes(text)
    assert [one.code for one in found] == ["HR227", "HR214"]
    carried = text.replace("const z: string = zeros", "").replace(", h: f32[_] = zeros", "")
    (one,) = mistakes(carried)
    assert (one.code, one.help) == ("HR332", "say how many, as in `zeros(len(x))`")
