"""Statistics and metrics agree with the calls made, to the request: a mixed load from stock clients
of every kind, of which everything is counted twice, here and there."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http.aio
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.utils import InferenceServerException

import headrace
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import Gate, eventually, free_ports
from tests.runtime.wire.plans import toy_plan
from tests.runtime.wire.stock import KINDS, Stock, stock

SOURCE = """
pipeline total(x: f32) -> (y: f32) per sequence {
    state kept: f32 = 0
    next kept = kept + x
    return y = kept + x
}

pipeline count(most: i64) -> stream (n: i64) {
    loop (n: i64 = 0) max most {
        emit n = n
        next n = n + 1
    }
}
"""
MODELS = ("rows", "fail", "total", "count", "wait")


@dataclass(slots=True)
class Calls:
    """What was asked of one model, and what came of it. `rows` are answered requests by their rows,
    `failed` those that were not by the reason that metrics give, `sent` responses of streams.
    `vain` are executions of its one stage that answered nobody."""

    rows: Counter[int] = field(default_factory=Counter[int])
    failed: Counter[str] = field(default_factory=Counter[str])
    sent: Counter[int] = field(default_factory=Counter[int])
    vain: int = 0

    @property
    def executions(self) -> Counter[int]:
        """Those that there should be, by their rows."""
        return self.rows + Counter({1: self.vain})


Ledger = Mapping[str, Calls]


@pytest.fixture
def server() -> Iterator[Server]:
    engines = [
        Engine(toy_plan(), EngineConfig(workers=4)),
        Engine(headrace.compile(SOURCE).plan, EngineConfig(workers=2)),
    ]
    with serve(engines, free_ports(Carrier.AUTO)) as server:
        yield server
    for engine in engines:
        engine.close()


@pytest.mark.slow
def test_all_that_is_told_agrees_with_the_calls_made(server: Server, tmp_path: Path) -> None:
    calls: Ledger = {name: Calls() for name in MODELS}
    for times, kind in enumerate(KINDS, start=1):
        with stock(kind, server) as client:
            for number in range(times):  # so that no two kinds of client make as many
                answered(client, calls, f"{kind} {number}")
                refused(client, calls)
    streamed(server, calls)
    asyncio.run(streamed_from_asyncio(server, calls))
    told = Told(server)
    for count, name in enumerate(("grpc", "grpc.aio", "http.aio"), start=1):
        gate = Gate(tmp_path / name)
        cancelled(server, name, gate)
        eventually(lambda count=count: told.over_http()["wait"]["fail"] == count)
        gate.open()
        calls["wait"].failed["CANCELED"] += 1
        calls["wait"].vain += 1
    expected = {name: as_told(one) for name, one in calls.items()}
    ends = ended(expected)
    eventually(lambda: ended(told.over_http()) >= ends)
    assert told.over_http() == expected
    assert told.over_grpc() == expected
    assert told.in_metrics() == {name: as_metrics(one) for name, one in calls.items()}
    assert told.executions("fail") == calls["fail"].executions[1]


def ask(client: Stock, model: str, *tensors: tuple[str, str, Any], **options: Any) -> None:
    made = [client.tensor(*one) for one in tensors]
    client.infer(model, made, **options)


def rows(count: int) -> list[tuple[str, str, Any]]:
    words = np.full((count, 1), "a", object)
    return [("x0", "FP32", np.zeros((count, 3), np.float32)), ("x1", "BYTES", words)]


def text(value: str) -> tuple[str, str, Any]:
    return "text", "BYTES", np.array([value], object)


def answered(client: Stock, calls: Ledger, sequence: str) -> None:
    """Send what is answered."""
    for count in (1, 1, 3, 8):
        ask(client, "rows", *rows(count))
        calls["rows"].rows[count] += 1
    ask(client, "fail", text("good"), request_id="a request")
    calls["fail"].rows[1] += 1
    one = ("x", "FP32", np.ones(1, np.float32))
    for place in range(3):
        place_of = {"sequence_start": place == 0, "sequence_end": place == 2}
        ask(client, "total", one, sequence_id=sequence, **place_of)
        calls["total"].rows[1] += 1


def refused(client: Stock, calls: Ledger) -> None:
    """Send what fails, in every way in which a request can before it waits."""
    number = ("most", "INT64", np.ones(1, np.int64))
    single = ("x", "FP32", np.ones(1, np.float32))
    wanted = [client.wanted("nothing")]
    for model, reason, tensors, options in (
        ("rows", "OTHER", rows(9), {}),  # more than may come
        ("rows", "OTHER", rows(1)[:1], {}),  # one is missing
        ("rows", "OTHER", [text("a")], {}),  # there is none of that name
        ("rows", "OTHER", [rows(1)[0], single], {}),  # nor of that one
        ("rows", "OTHER", rows(1), {"outputs": wanted}),
        ("fail", "OTHER", [("text", "INT8", np.ones(1, np.int8))], {}),  # of another datatype
        ("fail", "BACKEND", [text("marker")], {}),
        ("fail", "REJECTED", [text("good")], {"timeout": 1}),
        ("total", "OTHER", [single], {}),  # it belongs to no sequence
        ("total", "OTHER", [single], {"sequence_id": 99}),  # to one that has not begun
        ("count", "OTHER", [number], {}),  # it answers more than once
    ):
        with pytest.raises(InferenceServerException):
            ask(client, model, *tensors, **options)
        calls[model].failed[reason] += 1
        calls[model].vain += reason == "BACKEND"
    with pytest.raises(InferenceServerException, match="Request for unknown model"):
        ask(client, "nobody", number)


STREAMS = (3, 0, 5, -1)
"""How many responses are asked for; -1 fails."""


def expect_streams(calls: Ledger) -> None:
    counted = calls["count"]
    for most in STREAMS:
        counted.sent.update(range(most))
    counted.rows[1] += len(STREAMS) - 1
    counted.failed["BACKEND"] += 1


def most(module: Any, value: int) -> Any:
    made = module.InferInput("most", [1], "INT64")
    made.set_data_from_numpy(np.array([value], np.int64))
    return made


def streamed(server: Server, calls: Ledger) -> None:
    """Send streams on one connection, and read them to their ends."""
    module: Any = tritonclient.grpc
    found: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
    with module.InferenceServerClient(str(server.addresses.grpc)) as client:

        def take(result: Any, error: Any) -> None:
            found.put((result, error))

        client.start_stream(take)
        for value in STREAMS:
            client.async_stream_infer(
                "count", [most(module, value)], enable_empty_final_response=True
            )
        ends = 0
        while ends < len(STREAMS):
            result, error = found.get(timeout=20)
            last = error or result.get_response().parameters["triton_final_response"].bool_param
            ends += bool(last)
    expect_streams(calls)


async def streamed_from_asyncio(server: Server, calls: Ledger) -> None:
    module: Any = tritonclient.grpc.aio

    async def asked() -> AsyncIterator[dict[str, Any]]:
        for value in STREAMS:
            yield {
                "model_name": "count",
                "inputs": [most(module, value)],
                "enable_empty_final_response": True,
            }

    async with module.InferenceServerClient(str(server.addresses.grpc)) as client:
        ends = 0
        async for result, error in client.stream_infer(asked()):
            last = error or result.get_response().parameters["triton_final_response"].bool_param
            ends += bool(last)
            if ends == len(STREAMS):
                break
    expect_streams(calls)


def cancelled(server: Server, kind: str, gate: Gate) -> None:
    """Ask for what does not end, and give up when it runs."""
    path = np.array([str(gate.path)], object)
    if kind == "grpc":
        module: Any = tritonclient.grpc
        given = module.InferInput("path", [1], "BYTES")
        given.set_data_from_numpy(path)
        ends: SimpleQueue[Any] = SimpleQueue()

        def take(result: Any, error: Any) -> None:  # noqa: ARG001 the client calls it so
            ends.put(error)

        with module.InferenceServerClient(str(server.addresses.grpc)) as client:
            call = client.async_infer("wait", [given], take)
            gate.entered()
            call.cancel()
            assert ends.get(timeout=20) is not None
        return

    async def give_up() -> None:
        http = kind.startswith("http")
        module: Any = tritonclient.http.aio if http else tritonclient.grpc.aio
        address = server.addresses.http if http else server.addresses.grpc
        given = module.InferInput("path", [1], "BYTES")
        given.set_data_from_numpy(path)
        client = module.InferenceServerClient(str(address))
        call = asyncio.ensure_future(client.infer("wait", [given]))
        await asyncio.get_running_loop().run_in_executor(None, gate.entered)
        call.cancel()
        with pytest.raises((asyncio.CancelledError, InferenceServerException)):
            await call
        await client.close()

    asyncio.run(give_up())


def as_told(calls: Calls) -> dict[str, Any]:
    """Return the statistics that a model should have."""
    return {
        "success": calls.rows.total(),
        "fail": calls.failed.total(),
        "execution_count": calls.executions.total(),
        "inference_count": sum(rows * count for rows, count in calls.rows.items()),
        "batch_stats": dict(calls.executions),
        "response_stats": dict(calls.sent),
        "used": bool(calls.rows),
    }


def as_metrics(calls: Calls) -> dict[str, int]:
    """Return the metrics that a model should have."""
    return {
        "nv_inference_request_success": calls.rows.total(),
        "nv_inference_count": sum(rows * count for rows, count in calls.rows.items()),
        "nv_inference_exec_count": calls.executions.total(),
        "nv_inference_pending_request_count": 0,
        "headrace_requests_in_flight": 0,
        "nv_inference_first_response_histogram_ms_count": calls.sent[0],
        **{
            f"nv_inference_request_failure {reason}": calls.failed[reason]
            for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER")
        },
    }


def ended(told: Mapping[str, Mapping[str, Any]]) -> int:
    return sum(one["success"] + one["fail"] for one in told.values())


def whole(value: Any) -> int:
    """A number, which gRPC's JSON has as a text and leaves out where it is 0."""
    return int(value or 0)


