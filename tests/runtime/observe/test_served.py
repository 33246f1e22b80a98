"""Requests of a server: which are recorded, whose trace they continue, and what the log says."""

import io
import json
import logging
import queue
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from tritonclient import grpc as triton_grpc

from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.observe.log import lines
from headrace.runtime.observe.observer import ASKS, Observer, Sampling
from headrace.runtime.observe.recording import Recording
from headrace.runtime.request import Code, Fault
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from headrace.runtime.service import explain
from tests.runtime.observe.pipes import plan_in
from tests.runtime.wire.conftest import free_ports

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"


class Heap:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.taken: list[Recording] = []
        self.closed = False

    def take(self, recording: Recording) -> None:
        self.taken.append(recording)

    def close(self) -> None:
        self.closed = True


class Watched:
    """A server and its observer; `over` ends both and returns what was recorded."""

    def __init__(self, engine: Engine, sampling: Sampling, carrier: Carrier = Carrier.AUTO) -> None:
        self.heap = Heap()
        self._observer = Observer([self.heap], sampling, seed=0)
        self.server: Server = serve([engine], free_ports(carrier), self._observer)

    def over(self) -> list[Recording]:
        self.server.stop()
        self._observer.close()
        assert self.heap.closed
        return self.heap.taken

    def ask(
        self, x: float, headers: dict[str, str] | None = None, **more: object
    ) -> httpx.Response:
        tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [x]}
        url = f"http://{self.server.addresses.http}/v2/models/fails/infer"
        return httpx.post(url, json={"inputs": [tensor], **more}, headers=headers)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(plan_in(tmp_path).plan, EngineConfig(workers=2, intra_op_threads=1))
    yield made
    made.close()


def test_who_asks_is_recorded_where_the_operator_lets_them(engine: Engine) -> None:
    watched = Watched(engine, Sampling(on_request=True))
    watched.ask(1.0)
    watched.ask(1.0, {ASKS: "1"}, id="by-header")
    watched.ask(1.0, id="by-parameter", parameters={ASKS: True})
    watched.ask(1.0, id="no", parameters={ASKS: False})
    assert [one.request_id for one in watched.over()] == ["by-header", "by-parameter"]


def test_who_asks_is_not_recorded_where_nobody_lets_them(engine: Engine) -> None:
    watched = Watched(engine, Sampling(rate=0.0))
    assert watched.ask(1.0, {ASKS: "1"}).status_code == 200
    assert watched.over() == []


@pytest.mark.slow
def test_a_part_of_the_requests_is_recorded_by_chance(engine: Engine) -> None:
    watched = Watched(engine, Sampling(rate=0.5))
    for _ in range(40):
        watched.ask(1.0)
    assert 8 <= len(watched.over()) <= 32


def test_what_fails_is_recorded_with_its_fault(engine: Engine) -> None:
    watched = Watched(engine, Sampling(rate=1.0))
    assert watched.ask(5.0, id="bad").status_code == 500
    (recording,) = watched.over()
    assert recording.fault is not None
    assert recording.fault.stage == "reject"
    assert not recording.kept  # no values: they are their caller's


@pytest.mark.parametrize("carrier", [Carrier.NATIVE, Carrier.GRPCIO])
def test_a_caller_whose_trace_is_sampled_decides_on_both_protocols(
    engine: Engine, carrier: Carrier
) -> None:
    watched = Watched(engine, Sampling(rate=0.0, continued=True), carrier)
    watched.ask(1.0, {"traceparent": PARENT + "1"}, id="http")
    watched.ask(1.0, {"traceparent": PARENT + "0"}, id="not sampled")
    watched.ask(1.0, {"traceparent": "nonsense"}, id="nonsense")
    tensor = triton_grpc.InferInput("x", [1], "FP32")
    tensor.set_data_from_numpy(np.ones(1, np.float32))
    with triton_grpc.InferenceServerClient(str(watched.server.addresses.grpc)) as client:
        client.infer("fails", [tensor], request_id="grpc", headers={"traceparent": PARENT + "1"})
    found = watched.over()
    assert [one.request_id for one in found] == ["http", "grpc"]
    assert all(one.parent["traceparent"] == PARENT + "1" for one in found)


