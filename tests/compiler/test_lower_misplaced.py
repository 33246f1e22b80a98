"""Statements that stand where they may not: one mistake each, and no other because of it."""

from tests.compiler.sources import found_in


def test_a_misplaced_yield_or_return_causes_no_mistake_elsewhere_and_hides_none():
    assert found_in("""
pipeline p(x: f32[N], c: bool) -> (y: f32[N]) {
    half = x / 2.0
    yield z = half when c
    w = if c { return v = half } else { half }
    yield u = nothing
    return y = z + u + w
}
""") == ["HR320 4:5", "HR320 5:16", "HR320 6:5", "HR101 6:15"]
