"""Servers on free ports, one for each carrier of gRPC."""

from collections.abc import Iterator

import pytest

from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier, ServerConfig
from tests.runtime.wire.plans import toy_plan


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    engine = Engine(toy_plan(), EngineConfig(workers=4))
    yield engine
    engine.close()


def start(engine: Engine, carrier: Carrier = Carrier.AUTO, **settings: object) -> Server:
    """Serve on free ports of the loopback interface."""
    config = ServerConfig(http_port=0, grpc_port=0, metrics_port=0, carrier=carrier, **settings)
    return serve([engine], config)


@pytest.fixture(scope="session")
def native(engine: Engine) -> Iterator[Server]:
    with start(engine, Carrier.NATIVE) as server:
        yield server
