"""What a stream emits, from wherever an `emit` may stand."""

import numpy as np

from tests.language.programs import answers, mistakes, source


def sent(text: str, **given: object) -> list[object]:
    """Return the values of the only result of a stream, in order."""
    (found,) = answers(source(text), given)
    return [one if isinstance(one, str) else int(one["n"]) for one in found]


def test_a_branch_that_only_emits_needs_no_value_and_no_else() -> None:
    text = """
pipeline p(a: bool) -> stream (n: i64) {
    if a { emit n = 1 }
    match a { true => { emit n = 2 }, false => { } }
    if a { } else { emit n = 3 }
    emit n = 4
}
"""
    assert sent(text, a=True) == [1, 2, 4]
    assert sent(text, a=False) == [3, 4]


def test_the_values_of_arms_that_emit_are_not_compared() -> None:
    text = """
pipeline p(a: bool) -> stream (n: i64) {
    if a {
        loop (i: i64 = 0) max 2 {
            emit n = i
            next i = i + 1
        }
    } else {
        loop (x: f32 = 0) max 2 {
            if x > 0.5 { emit n = 7 } else { emit n = 8 }
            next x = x + 1
        }
    }
}
"""
    assert sent(text, a=True) == [0, 1]
    assert sent(text, a=False) == [8, 7]


def test_what_runs_in_place_of_a_try_may_emit() -> None:
    text = """
pipeline p(x: i64[N]) -> stream (n: i64) {
    y = try x[2] else {
        emit n = 9
        0
    }
    try x[1] + y else {
        emit n = 8
        0
    }
    emit n = len(x)
}
"""
    assert sent(text, x=[1, 2, 3]) == [3]
    assert sent(text, x=[1]) == [9, 8, 1]


def test_mistakes_in_an_arm_that_only_emits_are_found() -> None:
    text = """
pipeline p(a: bool) -> stream (n: i64) {
    if a { emit n = 1.5 } else { y = nothing }
    match a { true => { emit n = 2 } }
    if 3 { emit n = 1 }
}
"""
    assert [one.code for one in mistakes(text)] == ["HR216", "HR101", "HR220", "HR206"]


def test_a_number_that_comes_back_is_a_numpy_scalar_whatever_has_made_it() -> None:
    text = """
pipeline p(n: i64, x: f32[3]) -> stream (n: i64, x: f32, s: string) {
    emit n = n, x = x[0], s = "a"
    emit n = n + 1, x = sum(x), s = text.join(["a", "b"], "")
    kept = for one in x { yield y = one when one > 0 }
    emit n = len(kept), x = 3, s = "c"
}
""".replace("\npipeline", "\nuse text\npipeline", 1)
    given = {"n": np.array(2), "x": np.ones(3, np.float32)}
    (found,) = answers(source(text), given)
    assert [(type(one["n"]), type(one["x"]), type(one["s"])) for one in found] == [
        (np.int64, np.float32, str)
    ] * 3