class Told:
    """What a server tells of itself."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def over_http(self) -> dict[str, dict[str, Any]]:
        return self._of("http")

    def over_grpc(self) -> dict[str, dict[str, Any]]:
        return self._of("grpc")

    def _of(self, kind: str) -> dict[str, dict[str, Any]]:
        with stock(kind, self._server) as client:
            return {
                name: _as_counts(client.get_inference_statistics(name)["model_stats"][0])
                for name in MODELS
            }

    def in_metrics(self) -> dict[str, dict[str, int]]:
        found = {model: dict.fromkeys(as_metrics(Calls()), 0) for model in MODELS}
        for sample in self._samples():
            name, reason = sample.name.removesuffix("_total"), sample.labels.get("reason")
            key = f"{name} {reason}" if reason else name
            model = found.get(sample.labels.get("model", ""), {})
            if key in model:
                model[key] += int(sample.value)
        return found

    def executions(self, stage: str) -> int:
        """How often a stage has run."""
        return sum(
            int(sample.value)
            for sample in self._samples()
            if sample.name == "headrace_stage_executions_total" and sample.labels["stage"] == stage
        )

    def _samples(self) -> list[Any]:
        text = httpx.get(f"http://{self._server.addresses.metrics}/metrics").text
        families = text_string_to_metric_families(text)
        return [sample for family in families for sample in family.samples]


def _as_counts(stats: dict[str, Any]) -> dict[str, Any]:
    kinds = stats["inference_stats"]
    return {
        "success": whole(kinds["success"].get("count")),
        "fail": whole(kinds["fail"].get("count")),
        "execution_count": whole(stats.get("execution_count")),
        "inference_count": whole(stats.get("inference_count")),
        "batch_stats": {
            whole(one.get("batch_size")): whole(one["compute_infer"].get("count"))
            for one in stats.get("batch_stats", [])
        },
        "response_stats": {
            int(number): whole(one["success"].get("count"))
            for number, one in stats.get("response_stats", {}).items()
        },
        "used": whole(stats.get("last_inference")) > 0,
    }
