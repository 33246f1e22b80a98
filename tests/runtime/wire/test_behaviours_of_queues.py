"""B20 to B23 over the wire: bounds, times, priorities, and requests that are given up anywhere."""

import json
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
from tritonclient.utils import InferenceServerException

from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.behaviour_pipes import MEETING, compiled
from tests.runtime.wire.conftest import eventually, free_ports
from tests.runtime.wire.ways import WAYS, Held, Way, words

FUNCTIONS = """
import meeting_of_behaviours as meeting

def first(tag):
    meeting.come(f"first {tag}")
    return tag

def second(tag):
    meeting.come(f"second {tag}")
    return tag
"""
PIPE = """
fn first(tag: string) -> (tag: string) = python "functions.py:first"
fn second(tag: string) -> (tag: string) = python "functions.py:second"

pipeline both(tag: string) -> (tag: string) { return tag = second(first(tag)) }
pipeline bounded(tag: string) -> (tag: string) { return tag = first(tag) }
pipeline timed(tag: string) -> (tag: string) { return tag = first(tag) }
pipeline inside(tag: string) -> (tag: string) { return tag = second(first(tag)) }
pipeline levels(tag: string) -> (tag: string) { return tag = first(tag) }

schedule both on "server"    { second { resources { place = 1 } }, resources { place = 1 } }
schedule bounded on "server" { queue { size = 4 } }
schedule timed on "server"   { queue { size = 8, timeout = 200ms } }
schedule inside on "server"  { second { resources { place = 1 }, queue { size = 1 } } }
schedule levels on "server"  { priority { levels = 3, default = 3 } }
"""
REFUSED = ("503", "StatusCode.UNAVAILABLE")
LATE = ("503", "StatusCode.DEADLINE_EXCEEDED")


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return compiled(tmp_path_factory.mktemp("queues"), PIPE, FUNCTIONS)


@dataclass(frozen=True, slots=True)
class Served:
    """A server with `workers` of its engine, and the hold of its stages."""

    engine: Engine
    server: Server
    held: Held

    def waiting(self, pipeline: str, count: int) -> None:
        """Return when so many requests wait to be started."""
        eventually(lambda: self.engine.metrics.pipeline(pipeline).pending == count)

    def queued(self, count: int) -> None:
        """Return when so many works wait in front of stages."""
        eventually(lambda: self._left().get("works in queues", 0) == count)

    def settled(self) -> None:
        """Return when nothing is left of any request."""
        eventually(lambda: self._left() == {})

    def _left(self) -> dict[str, int]:
        workers = self.engine._crew.workers  # pyright: ignore[reportPrivateUsage] not a metric
        assert workers is not None
        return workers._scheduler.leftovers()  # pyright: ignore[reportPrivateUsage] nor this


@pytest.fixture
def start(plan: Plan) -> Iterator[Callable[..., Served]]:
    begun: list[Served] = []
    held = sys.modules[MEETING] = Held(MEETING)

    def begin(workers: int = 1, carrier: Carrier = Carrier.AUTO) -> Served:
        engine = Engine(plan, EngineConfig(workers=workers, intra_op_threads=1))
        begun.append(Served(engine, serve([engine], free_ports(carrier)), held))
        return begun[-1]

    yield begin
    held.release()
    for one in begun:
        one.server.stop()
        one.engine.close()
    del sys.modules[MEETING]


Start = Callable[..., Served]