class Full(Heap):
    """A sink that can write nothing of the first two recordings, and then again."""

    def take(self, recording: Recording) -> None:
        super().take(recording)
        if len(self.taken) <= 2:
            raise OSError(f"no space left on device for {recording.pipeline.name}")


def test_a_sink_that_cannot_write_ends_nothing(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    full, heap = Full(), Heap()
    observer = Observer([full, heap], Sampling(rate=1.0))
    with serve([engine], free_ports(Carrier.AUTO), observer) as server:
        tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}
        url = f"http://{server.addresses.http}/v2/models/fails/infer"
        for _ in range(4):
            assert httpx.post(url, json={"inputs": [tensor]}).status_code == 200
    observer.close()
    assert (len(heap.taken), observer.dropped) == (4, 2)
    assert [one.getMessage() for one in caplog.records] == [
        "traces cannot be written; it is said when they can again",
        "traces can be written again; 2 were dropped",
    ]


def test_a_stream_is_recorded_like_any_other_request(engine: Engine) -> None:
    watched = Watched(engine, Sampling(rate=1.0))
    tensor = triton_grpc.InferInput("n", [1], "INT64")
    tensor.set_data_from_numpy(np.array([3], np.int64))
    answers: queue.Queue[object] = queue.Queue()

    def answered(result: object, error: object) -> None:
        answers.put(error or result)

    with triton_grpc.InferenceServerClient(str(watched.server.addresses.grpc)) as client:
        client.start_stream(answered)
        client.async_stream_infer("counted", [tensor], request_id="turns")
        for _ in range(3):
            answers.get(timeout=20)
        client.stop_stream()
    (recording,) = watched.over()
    assert (recording.request_id, len(recording.emitted)) == ("turns", 3)
    assert recording.fault is None


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_failed_request_is_one_line_with_the_id_of_the_reply(engine: Engine, form: str) -> None:
    watched, out = Watched(engine, Sampling()), io.StringIO()
    hostile = 'x"\n{"level": "error"} \x1b[31m'
    with lines(form, "info", out):
        failed = watched.ask(5.0, id=hostile)
        refused = httpx.post(
            f"http://{watched.server.addresses.http}/v2/models/fails/infer",
            json={"inputs": [], "id": "k-2"},
        )
        watched.over()
    assert (failed.status_code, refused.status_code) == (500, 400)
    first, second = out.getvalue().splitlines()
    assert all(char.isprintable() for char in first + second)
    assert "k-2" in second
    if form == "json":
        told = json.loads(first)
        assert told["request"] == hostile
        assert (told["level"], told["code"]) == ("error", "failed")
        assert (told["pipeline"], told["stage"]) == ("fails", "reject")
        assert told["place"].startswith("a.pipe:")
        assert "Traceback" in told["detail"]
        assert json.loads(second)["level"] == "info"
    else:
        assert "code=failed pipeline=fails stage=reject" in first


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_message_is_escaped_once(form: str) -> None:
    out = io.StringIO()
    with lines(form, "info", out):
        explain(Fault(Code.FAILED, 'it\'s "é"\n\x1b[31m'))
    escaped = 'it\'s "\\xe9"\\n\\x1b[31m'
    line = out.getvalue().rstrip("\n")
    assert escaped == json.loads(line)["message"] if form == "json" else line.endswith(escaped)


def test_a_line_is_cut_however_much_is_put_into_it() -> None:
    out = io.StringIO()
    with lines("json", "info", out):
        logging.getLogger("headrace.x").info(
            "a" * 100_000, extra={"headrace": {"request": "b" * 100_000}}
        )
    assert len(out.getvalue()) < 3000
    assert logging.getLogger("headrace").propagate
