"""The receiver of a stream's responses, without an engine."""

import pytest

from headrace.runtime.streams import MANY, ROOM, SMALL, Stream
from headrace.stdlib.op import Item


def test_a_reader_is_told_once_until_it_has_taken_what_is_there() -> None:
    told: list[None] = []

    def make(outputs: dict[str, Item]) -> Item:
        return outputs["n"]

    stream = Stream(make, lambda: told.append(None), lambda _: None, lambda _: None)
    for n in ("a", "b", "c"):
        stream.emit({"n": n})
    assert len(told) == 1
    assert stream.take() == ["a", "b", "c"]
    stream.emit({"n": "d"})
    assert len(told) == 2
    stream.give({})
    assert len(told) == 3
    assert not stream.over
    assert stream.take() == ["d"]
    assert stream.over


@pytest.mark.parametrize(
    ("made", "room"),
    [(b"small", MANY), (b"x" * 512, MANY), (b"x" * 1024, 64), (b"x" * SMALL, ROOM), ({}, ROOM)],
    ids=["small", "some that fill it", "larger", "large", "values"],
)
def test_more_responses_wait_while_they_are_small(made: object, room: int) -> None:
    """Each park costs two threads a turn."""
    stream = Stream[object](lambda _: made, lambda: None, lambda _: None, lambda _: None)
    for _ in range(2):  # what is taken makes room for as many
        assert [stream.emit({}) for _ in range(room)] == [True] * (room - 1) + [False]
        assert len(stream.take()) == room
