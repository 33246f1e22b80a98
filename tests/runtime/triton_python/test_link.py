"""What goes between an engine and a worker, and what of it is believed."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from headrace.runtime.triton_python.worker.triton_python_backend_utils.contents import (
    DTYPES,
    Malformed,
    Places,
    deserialized,
    pack,
    serialized,
)
from headrace.runtime.triton_python.worker.triton_python_backend_utils.link import (
    INLINE,
    Link,
    Responded,
)


@pytest.fixture
def ends() -> Iterator[tuple[Link, Link, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield Link(here), Link(there), here


def sent(ends: Any, *tensors: tuple[str, str, Any]) -> list[tuple[str, str, Any]]:
    chunks: list[Any] = []
    told = pack(tensors, chunks)
    ends[0].send({"tensors": told}, chunks)
    header, content, _ = ends[1].receive()
    return header["tensors"].arrays(content)


@pytest.mark.parametrize("name", DTYPES)
def test_values_of_every_type_come_as_they_were(ends: Any, name: str) -> None:
    values = np.arange(24).astype(DTYPES[name]).reshape(2, 3, 4)
    for given in (values, values[:, ::2], values[:0], values[0, 0, 0].reshape(())):
        [(found, datatype, array)] = sent(ends, ("x", name, given))
        assert (found, datatype, array.dtype) == ("x", name, DTYPES[name])
        assert np.array_equal(array, given)
        assert array.shape == given.shape


def test_texts_come_as_bytes(ends: Any) -> None:
    given = np.array([["a", b"\xff\x00"], ["", "ü"]], object)
    [(_, _, found)] = sent(ends, ("x", "BYTES", given))
    assert found.tolist() == [[b"a", b"\xff\x00"], [b"", "ü".encode()]]
    assert deserialized(serialized(found)).tolist() == found.ravel().tolist()


def test_large_ones_are_mapped_and_may_be_written_to(ends: Any) -> None:
    given = np.arange(INLINE, dtype=np.int32)
    small = np.arange(3, dtype=np.float32)
    (_, _, first), (_, _, second) = sent(ends, ("a", "INT32", given), ("b", "FP32", small))
    assert np.array_equal(first, given)
    assert np.array_equal(second, small)
    first[0] = 7  # models may write to what they are given
    assert given[0] == 0


def test_one_that_goes_through_the_socket_waits_for_no_reader(ends: Any) -> None:
    given = np.arange(INLINE, dtype=np.uint8)
    ends[2].setblocking(False)
    [(_, _, found)] = sent(ends, ("x", "UINT8", given))
    assert np.array_equal(found, given)


@pytest.mark.parametrize(
    "told",
    [
        ["x", "INT32", [3], 8],
        ["x", "INT32", [-1], 4],
        ["x", "INT32", [1 << 62, 1 << 62], 4],
        ["x", "INT32", [2.0], 8],
        ["x", "INT99", [2], 8],
        ["x", "INT32", [1000], 4000],
        ["x", "BYTES", [1], 8],
        [5, "INT32", [2], 8],
        ["x", "INT32", [2], -8],
        ["x"],
        7,
    ],
)
def test_what_is_said_of_a_tensor_is_held_against_what_is_there(told: Any) -> None:
    with pytest.raises(Malformed):
        Places.of([told]).arrays(bytearray(b"\x09" * 8))


@pytest.mark.parametrize(
    "content",
    [
        b"nonsense that is long enough to be a head",
        b"hrtp\x02\x00\x01\x00" + b"\0" * 24,
        b"hrtp\x03\x00\x01\x00\xff\xff\xff\xff" + b"\0" * 20,
        b"hrtp\x03\x00\x01\x00\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\0\0\0" + b"\0" * 8,
        b"hrtp\x03\x00\x01\x00\x02\0\0\0" + b"\0" * 20 + b"[]",
        b"hrtp\x03\x00\x01\x00\x02\0\0\0" + b"\0" * 20 + b"{]",
    ],
)
def test_what_is_no_message_is_refused_before_it_is_read(ends: Any, content: bytes) -> None:
    ends[2].sendall(content)
    with pytest.raises(Malformed):
        ends[1].receive()


def test_an_end_within_a_message_is_an_end(ends: Any) -> None:
    ends[0].send({"x": json.dumps([1] * 50)})
    ends[2].shutdown(socket.SHUT_WR)
    ends[1].receive()
    with pytest.raises(EOFError):
        ends[1].receive()


def test_what_is_said_again_comes_with_its_own_number_and_values(ends: Any) -> None:
    for number in range(3, 6):
        chunks: list[Any] = []
        given = np.arange(number, number + 4, dtype=np.int32)
        told = Responded("response", 0, "", pack([("x", "INT32", given)], chunks))
        ends[0].send(told, chunks, number)
        header, content, found = ends[1].receive()
        assert (header["do"], header["final"], found) == ("response", 0, number)
        [(_, _, array)] = header["tensors"].arrays(content)
        assert np.array_equal(array, given)


def test_what_is_said_again_is_held_against_what_is_there(ends: Any) -> None:
    told = Responded("response", 0, "", (("x", "INT32", (4,), 16),))
    for content in (bytes(16), bytes(4)):
        ends[0].send(told, [content], 1)
    header, content, _ = ends[1].receive()
    assert len(header["tensors"].arrays(content)) == 1
    again, content, _ = ends[1].receive()
    assert again is header
    with pytest.raises(Malformed):
        again["tensors"].arrays(content[:4])


def test_any_number_of_different_headers_may_be_said(ends: Any) -> None:
    for turn in range(2):
        for size in range(1500):
            ends[0].send(Responded("response", turn, "", (("x", "INT8", (size,), size),)), (), 1)
            header, _, _ = ends[1].receive()
            assert (header["final"], header["tensors"].end) == (turn, size)
