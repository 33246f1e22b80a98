"""Servers that serve together on the same ports: what any of them tells is true of all."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import httpx
import numpy as np
import pytest

import headrace
from headrace.compiler.plan import Plan
from headrace.runtime.engine import EngineConfig
from headrace.runtime.ports import reserved
from headrace.runtime.protocols.messages import message
from headrace.runtime.repository.repository import Repository
from headrace.runtime.request import Request
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier, Process, ServerConfig
from tests.runtime.wire.test_exposition import scrape
from tests.runtime.wire.test_health import status, watch

pytestmark = pytest.mark.slow

SOURCE = """
fn halve(x: f32) -> (y: f32) = python "stages.py:halve"
pipeline half(x: f32) -> (y: f32) { return y = halve(x) }
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("half")
    (folder / "stages.py").write_text("def halve(x):\n    return x / 2\n")
    (folder / "half.pipe").write_text(SOURCE)
    return headrace.compile(folder / "half.pipe").plan


class Together:
    """Two servers that share their ports; `asked` counts what each answered in its process."""

    def __init__(self, plan: Plan, opened: ExitStack) -> None:
        self._plan, self._opened = plan, opened
        self.folder = Path(opened.enter_context(TemporaryDirectory(prefix="headrace-")))
        held = [opened.enter_context(reserved("127.0.0.1", 0)) for _ in range(3)]
        self._ports = [one.getsockname()[1] for one in held]
        self.repositories: dict[int, Repository] = {}
        self.servers: dict[int, Server] = {}
        for number in range(2):
            self.start(number)

    def start(self, number: int) -> None:
        repository = Repository(EngineConfig(workers=1))
        self._opened.callback(repository.close)
        repository.load("half", self._plan)
        http, rpc, metrics = self._ports
        process = Process(self.folder, number, 2)
        config = ServerConfig(
            http_port=http, grpc_port=rpc, metrics_port=metrics, process=process, grace=5.0
        )
        server = serve(repository, config)
        self._opened.callback(server.stop)
        self.repositories[number], self.servers[number] = repository, server

    def asks(self, number: int, times: int) -> None:
        """Ask one of them, past the ports."""
        for _ in range(times):
            request = Request("half", {"x": np.float32(1)})
            engine = self.repositories[number].routes["half"].versions["1"].engine
            engine.submit(request).result(20)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://{self.servers[0].addresses.http}/v2/{path}")

    def succeeded(self) -> float:
        return scrape(self.servers[0])["nv_inference_request_success", "half", "1"]


@pytest.fixture
def together(plan: Plan) -> Iterator[Together]:
    with ExitStack() as opened:
        yield Together(plan, opened)


def test_metrics_add_up_whoever_is_asked(together: Together) -> None:
    together.asks(0, 2)
    together.asks(1, 3)
    for _ in range(8):
        samples = scrape(together.servers[0])
        assert samples["nv_inference_request_success", "half", "1"] == 5
        assert samples["headrace_stage_executions", "half", "halve"] == 5


def test_statistics_and_the_figures_of_stages_add_up(together: Together) -> None:
    together.asks(0, 2)
    together.asks(1, 3)
    for _ in range(4):
        (stats,) = together.get("models/half/stats").json()["model_stats"]
        assert (stats["inference_count"], stats["inference_stats"]["success"]["count"]) == (5, 5)
        found = together.get("models/half/stages").json()
        assert (found["requests"]["succeeded"], found["stages"][0]["executions"]) == (5, 5)
        assert found["stages"][0]["latest"]["executions"] == 5


def test_statistics_add_up_over_grpc(together: Together) -> None:
    together.asks(0, 2)
    together.asks(1, 3)
    asked = message("ModelStatisticsRequest")(name="half").SerializeToString()
    with grpc.insecure_channel(str(together.servers[0].addresses.grpc)) as channel:
        call: Any = channel.unary_unary("/inference.GRPCInferenceService/ModelStatistics")
        answer = message("ModelStatisticsResponse").FromString(call(asked, timeout=20))
    assert [one.inference_count for one in answer.model_stats] == [5]


READY = ("health/ready", "models/half/ready")


@pytest.mark.parametrize("path", READY)
def test_all_are_ready_or_none_is(together: Together, path: str) -> None:
    assert together.get(path).status_code == 200
    together.servers[1].stop()
    assert together.get(path).status_code == 503
    together.start(1)
    assert together.get(path).status_code == 200


def test_who_watches_hears_of_the_others_too(together: Together) -> None:
    response = message("HealthCheckResponse", "grpc.health.v1")
    with grpc.insecure_channel(str(together.servers[0].addresses.grpc)) as channel:
        told = watch(channel, "")
        assert status(next(told)) == response.SERVING
        for server in together.servers.values():
            server.stop()
        assert [status(one) for one in told] == [response.NOT_SERVING]


def test_what_was_told_of_one_that_is_gone_is_not_forgotten(together: Together) -> None:
    together.asks(0, 2)
    together.asks(1, 3)
    assert together.succeeded() == 5
    together.servers[1].stop()
    assert together.succeeded() == 5
    together.start(1)
    assert together.succeeded() == 5
    together.asks(1, 1)
    assert together.succeeded() == 6
    found = together.get("models/half/stages").json()
    assert found["requests"]["succeeded"] == 6


def test_one_that_comes_in_the_place_of_another_makes_nobody_younger(together: Together) -> None:
    before = together.get("models/half/stages").json()["seconds"]
    for number in (0, 1):
        together.servers[number].stop()
        together.start(number)
    assert together.get("models/half/stages").json()["seconds"] >= before


@pytest.mark.parametrize(
    "said", [b"", b"\x94half", pytest.param(None, marks=pytest.mark.slow)], ids=repr
)
def test_one_that_does_not_answer_counts_as_it_did_and_is_not_ready(
    together: Together, said: bytes | None
) -> None:
    together.asks(0, 2)
    together.asks(1, 3)
    assert together.succeeded() == 5
    together.servers[0].stop()
    path = together.folder / "0.socket"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listening, ExitStack() as opened:
        listening.bind(str(path))
        listening.listen()

        def answer() -> None:
            for _ in range(2):
                asker, _ = listening.accept()
                if said is None:  # it hangs
                    opened.enter_context(asker)
                    continue
                with asker:
                    while asker.recv(1024):
                        pass
                    asker.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        assert together.succeeded() == 5
        assert together.get("health/ready").status_code == 503
        thread.join()


def test_a_port_that_is_shared_is_found_taken_by_others(together: Together) -> None:
    address = str(together.servers[0].addresses.http)
    with pytest.raises(OSError, match="Address already in use"):
        reserved("127.0.0.1", int(address.rpartition(":")[2]))


def test_the_native_carrier_shares_no_port(together: Together, plan: Plan) -> None:
    repository = Repository()
    repository.load("half", plan)
    process = Process(together.folder, 0, 2)
    with pytest.raises(ValueError, match="shares no port"):
        serve(repository, ServerConfig(carrier=Carrier.NATIVE, process=process))
    repository.close()
