"""Responses that are many, and what they say beside their outputs."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest
from tritonclient.grpc import InferenceServerClient, InferInput

from headrace.runtime.engine import Engine
from headrace.runtime.request import Fault, Remarked, Request, Response
from headrace.runtime.triton_python.asked import Given, Responses
from headrace.runtime.triton_python.worker.triton_python_backend_utils.batches import (
    Group,
    Layout,
    Reading,
    Writing,
)
from headrace.runtime.triton_python.worker.triton_python_backend_utils.contents import Malformed
from headrace.runtime.triton_python.worker.triton_python_backend_utils.engine import (
    Engine as WorkerEngine,
)
from headrace.runtime.triton_python.worker.triton_python_backend_utils.link import (
    ROOM,
    ROOM_BYTES,
    Link,
)
from headrace.triton.serving import Options
from tests.triton.comparing import ask
from tests.triton.test_run import anywhere, following

EMPTY = Given({})
REMARKS = """
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(n, one) for n, one in enumerate(requests)]

    def answer(self, n, request):
        given = request.inputs()[0].as_numpy()
        if given[0, 0] < 0:
            return pb.InferenceResponse([pb.Tensor("Y", given)])
        said = {"id": request.request_id(), "rows": len(given), "whole": True, "part": 0.5}
        return pb.InferenceResponse([pb.Tensor("Y", given)], parameters=said)
"""
CUTS = """
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(one.inputs()[0].as_numpy()) for one in requests]

    def answer(self, given):
        return pb.InferenceResponse([pb.Tensor("Y", given[:, : int(given[0, 0])])])
"""
SENDS_ALL = """
from pathlib import Path

