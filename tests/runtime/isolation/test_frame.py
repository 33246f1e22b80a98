"""Frames: what is sent arrives, and what is no frame is refused."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.runtime.isolation.frame import (
    Frame,
    FrameError,
    Kind,
    pack,
    receive,
    receive_with_descriptor,
    send,
    unpack,
)
from tests.holding import descriptors

FRAME = Frame(Kind.CALL, 3, 4, 5, 6, 2**40)
frames = st.builds(
    Frame,
    st.sampled_from(Kind),
    *[st.integers(0, 2**32 - 1)] * 3,
    *[st.integers(0, 2**64 - 1)] * 2,
)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@given(frame=frames)
def test_a_frame_is_read_as_it_was_packed(frame: Frame) -> None:
    assert unpack(pack(frame)) == frame


@given(content=st.binary(max_size=100))
def test_other_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(FrameError):
        unpack(content)


@given(position=st.integers(0, len(pack(FRAME)) - 1), value=st.integers(0, 255))
def test_a_changed_byte_gives_another_frame_or_none(position: int, value: int) -> None:
    content = bytearray(pack(FRAME))
    content[position] = value
    with suppress(FrameError):
        assert isinstance(unpack(bytes(content)), Frame)


def test_a_frame_of_another_version_is_refused() -> None:
    content = bytearray(pack(FRAME))
    content[4] += 1
    with pytest.raises(FrameError, match="no frame of version 1"):
        unpack(bytes(content))


def test_a_descriptor_comes_with_its_frame(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    reader, writer = os.pipe()
    send(ours, FRAME, reader)
    os.close(reader)
    frame, descriptor = receive_with_descriptor(theirs)
    assert frame == FRAME
    assert descriptor is not None
    os.write(writer, b"through")
    os.close(writer)
    assert os.read(descriptor, 100) == b"through"
    os.close(descriptor)


def test_the_engine_keeps_no_descriptor_that_a_worker_sends(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    before = descriptors()
    send(theirs, FRAME, theirs.fileno())
    assert receive(ours) == FRAME
    assert not descriptors() - before


def test_an_end_is_told_from_a_part(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.sendall(pack(FRAME)[:7])
    theirs.close()
    with pytest.raises(FrameError, match="ends within a frame"):
        receive(ours)
    assert receive(ours) is None


def test_drops_of_a_frame_do_not_prolong_the_wait(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    theirs.sendall(pack(FRAME)[:7])
    left = iter([5.0, 0.0])
    with pytest.raises(TimeoutError):
        receive(ours, lambda: next(left))
