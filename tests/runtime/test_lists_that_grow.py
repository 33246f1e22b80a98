"""Lists that are joined and kept, and the bound of `list<T, max>` wherever a list comes to one."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import headrace
from headrace.runtime.request import Fault


def window(items: str, most: int, kept: str = "more") -> str:
    return f"""
pipeline window(x: {items}) -> (n: i64, last: list<{items.replace("N", "_")}>) per sequence {{
    state xs: list<{items.replace("N", "_")}, {most}> = []
    more = concat(xs, [x])
    next xs = {kept}
    return n = len(more), last = more
}}
"""


def lengths(source: str, given: Sequence[object]) -> list[int]:
    with headrace.load(source) as app:
        calls = app.window.sequence()
        return [int(calls(x=one).n) for one in given]


def test_a_list_of_items_that_differ_in_size_grows_by_one_at_a_time() -> None:
    with headrace.load(window("f32[N]", 9)) as app:
        calls = app.window.sequence()
        answers = [calls(x=np.full(size, size, np.float32)) for size in range(1, 4)]
        assert [one.tolist() for one in answers[-1].last] == [[1], [2, 2], [3, 3, 3]]


@pytest.mark.parametrize("items", ["f32[N]", "f32[2]", "string"])
def test_no_more_is_kept_than_the_bound_of_a_state_allows(items: str) -> None:
    given = ["a"] * 3 if items == "string" else [np.zeros(2, np.float32)] * 3
    assert lengths(window(items, 2), given[:2]) == [1, 2]
    with pytest.raises(Fault, match=r"at_most`, .*:5:.*3 items, and may have 2"):
        lengths(window(items, 2), given)
    sliding = window(items, 2, "if len(more) > 2 { more[1:] } else { more }")
    assert lengths(sliding, [*given, *given]) == [1, 2, 3, 3, 3, 3]


def test_literals_and_nothing_are_joined_with_lists() -> None:
    source = """
pipeline joined(xs: list<f32[_], 3>) -> (ys: list<f32[_]>) {
    return ys = concat(xs, [[1.0, 2.0]], [])
}
"""
    with headrace.load(source) as app:
        ys = app.joined(xs=[np.zeros(3, np.float32)]).ys
        assert [one.tolist() for one in ys] == [[0, 0, 0], [1, 2]]


@pytest.mark.parametrize("body", ["y = f(for x in xs { yield x })", "y = f(concat(xs, xs))"])
def test_what_a_function_gets_is_held_to_its_bound(tmp_path: Path, body: str) -> None:
    (tmp_path / "f.py").write_text("def f(xs):\n    return float(len(xs))\n")
    (tmp_path / "p.pipe").write_text(f"""
fn f(xs: list<f32[_], 3>) -> (y: f32) = python "f.py:f"

pipeline counted(xs: list<f32[_]>) -> (y: f32) {{
    {body}
    return y = y
}}
""")
    item = np.zeros(2, np.float32)
    with headrace.load(tmp_path / "p.pipe") as app:
        assert app.counted(xs=[item]).y in (1, 2)
        with pytest.raises(Fault, match=r"the list has . items, and may have 3"):
            app.counted(xs=[item] * 4)


def test_a_list_that_is_short_enough_by_its_type_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text("def f(xs):\n    return float(len(xs))\n")
    (tmp_path / "p.pipe").write_text("""
fn f(xs: list<f32[_], 3>) -> (y: f32) = python "f.py:f"

pipeline counted(xs: list<f32[_], 2>) -> (y: f32) {
    return y = f(xs)
}
""")
    plan = headrace.compile(tmp_path / "p.pipe").plan
    assert [segment.name for segment in plan.segments] == ["f"]


def test_an_empty_list_is_a_tensor_of_no_rows_where_the_size_of_its_items_is_known() -> None:
    source = """
pipeline stacked(xs: list<f32[3], 9>) -> (n: i64, total: f32[3], all: f32[N, 3]) {
    all = stack(xs)
    return n = len(all), total = sum(xs, axis = 0), all = all
}
"""
    with headrace.load(source) as app:
        empty = app.stacked(xs=[])
        assert (int(empty.n), empty.total.tolist(), empty.all.shape) == (0, [0, 0, 0], (0, 3))
        two = app.stacked(xs=[np.ones(3, np.float32)] * 2)
        assert (int(two.n), two.total.tolist(), two.all.shape) == (2, [2, 2, 2], (2, 3))
