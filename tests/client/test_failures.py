"""Failures as callers of a client see them: late, cancelled, cut off, overloaded, gone."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import numpy as np
import pytest

import headrace
from headrace import Client, Code, Fault
from headrace.client import NEVER, Retries, Timing
from headrace.compiler.plan import Plan
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.repository.repository import Repository
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.client.relay import Relay
from tests.client.same import plan_in
from tests.runtime.wire.conftest import Gate, eventually, free_ports
from tests.runtime.wire.plans import toy_plan


class Served(NamedTuple):
    """A server with one worker, in whose queue there is room for one request."""

    engine: Engine
    server: Server

    def where(self, scheme: str) -> str:
        return str(getattr(self.server.addresses, scheme))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Served]]:
    """Servers of the toy pipelines and of those that keep state or stream."""
    with ExitStack() as opened:

        def served(plan: Plan, queue_size: int) -> Served:
            engine = Engine(plan, EngineConfig(workers=1, queue_size=queue_size))
            opened.callback(engine.close)
            server = opened.enter_context(serve([engine], free_ports(Carrier.AUTO)))
            return Served(engine, server)

        same = plan_in(tmp_path_factory.mktemp("failures")).plan
        yield served(toy_plan(), 1), served(same, 64)


@pytest.fixture
def toys(both: tuple[Served, Served]) -> Served:
    return both[0]


@pytest.fixture
def same(both: tuple[Served, Served]) -> Served:
    return both[1]


@pytest.fixture(params=["grpc", "http"])
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


def client_of(served: Served, scheme: str, **options: Any) -> Client:
    return Client(f"{scheme}://{served.where(scheme)}", **options)


def waiting(client: Client, gate: Gate) -> Any:  # Any: a future
    """Return a request that is in its stage."""
    pending = client.wait.submit(path=str(gate.path))
    gate.entered()
    return pending


def test_cancelling_a_future_cancels_the_request_at_the_server(
    toys: Served, scheme: str, gates: tuple[Gate, Gate]
) -> None:
    before = toys.engine.metrics.pipeline("wait")
    with client_of(toys, scheme) as client:
        first = waiting(client, gates[0])
        second = client.wait.submit(path=str(gates[1].path))
        eventually(lambda: toys.engine.metrics.pipeline("wait").in_flight == 2)
        assert second.cancel()
        assert second.cancelled()
        eventually(
            lambda: (
                toys.engine.metrics.pipeline("wait").failures.get("cancelled", 0)
                == before.failures.get("cancelled", 0) + 1
            )
        )
        gates[0].open(b"content")
        assert first.result(20).content == b"content"
        assert gates[1].was_never_entered()
        assert not first.cancel()


def test_a_task_that_is_cancelled_cancels_its_request(
    toys: Served, scheme: str, gates: tuple[Gate, Gate]
) -> None:
    before = toys.engine.metrics.pipeline("wait").failures.get("cancelled", 0)

    async def ask(client: Client) -> None:
        task = asyncio.create_task(client.wait.aio(path=str(gates[0].path)))
        await asyncio.to_thread(gates[0].entered)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with client_of(toys, scheme) as client:
        asyncio.run(ask(client))
        eventually(
            lambda: toys.engine.metrics.pipeline("wait").failures.get("cancelled", 0) == before + 1
        )
        gates[0].open()


def test_a_stream_that_is_left_is_cancelled_at_the_server(same: Served, scheme: str) -> None:
    def cancelled() -> int:
        return same.engine.metrics.pipeline("spoken").failures.get("cancelled", 0)

    before = cancelled()

    async def leave(client: Client) -> None:
        records = client.spoken.aio_stream(x=20.0, most=1000)
        assert (await anext(records)).n == 0
        await records.aclose()

    with client_of(same, scheme) as client:
        with closing(client.spoken.stream(x=20.0, most=1000)) as records:  # type: ignore[type-var] a generator
            assert next(records).n == 0
        eventually(lambda: cancelled() == before + 1)
        asyncio.run(leave(client))
        eventually(lambda: cancelled() == before + 2)
        assert len(client.spoken(x=20.0, most=20).n) == 20


def test_a_request_that_is_late_is_told_so_and_not_sent_again(
    toys: Served, scheme: str, gates: tuple[Gate, Gate]
) -> None:
    with client_of(toys, scheme) as client:
        said: dict[str, Any] = {"path": str(gates[0].path), "timeout": 0.05}
        for call in (lambda: client.wait(**said), lambda: client.wait.submit(**said).result(20)):
            with pytest.raises(Fault) as error:
                call()
            assert error.value.code is Code.DEADLINE
        assert client.counts.retries == 0
        with pytest.raises(Fault, match="gave no answer in time") as error:
            client.two(x0=[1], x1="a", timeout=0.0)
        assert error.value.code is Code.DEADLINE
        gates[0].release()


def test_a_connection_that_is_cut_is_told_with_its_address(
    toys: Served, scheme: str, gates: tuple[Gate, Gate]
) -> None:
    with Relay(toys.where(scheme)) as relay:
        relay.open()
        with Client(f"{scheme}://{relay.address}") as client:
            pending = waiting(client, gates[0])
            relay.cut()
            with pytest.raises(
                Fault, match=f"to {scheme}://{relay_address(client)} was lost"
            ) as error:
                pending.result(20)
            assert error.value.code is Code.UNAVAILABLE
            assert client.counts.retries == 0
        gates[0].open()


def relay_address(client: Client) -> str:
    return client.address.partition("://")[2]


def test_a_stream_that_is_cut_is_no_stream_that_has_ended(same: Served, scheme: str) -> None:
    with Relay(same.where(scheme)) as relay:
        relay.open()
        with Client(f"{scheme}://{relay.address}") as client:
            records = client.spoken.stream(x=20.0, most=1000)
            assert next(records).n == 0
            relay.cut()
            with pytest.raises(Fault, match="was lost") as error:
                list(records)
            assert error.value.code is Code.UNAVAILABLE


def test_nobody_listening_is_tried_again_until_somebody_does(toys: Served, scheme: str) -> None:
    with Relay(toys.where(scheme)) as relay:

        def open_then_wait(event: threading.Event, seconds: float) -> None:
            if client.counts.retries == 1:
                relay.open()
            event.wait(seconds)  # gRPC has a pace of its own in which it connects

        retries = Retries(attempts=100, first=0.05, longest=0.2, tokens=1000)
        timing = Timing(wait=open_then_wait)
        with Client(f"{scheme}://{relay.address}", retries=retries, timing=timing) as client:
            assert client.two(x0=[1], x1="a").y1 == "a"
            assert client.counts.retries >= 2
        with Client(f"{scheme}://127.0.0.1:1", retries=NEVER) as client:
            with pytest.raises(Fault, match=f"^{scheme}://127.0.0.1:1 cannot be reached") as error:
                client.two(x0=[1], x1="a")
            assert error.value.code is Code.UNAVAILABLE


def test_a_full_queue_is_come_back_to(toys: Served, scheme: str, gates: tuple[Gate, Gate]) -> None:
    hints: list[float] = []

    def let_go(event: threading.Event, seconds: float) -> None:
        del event
        hints.append(seconds)
        if len(hints) == 1:
            gates[0].open(b"first")
            assert first.result(20).content == b"first"
            gates[1].entered()
            gates[1].open(b"second")
            assert second.result(20).content == b"second"

    retries = Retries(first=0.0)
    with (
        client_of(toys, scheme, timing=Timing(wait=let_go), retries=retries) as client,
        client_of(toys, scheme, retries=NEVER) as other,
    ):
        first = waiting(client, gates[0])
        second = client.wait.submit(path=str(gates[1].path))
        eventually(lambda: toys.engine.metrics.pipeline("wait").in_flight == 2)
        with pytest.raises(Fault, match="too many requests wait") as error:
            other.wait(path="nowhere")
        assert error.value.code is Code.OVERLOADED
        with pytest.raises(Fault, match="No such file") as error:  # once there is room
            client.wait(path="/nowhere")
        assert error.value.code is Code.FAILED
        assert client.counts.retries == len(hints) >= 1


def test_a_start_that_fails_lets_nobody_go_on_from_what_was_before(
    same: Served, scheme: str
) -> None:
    with client_of(same, scheme) as client:
        calls = client.counted.sequence("before")
        assert calls(x=5.0).y == 5
        calls.restart()
        failing = calls.submit(x=13.0)
        behind = calls.submit(x=1.0)
        with pytest.raises(Fault, match="thirteen"):
            failing.result(20)
        error = behind.exception(20)
        if error is None:  # it was asked for after the failure, and began anew
            assert behind.result().y == 1
        else:
            assert "nothing is kept of sequence 'before'" in str(error)
        assert calls(x=2.0).y == (3 if error is None else 2)


def test_requests_of_a_sequence_that_wait_can_be_cancelled_and_be_late(
    same: Served, scheme: str
) -> None:
    with client_of(same, scheme) as client:
        calls = client.growing.sequence()
        records = calls.stream(x=1.0)
        assert next(records).y == 0  # its turn lasts until it is read to its end
        dropped, kept = calls.submit(x=100.0), calls.submit(x=2.0)
        assert dropped.cancel()
        with pytest.raises(Fault) as error:
            calls(x=100.0, timeout=0.01)
        assert error.value.code is Code.DEADLINE
        assert [one.y for one in records] == [1]
        assert [float(one) for one in kept.result(20).y] == [1, 3]


def test_many_threads_share_a_client_and_its_connections(same: Served, scheme: str) -> None:
    with Relay(same.where(scheme)) as relay:
        relay.open()
        with Client(f"{scheme}://{relay.address}") as client:

            def ask(number: int) -> bool:
                answer = client.rows(
                    x=[1.0], v=np.full((1, 3), number, np.float32), t=[str(number)], l=[[]]
                )
                return answer.t.tolist() == [str(number)] and answer.v.tolist() == [[number] * 3]

            with ThreadPoolExecutor(8) as pool:
                assert all(pool.map(ask, range(100)))
            assert relay.connections <= 9


def test_a_client_that_is_closed_takes_nothing_and_waits_for_what_was_submitted(
    toys: Served, scheme: str, gates: tuple[Gate, Gate]
) -> None:
    client = client_of(toys, scheme)
    pending, pipeline = waiting(client, gates[0]), client.two
    closing_it = threading.Thread(target=client.close)
    closing_it.start()
    gates[0].open(b"content")
    closing_it.join(20)
    assert pending.result(0).content == b"content"
    for call in (lambda: client.two(x0=[1], x1="a"), lambda: pipeline.submit(x0=[1], x1="a")):
        with pytest.raises(Fault, match="the client is closed") as error:
            call()
        assert error.value.code is Code.UNAVAILABLE
    client.close()


def test_a_version_is_asked_for_by_its_number(toys: Served, scheme: str) -> None:
    with client_of(toys, scheme) as client:
        assert client.two.served == "1"
        assert client.two.version(1)(x0=[1], x1="a").y1 == "a"
        with pytest.raises(Fault, match="version 7") as error:
            client.two.version(7)
        assert error.value.code is Code.NOT_FOUND
        assert {"two", "wait"} <= set(client.pipelines())


def test_a_trace_is_of_what_is_loaded_here(toys: Served, scheme: str) -> None:
    with client_of(toys, scheme) as client, pytest.raises(Fault, match="a trace") as error:
        client.two(x0=[1], x1="a", trace=True)
    assert error.value.code is Code.UNSUPPORTED


def test_a_server_that_serves_another_version_by_now_is_asked_anew(scheme: str) -> None:
    repository = Repository()
    repository.load("p", compiled("pipeline p(x: f32) -> (y: f32) {\n return y = x }\n"))
    try:
        with (
            serve(repository, free_ports(Carrier.AUTO)) as server,
            Client(f"{scheme}://{getattr(server.addresses, scheme)}") as client,
        ):
            pipeline = client.p
            assert pipeline(x=1.0).y == 1
            other = "pipeline p(x: f32, by: f32) -> (z: f32) {\n return z = x * by }\n"
            repository.load("p", compiled(other))
            with pytest.raises(Fault, match="`by` is missing"):
                pipeline(x=2.0)
            assert pipeline(x=2.0, by=3.0).z == 6
            assert pipeline.signature == "p(x: f32, by: f32) -> (z: f32)"
    finally:
        repository.close()


def compiled(source: str) -> Plan:
    return headrace.compile(source).plan