@pytest.fixture(params=WAYS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def asks(served: Served, name: str, model: str, tag: str, **options: Any) -> str:
    """Ask with a client of its own; return the tag that comes back, or the status."""
    with Way(served.server, name) as way:
        try:
            answer = way.infer(model, way.tensor("tag", np.array([tag], object)), **options)
        except InferenceServerException as error:
            return str(error.status())
        return words(answer["tag"])[0]


def test_b20_a_time_out_is_told_on_time_and_never_runs(start: Start, name: str) -> None:
    served = start()
    served.held.hold("first busy")
    with ThreadPoolExecutor(2) as pool:
        busy = pool.submit(asks, served, name, "timed", "busy")
        served.held.entered("first busy")
        begun = perf_counter()
        assert asks(served, name, "timed", "late") in REFUSED
        assert perf_counter() - begun >= 0.2
        assert not busy.done()  # who is told has not waited for it
        served.held.release()
        assert busy.result(20) == "busy"
    assert served.held.ran == ["first busy"]
    served.settled()


def test_b21_sixteen_of_twenty_are_refused_where_four_may_wait(start: Start, name: str) -> None:
    served = start()
    served.held.hold("first busy")
    with ThreadPoolExecutor(21) as pool:
        busy = pool.submit(asks, served, name, "bounded", "busy")
        served.held.entered("first busy")
        others = [pool.submit(asks, served, name, "bounded", str(i)) for i in range(20)]
        eventually(lambda: sum(one.done() for one in others) == 16)
        served.waiting("bounded", 4)
        served.held.release()
        assert busy.result(20) == "busy"
        answers = [one.result(20) for one in others]
    refused = [answer for answer in answers if answer in REFUSED]
    assert len(refused) == 16
    assert {answer for answer in answers if answer not in REFUSED} <= {str(i) for i in range(20)}
    assert len(served.held.ran) == 5
    served.settled()


def test_b21_a_refusal_inside_ends_the_whole_request(start: Start, name: str) -> None:
    served = start(workers=4)
    served.held.hold("second busy")
    with ThreadPoolExecutor(2) as pool:
        busy = pool.submit(asks, served, name, "inside", "busy")
        served.held.entered("second busy")
        queued = pool.submit(asks, served, name, "inside", "queued")
        served.queued(1)
        assert asks(served, name, "inside", "refused") in REFUSED
        assert not busy.done()
        served.held.release()
        assert (busy.result(20), queued.result(20)) == ("busy", "queued")
    assert "second refused" not in served.held.ran
    served.settled()


def test_b22_priority_and_time_are_the_requests_on_every_way(start: Start, name: str) -> None:
    served = start()
    served.held.hold("first busy")
    with ThreadPoolExecutor(4) as pool:
        busy = pool.submit(asks, served, name, "levels", "busy")
        served.held.entered("first busy")
        low = pool.submit(asks, served, name, "levels", "low")
        served.waiting("levels", 1)
        high = pool.submit(asks, served, name, "levels", "high", priority=1)
        served.waiting("levels", 2)
        assert asks(served, name, "levels", "late", timeout=20_000) in LATE
        served.held.release()
        assert [one.result(20) for one in (busy, low, high)] == ["busy", "low", "high"]
    assert served.held.ran == ["first busy", "first high", "first low"]


def test_b22_the_second_stage_has_what_the_first_has_left(start: Start, name: str) -> None:
    served = start(workers=2)
    served.held.hold("second busy")
    with ThreadPoolExecutor(2) as pool:
        busy = pool.submit(asks, served, name, "both", "busy")
        served.held.entered("second busy")
        assert asks(served, name, "both", "late", timeout=100_000) in LATE
        served.held.release()
        assert busy.result(20) == "busy"
    assert served.held.ran[:2] == ["first busy", "second busy"]
    assert "second late" not in served.held.ran  # a slow machine may not come to its first either
    served.settled()


# ---- B23: each kind of giving up, at each place

Given = Callable[[], None]
"""Gives up what was asked for, or waits until it is."""


def grpc_cancel(served: Served, tag: str) -> Given:
    triton, call, _ = _asking(served, tag)

    def cancel() -> None:
        call.cancel()
        triton.close()

    return cancel


def grpc_deadline(served: Served, tag: str) -> Given:
    triton, _, errors = _asking(served, tag, client_timeout=0.5)

    def wait() -> None:
        assert "deadline" in str(errors.get(timeout=20)).lower()
        triton.close()

    return wait


def _asking(served: Served, tag: str, **options: float) -> tuple[Any, Any, SimpleQueue[object]]:
    """A client that has asked for `both`, its call, and what becomes of that."""
    client: Any = tritonclient.grpc
    triton = client.InferenceServerClient(str(served.server.addresses.grpc))
    tensor = client.InferInput("tag", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([tag], object))
    errors: SimpleQueue[object] = SimpleQueue()

    def note(result: object, error: object) -> None:
        del result
        errors.put(error)

    return triton, triton.async_infer("both", [tensor], note, **options), errors


def http_disconnect(served: Served, tag: str) -> Given:
    host, _, port = str(served.server.addresses.http).rpartition(":")
    connection = socket.create_connection((host, int(port)))
    body = {"inputs": [{"name": "tag", "datatype": "BYTES", "shape": [1], "data": [tag]}]}
    content = json.dumps(body)
    connection.sendall(
        "POST /v2/models/both/infer HTTP/1.1\r\nHost: x\r\n"
        f"Content-Length: {len(content)}\r\n\r\n{content}".encode()
    )
    return connection.close


KINDS = pytest.mark.parametrize(
    ("kind", "carrier"),
    [
        (grpc_cancel, Carrier.NATIVE),
        (grpc_cancel, Carrier.GRPCIO),
        (grpc_deadline, Carrier.NATIVE),
        (grpc_deadline, Carrier.GRPCIO),
        (http_disconnect, Carrier.AUTO),
    ],
    ids=lambda one: one.__name__ if callable(one) else one.value,
)


@KINDS
@pytest.mark.slow
def test_b23_given_up_while_queued_for_the_first_stage(
    start: Start, kind: Callable[[Served, str], Given], carrier: Carrier
) -> None:
    served = start(1, carrier)
    served.held.hold("first busy")
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(asks, served, "grpc", "both", "busy")
        served.held.entered("first busy")
        give_up = kind(served, "gone")
        served.waiting("both", 1)
        give_up()
        served.waiting("both", 0)
        served.held.release()
        assert busy.result(20) == "busy"
    served.settled()
    assert served.held.ran == ["first busy", "second busy"]


@KINDS
@pytest.mark.slow
def test_b23_given_up_while_the_first_stage_runs(
    start: Start, kind: Callable[[Served, str], Given], carrier: Carrier
) -> None:
    served = start(2, carrier)
    served.held.hold("first gone")
    give_up = kind(served, "gone")
    served.held.entered("first gone")
    give_up()
    eventually(lambda: sum(served.engine.metrics.pipeline("both").failures.values()) == 1)
    assert asks(served, "grpc", "both", "other") == "other"
    served.held.release()
    served.settled()
    assert served.held.ran == ["first gone", "first other", "second other"]


@KINDS
@pytest.mark.slow
def test_b23_given_up_while_queued_for_the_second_stage(
    start: Start, kind: Callable[[Served, str], Given], carrier: Carrier
) -> None:
    served = start(2, carrier)
    served.held.hold("second busy")
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(asks, served, "grpc", "both", "busy")
        served.held.entered("second busy")
        give_up = kind(served, "gone")
        served.queued(1)
        give_up()
        served.queued(0)
        assert not busy.done()
        served.held.release()
        assert busy.result(20) == "busy"
    served.settled()
    assert asks(served, "grpc", "both", "other") == "other"
    assert "second gone" not in served.held.ran
