"""The receiver of a stream's responses, without an engine."""

from headrace.runtime.streams import Stream
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
