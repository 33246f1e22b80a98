"""Asking a worker that does not keep to the rules: the engine refuses what it sends, in time."""

import socket
import struct
from collections.abc import Iterator
from time import monotonic

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.runtime.isolation.channel import BROKEN, Channel, NotAsked, WorkerError
from headrace.runtime.isolation.frame import (
    Frame,
    FrameError,
    Kind,
    pack,
    receive_with_descriptor,
    send,
)
from headrace.runtime.isolation.memory import LIMIT, Arena
from headrace.runtime.isolation.message import Message
from headrace.runtime.isolation.reading import Malformed

SIZE = len(pack(Frame(Kind.CLOSE)))
kinds = st.sampled_from(Kind)
numbers = st.one_of(st.integers(0, 3), st.integers(0, 2**32 - 1))
lengths = st.one_of(st.integers(0, 70_000), st.integers(0, 2**64 - 1))
frames = st.builds(Frame, kinds, st.just(1), numbers, st.integers(0, 1), lengths, lengths)


class Worker:
    """The other end, in the test's hands. `reply` is where the answer belongs."""

    def __init__(self) -> None:
        ours, self.socket = socket.socketpair()
        self.channel, self._ours = Channel(ours), ours
        self.arena = self.channel.ask(Kind.CALL, Message([np.ones(3)]))
        self.memory: dict[int, Arena] = {}
        while (frame := receive_with_descriptor(self.socket))[0] is not None:
            got, descriptor = frame
            assert got is not None
            if got.kind is Kind.CALL:
                self.asked = got
                break
            assert descriptor is not None
            self.memory[got.arena] = Arena(got.arena, descriptor, got.size, writable=got.reply == 1)
            socket.close(descriptor)

    def answer(self, *values: object, **changed: int) -> None:
        message = Message(list(values))
        message.write(self.memory[self.asked.reply].view)
        frame = Frame(Kind.RESULT, 1, self.asked.reply, 0, message.tree, message.size)
        send(self.socket, frame._replace(**changed))

    def close(self) -> None:
        self.socket.close()
        self._ours.close()
        self.channel.close()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


def test_an_answer_in_its_memory_is_taken(worker: Worker) -> None:
    worker.answer([1, "a"])
    assert worker.channel.answer(worker.arena, None) == [1, "a"]


@pytest.mark.parametrize(
    "changed",
    [{"call": 2}, {"arena": 99}, {"kind": Kind.CALL}, {"size": 2**60}, {"tree": 2**40}],
)
def test_an_answer_to_something_else_is_refused(worker: Worker, changed: dict[str, int]) -> None:
    worker.answer(1, **changed)
    with pytest.raises((FrameError, Malformed)):
        worker.channel.answer(worker.arena, None)


@pytest.mark.parametrize("size", [0, 1, 1 << 16, LIMIT + 1, 2**64 - 1])
def test_room_is_made_for_no_answer_that_is_not_larger_or_too_large(
    worker: Worker, size: int
) -> None:
    send(worker.socket, Frame(Kind.GROW, 1, size=size))
    with pytest.raises(FrameError):
        worker.channel.answer(worker.arena, None)


def test_room_is_made_once(worker: Worker) -> None:
    send(worker.socket, Frame(Kind.GROW, 1, size=1 << 20))
    send(worker.socket, Frame(Kind.GROW, 1, size=1 << 21))
    with pytest.raises(FrameError):
        worker.channel.answer(worker.arena, None)


def test_an_exception_wants_three_texts(worker: Worker) -> None:
    worker.answer("ValueError", "13", 7, kind=Kind.RAISED)
    with pytest.raises(Malformed, match="without its name"):
        worker.channel.answer(worker.arena, None)


def test_an_exception_of_no_name_is_an_exception(worker: Worker) -> None:
    worker.answer("os.system('x')\x00", "13", "trace", kind=Kind.RAISED)
    with pytest.raises(WorkerError, match="13") as caught:
        worker.channel.answer(worker.arena, None)
    assert type(caught.value).__name__ == "Exception"


def test_an_end_in_place_of_an_answer_is_told(worker: Worker) -> None:
    worker.socket.close()
    with pytest.raises(EOFError):
        worker.channel.answer(worker.arena, None)
    with pytest.raises(NotAsked):
        worker.channel.ask(Kind.CALL, Message([1]))


def test_an_answer_that_comes_in_drops_is_late(worker: Worker) -> None:
    worker.socket.sendall(pack(Frame(Kind.RESULT, 1))[:-1])
    with pytest.raises(TimeoutError):
        worker.channel.answer(worker.arena, monotonic() + 0.01)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.lists(frames, max_size=3), rest=st.binary(max_size=SIZE), memory=st.binary())
def test_whatever_a_worker_sends_ends_in_time(
    sent: list[Frame], rest: bytes, memory: bytes
) -> None:
    worker = Worker()
    try:
        reply = worker.memory[worker.asked.reply].view
        reply[: len(memory)] = memory
        for frame in sent:
            frame = frame._replace(arena=worker.asked.reply) if frame.arena == 1 else frame
            send(worker.socket, frame)
        worker.socket.sendall(rest)
        worker.socket.shutdown(socket.SHUT_WR)
        try:
            worker.channel.answer(worker.arena, None)
        except (*BROKEN, WorkerError):
            pass
    finally:
        worker.close()


def test_frames_have_one_size() -> None:
    assert SIZE == 40
    assert struct.calcsize("<4sHHIIIxxxxQQ") == SIZE