import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender, given = request.get_response_sender(), request.inputs()[0].as_numpy()
            for n in range(int(given[0])):
                sender.send(pb.InferenceResponse([pb.Tensor("Y", given * 0 + n)]))
                if n == 0:
                    Path("GATE").read_text()
            if given[1] > 0:
                raise ValueError("that is all")
            sender.send(flags=pb.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
FORGETS = """
import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(one.inputs()[0].as_numpy()) for one in requests]

    def answer(self, given):
        return None if given[0, 0] < 0 else pb.InferenceResponse([pb.Tensor("Y", given)])
"""
TENSORS = (
    'input { name: "X" data_type: TYPE_FP32 dims: [ 2 ] }\n'
    'output { name: "Y" data_type: TYPE_FP32 dims: [ 2 ] }\nmax_batch_size: 4\n'
)


@pytest.fixture
def worker() -> Iterator[tuple[WorkerEngine, Link]]:
    here, there = socket.socketpair()
    late = os.eventfd(0)
    with here, there:
        yield WorkerEngine(Link(there), late), Link(here)
    os.close(late)


def test_a_model_waits_for_who_reads_too_slowly(worker: tuple[WorkerEngine, Link]) -> None:
    engine, link = worker
    count = 4 * ROOM

    def send() -> None:
        for number in range(count):
            engine.respond(7, {"do": "response", "number": number}, [])

    sending = threading.Thread(target=send)
    sending.start()

    def take(most: int) -> list[int]:
        found: list[dict[str, Any]] = [link.receive()[0] for _ in range(most)]  # type: ignore[misc] JSON
        return [one["number"] for one in found]

    assert take(ROOM) == list(range(ROOM))
    assert not engine.rooms[7].is_there()  # until it is told otherwise
    link.send({"do": "room", "count": ROOM // 2}, (), 7)
    assert take(ROOM // 2) == list(range(ROOM, ROOM + ROOM // 2))
    assert not engine.rooms[7].is_there()
    link.send({"do": "room", "count": 5}, (), 8)  # one that is over
    link.send({"do": "room", "count": None}, (), 7)
    assert take(count - ROOM - ROOM // 2)[-1] == count - 1
    sending.join()


def test_large_responses_take_the_room_of_many(worker: tuple[WorkerEngine, Link]) -> None:
    engine, _ = worker
    engine.respond(1, {"do": "response"}, [])
    engine.rooms[1].sizes.append(ROOM_BYTES)
    assert not engine.rooms[1].is_there()
    engine.rooms[1].make(2)
    assert engine.rooms[1].is_there()


def test_a_model_hears_of_what_is_taken_now_and_then() -> None:
    heard: list[int | None] = []
    responses = Responses()
    responses.attend(heard.append)
    for _ in range(ROOM):
        responses.put(EMPTY)
    for _ in range(ROOM):
        assert responses.take() == EMPTY
    assert heard == [ROOM // 2, ROOM // 2]
    responses.put(EMPTY, ROOM_BYTES)
    assert responses.take() == EMPTY
    assert heard[2:] == [1]
    responses.leave()
    assert heard[3:] == [None]
    responses.leave()
    assert heard[3:] == [None]
    responses.put(EMPTY)  # by a model that began when its caller had gone, and heard of no one
    assert heard[4:] == [None]


def test_a_model_that_has_answered_hears_of_no_one_leaving() -> None:
    heard: list[int | None] = []
    responses = Responses()
    responses.attend(heard.append)
    responses.end()
    responses.leave()
    assert heard == []


@pytest.mark.slow
def test_many_responses_come_in_order(engine: Engine) -> None:
    given = {"COUNT": np.array([5 * ROOM], np.int32)}
    found = engine.submit(Request("numbers", given)).result(30).outputs["N"]
    assert [int(np.asarray(one)[0]) for one in found] == list(range(5 * ROOM))  # type: ignore[union-attr] a list


@pytest.mark.slow
@anywhere
def test_responses_are_read_while_their_model_executes(tmp_path: Path, options: Options) -> None:
    count, version = 3 * ROOM, tmp_path / "models/m/1"
    version.mkdir(parents=True)
    gate = tmp_path / "go"
    os.mkfifo(gate)
    source = SENDS_ALL.replace("GATE", str(gate))
    (version / "model.py").write_text(source)
    kind = 'backend: "python"\nmodel_transaction_policy { decoupled: true }\n'
    (version.parent / "config.pbtxt").write_text(kind + TENSORS.partition("max_batch_size")[0])
    heard: SimpleQueue[tuple[Any, Any]] = SimpleQueue()  # Any: of a package without types

    def hear(result: Any, error: Any) -> None:
        heard.put((result, error))

    with (
        following(tmp_path / "models", options) as (_, _, grpc),
        InferenceServerClient(grpc) as client,
    ):
        client.start_stream(hear)
        for fails in (0, 1):
            given = InferInput("X", [2], "FP32")
            given.set_data_from_numpy(np.array([count, fails], np.float32))
            client.async_stream_infer("m", [given], enable_empty_final_response=True)
            found = [heard.get(timeout=30)]
            gate.write_text("on")
            found += [heard.get(timeout=30) for _ in range(count)]
            numbers = [int(result.as_numpy("Y")[0]) for result, _ in found[:-1]]
            assert numbers == list(range(count))
            assert bool(fails) == ("that is all" in str(found[-1][1]))
        client.stop_stream()


@pytest.mark.slow
@anywhere
def test_parameters_of_a_response_are_those_of_the_answer(tmp_path: Path, options: Options) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.py").write_text(REMARKS)
    (tmp_path / "m" / "config.pbtxt").write_text(
        f'backend: "python"\n{TENSORS}dynamic_batching {{ }}'
    )
    with following(tmp_path, options) as (follower, http, grpc):
        nested = follower.repository.nested
        asked: list[tuple[str, Future[Response]]] = []
        for number in range(12):
            x = np.full((1 + number % 2, 2), number % 3 - 1, np.float32)
            asked.append((str(number), nested.submit(Request("m", {"X": x}, str(number)), "")))
        for number, (id, answer) in enumerate(asked):
            outputs = answer.result(30).outputs
            if number % 3 == 0:
                assert not isinstance(outputs, Remarked)
                continue
            assert isinstance(outputs, Remarked)
            said = {"id": id, "rows": 1 + number % 2, "whole": True, "part": 0.5}
            assert outputs.parameters == said
        data = {"name": "X", "datatype": "FP32", "shape": [1, 2], "data": [1, 1]}
        _, told = ask(f"http://{http}", "models/m/infer", {"id": "w", "inputs": [data]})
        assert told["parameters"] == {"id": "w", "rows": 1, "whole": True, "part": 0.5}
        with InferenceServerClient(grpc) as client:
            given = InferInput("X", [1, 2], "FP32")
            given.set_data_from_numpy(np.ones((1, 2), np.float32))
            answer = client.infer("m", [given], request_id="g")
            assert answer is not None
            found = answer.get_response().parameters
            assert found["id"].string_param == "g"
            assert (found["rows"].int64_param, found["whole"].bool_param) == (1, True)
            assert found["part"].double_param == 0.5


def test_a_layout_is_told_once_and_rows_of_many_are_cut_apart() -> None:
    writing, reading = Writing(), Reading()
    layout = Layout((("x", "FP32", (2,)), ("s", "BYTES", ())), True)
    x, s = np.arange(10, dtype=np.float32).reshape(5, 2), np.array(["a", "", "c", "d", "é"], object)
    sizes: list[int] = []
    for _ in range(2):
        chunks: list[Any] = []
        head = writing.pack([Group(layout, (2, 3), [x, s])], chunks)
        content = b"".join(bytes(one) + bytes(-len(one) % 64) for one in chunks)
        (group,) = reading.unpack(head, 0, bytearray(content))
        sizes.append(len(head))
        (first, second) = group.members()
        assert (group.layout, group.counts) == (layout, (2, 3))
        assert np.array_equal(first[0][2], x[:2])
        assert np.array_equal(second[0][2], x[2:])
        assert second[1][2].tolist() == [b"c", b"d", "é".encode()]
    assert sizes[1] < sizes[0]
    writing.forget()
    assert len(writing.pack([Group(layout, (2, 3), [x, s])], [])) == sizes[0]


@pytest.mark.parametrize(
    "told",
    [
        [True, [["x", "FP32", [-1]]]],
        [True, [["x", "FP32", [1.5]]]],
        [True, [["x", "FP99", [1]]]],
        [True, [[7, "FP32", [1]]]],
        [True, [["x", "FP32"]]],
        [True, 7],
        {"x": 1},
    ],
)
def test_a_layout_that_is_none_is_refused(told: Any) -> None:  # Any: JSON
    text = json.dumps(told).encode()
    head = b"\1\0\0\0" + b"\0\0\0\0" + b"\1\0\0\0" + len(text).to_bytes(4, "little") + text
    with pytest.raises(Malformed):
        Reading().unpack(head + b"\1\0\0\0" + b"\4" + b"\0" * 7, 0, bytearray(64))


@pytest.mark.parametrize("place", range(4, 60, 4))
def test_a_head_with_another_number_in_it_is_refused_or_read(place: int) -> None:
    chunks: list[Any] = []
    layout = Layout((("x", "FP32", (2,)),), True)
    head = bytearray(Writing().pack([Group(layout, (2,), [np.ones((2, 2), np.float32)])], chunks))
    head[place : place + 4] = b"\xff\xff\xff\x7f"
    try:
        for group in Reading().unpack(bytes(head), 0, bytearray(64)):
            assert sum(map(np.size, group.arrays)) <= 16
    except Malformed:
        pass


@pytest.mark.slow  # a process, and three times that go by
def test_a_request_that_a_model_forgets_keeps_no_thread_once_it_is_over(tmp_path: Path) -> None:
    (tmp_path / "m/1").mkdir(parents=True)
    (tmp_path / "m/1/model.py").write_text(FORGETS)
    (tmp_path / "m/config.pbtxt").write_text(f'backend: "python"\n{TENSORS}')
    with following(tmp_path) as (_, http, _):

        def status(value: float, timeout: int) -> int:
            row = {"name": "X", "datatype": "FP32", "shape": [1, 2], "data": [value, 0]}
            body = {"inputs": [row], "parameters": {"timeout": timeout}}
            return ask(http if "//" in http else f"http://{http}", "models/m/infer", body)[0]

        # More than there are threads.
        assert [status(-1, 100_000) for _ in range(3)] == [503] * 3
        assert status(1, 60_000_000) == 200


@pytest.mark.slow
def test_each_answer_is_held_to_its_shape_whatever_was_answered_before(tmp_path: Path) -> None:
    folder = tmp_path / "cuts"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "model.py").write_text(CUTS)
    (folder / "config.pbtxt").write_text('backend: "python" ' + TENSORS)
    with following(tmp_path) as (follower, _, _):
        nested = follower.repository.nested
        for width in (2, 2, 1, 1, 2):
            found = nested.submit(Request("cuts", {"X": np.full((1, 2), width, np.float32)}), "")
            if width == 2:
                assert np.asarray(found.result(60).outputs["Y"]).tolist() == [[2, 2]]
            else:
                with pytest.raises(Fault, match="Y"):
                    found.result(60)
