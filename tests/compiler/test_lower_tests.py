"""`test` items: what is said of names that their pipelines do not have."""

from headrace.compiler import check
from headrace.dsl.source import Source


def test_names_in_what_a_test_expects_are_checked():
    found = check(
        Source(
            "p.pipe",
            """
use image

pipeline p(x: u8[H, W, 3], k: i64 = 2) -> (y: u8[H, W, 3]) {
    return y = image.rotate180(x)
}

test "right" for p {
    given x = [[[1, 2, 3]]]
    expect len(y) == k and x[0] == y[0]
    expect calls(image.rotate180) == 1
    expect file("a.txt") == bytes("a.txt")
    expect cast(y, f32)[0] == [1, 2, 3]
}

test "wrong" for p {
    given x = [[[1, 2, 3]]]
    expect len(yy) == k and z[0] == [1]
    expect calls(image.rotate18) == 1
}
""",
        )
    )
    assert [(one.code, one.primary.span.text, one.primary.span.line) for one in found] == [
        ("HR118", "yy", 18),
        ("HR118", "z", 18),
        ("HR118", "image.rotate18", 19),
    ]
    assert found[2].help == "did you mean `image.rotate180`?"


def test_a_misspelt_use_is_one_mistake():
    found = check(
        Source(
            "p.pipe",
            """
use imag

pipeline p(x: u8[H, W, 3]) -> (y: u8[H, W, 3]) {
    return y = image.rotate180(image.rotate180(x))
}
""",
        )
    )
    assert [(one.code, one.primary.span.line) for one in found] == [("HR102", 2)]


def test_what_a_test_calls_is_checked_before_it_runs():
    found = check(
        Source(
            "p.pipe",
            """
pipeline p(x: i64) -> (y: i64) { return y = x }

test "right" for p {
    given x = len([1, 2])
    expect y == sum([1, 1]) and calls(cast) == 0 or len(bytes("a.txt")) > math.abs(-3)
}

test "wrong" for p {
    given x = calls(p)
    expect image.resise(nope(3)) == 3 or lem(y) == 1
}
""",
        )
    )
    assert [(one.code, one.primary.span.text, one.help) for one in found] == [
        ("HR118", "cast", None),
        ("HR118", "calls", None),
        ("HR118", "image.resise", "did you mean `image.resize`?"),
        ("HR118", "nope", "did you mean `npy`?"),
        ("HR118", "lem", "did you mean `len`?"),
    ]
