"""Who is refused over the wire is told when to come again."""

from collections.abc import Iterator

import grpc
import httpx
import pytest

import headrace
from headrace.client import NEVER
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.forecast import START
from headrace.runtime.request import Code, Fault
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import Gate, free_ports
from tests.runtime.wire.plans import toy_plan
from tests.runtime.wire.test_grpc import method, wait_request


@pytest.fixture(params=[Carrier.NATIVE, Carrier.GRPCIO], ids=lambda c: c.value)
def full(request: pytest.FixtureRequest, gates: tuple[Gate, Gate]) -> Iterator[Server]:
    """A server that has taken in as many bytes as it may."""
    first, _ = gates
    size = len(str(first.path))
    engine = Engine(toy_plan(), EngineConfig(workers=1, bytes_in_flight=size + 5))
    teach(engine, 0.25)
    with (
        serve([engine], free_ports(request.param)) as server,
        grpc.insecure_channel(str(server.addresses.grpc)) as channel,
    ):
        running = method(channel, "ModelInfer").future(wait_request(first))
        first.entered()
        yield server
        first.open()
        running.result(timeout=10)
    engine.close()


def teach(engine: Engine, seconds: float) -> None:
    """Let an engine know what a request of `wait` takes, for which a test cannot wait."""
    workers = engine._crew.started()  # pyright: ignore[reportPrivateUsage] see above
    foresight = workers._scheduler._foresight  # pyright: ignore[reportPrivateUsage] see above
    known = foresight._forecasts[engine.pipeline("wait").index]  # pyright: ignore[reportPrivateUsage] see above
    assert known is not None
    for _ in range(8):
        known.answered({START: 0.0}, seconds)


def test_over_http_after_whole_seconds(full: Server) -> None:
    body = {"inputs": [{"name": "path", "datatype": "BYTES", "shape": [1], "data": ["six bytes"]}]}
    url = f"http://{full.addresses.http}/v2/models/wait/infer"
    answer = httpx.post(url, json=body, timeout=10)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert "fill the memory set aside" in answer.json()["error"]


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_our_client_is_told_exactly(full: Server, scheme: str) -> None:
    address = full.addresses.http if scheme == "http" else full.addresses.grpc
    with (
        headrace.Client(f"{scheme}://{address}", retries=NEVER) as client,
        pytest.raises(Fault, match="memory set aside") as caught,
    ):
        client.wait(path="six bytes")
    assert caught.value.code is Code.OVERLOADED
    assert caught.value.retry_after == 0.25


def test_over_grpc_after_milliseconds(full: Server, gates: tuple[Gate, Gate]) -> None:
    with (
        grpc.insecure_channel(str(full.addresses.grpc)) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        method(channel, "ModelInfer")(wait_request(gates[1]), timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    trailers = {one.key: one.value for one in caught.value.trailing_metadata()}
    assert trailers["retry-after-ms"] == "250"
