"""What workers print, as the log shows it."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.isolation.output import Printed


def test_lines_are_shown_when_they_are_whole() -> None:
    printed = Printed()
    assert printed.take(b"one\ntw", 0.0) == ["one"]
    assert printed.take(b"o\r\nthree", 0.0) == ["two"]
    assert printed.take(b"", 0.0) == ["three"]
    assert printed.take(b"", 0.0) == []


def test_what_could_forge_or_colour_a_line_is_escaped() -> None:
    shown = Printed().take("a\x1b[31mred\x85\u2028\rb ü\n".encode() + b"\xff\n", 0.0)
    assert shown == ["a\\x1b[31mred\\x85\\u2028\\rb ü", "\\xff"]


def test_a_line_without_end_is_shown_once_and_not_kept() -> None:
    printed = Printed()
    lines = [line for _ in range(100) for line in printed.take(b"x" * 1000, 0.0)]
    assert [len(line) for line in lines] == [2004]
    assert printed.take(b"rest\nnext\n", 0.0) == ["next"]


def test_a_flood_is_cut_and_counted() -> None:
    printed = Printed()
    assert len(printed.take(b"x\n" * 5000, 10.1)) == 100
    assert printed.take(b"x\n" * 50, 10.9) == []
    assert printed.take(b"y\n", 11.0) == ["4950 lines more are left out", "y"]


@given(parts=st.lists(st.binary(max_size=3000), max_size=8))
def test_any_bytes_give_printable_lines_and_a_short_rest(parts: list[bytes]) -> None:
    printed = Printed()
    for part in [*parts, b""]:
        for line in printed.take(part, 0.0):
            assert line.isprintable()
            assert len(line) < 10_000
        assert len(printed.last) <= 4000
