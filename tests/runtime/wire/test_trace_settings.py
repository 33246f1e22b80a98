"""The settings of tracing, as stock clients read and change them."""

from collections.abc import Iterator

import httpx
import pytest
from tritonclient.utils import InferenceServerException

from headrace.runtime.access import Access, policy_of
from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.observe.observer import Observer, Sampling
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier
from tests.runtime.wire.conftest import free_ports
from tests.runtime.wire.plans import toy_plan
from tests.runtime.wire.stock import KINDS, Stock, stock

SETTINGS = policy_of([Access.SETTINGS], ())


@pytest.fixture(scope="module")
def observer() -> Iterator[Observer]:
    observer = Observer([], Sampling())
    yield observer
    observer.close()


@pytest.fixture(scope="module")
def server(observer: Observer) -> Iterator[Server]:
    engine = Engine(toy_plan(), EngineConfig(workers=1))
    with serve([engine], free_ports(Carrier.AUTO, policy=SETTINGS), observer) as server:
        yield server
    engine.close()


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, server: Server, observer: Observer) -> Iterator[Stock]:
    observer.set_rate(0.0)
    with stock(request.param, server) as client:
        yield client


def settings(client: Stock) -> dict[str, list[str]]:
    found = client.get_trace_settings()
    if client.is_http:
        return {name: [value] if isinstance(value, str) else value for name, value in found.items()}
    return {name: value["value"] for name, value in found["settings"].items()}


def test_how_many_are_recorded_is_told_and_changed(client: Stock, observer: Observer) -> None:
    assert settings(client) == {"trace_level": ["OFF"], "trace_rate": ["1000"]}
    client.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"]})
    assert observer.rate == 1 / 1000
    client.update_trace_settings(settings={"trace_rate": "10"})
    assert observer.rate == 1 / 10
    assert settings(client) == {"trace_level": ["TIMESTAMPS"], "trace_rate": ["10"]}
    client.update_trace_settings(settings={"trace_level": ["OFF"]})
    assert observer.rate == 0.0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"trace_file": "/tmp/x"}, "`trace_file` is set where the server is started"),
        ({"trace_level": ["TENSORS"]}, "`trace_level` cannot be"),
        ({"trace_rate": "-1"}, "`trace_rate` cannot be"),
        ({"trace_rate": "often"}, "`trace_rate` cannot be"),
        ({"trace_everything": "1"}, "there is no setting 'trace_everything'"),
    ],
)
def test_what_cannot_be_set_is_refused_and_nothing_changes(
    client: Stock, observer: Observer, change: dict[str, object], complaint: str
) -> None:
    with pytest.raises(InferenceServerException, match=complaint):
        client.update_trace_settings(settings=change)
    assert observer.rate == 0.0


def test_the_settings_of_a_model_are_those_of_all(client: Stock) -> None:
    with pytest.raises(InferenceServerException, match="those of all models"):
        client.update_trace_settings(model_name="two", settings={"trace_rate": "1"})
    with pytest.raises(InferenceServerException, match="Request for unknown model"):
        client.get_trace_settings(model_name="nothing")


def test_the_extension_is_listed_where_something_is_recorded(server: Server) -> None:
    assert "trace" in httpx.get(f"http://{server.addresses.http}/v2").json()["extensions"]
