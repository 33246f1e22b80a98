"""Servers on free ports of the loopback interface, one for each carrier of gRPC."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.runtime.engine import Engine, EngineConfig
from headrace.runtime.server import Server, serve
from headrace.runtime.server_config import Carrier, ServerConfig
from tests.runtime.wire.plans import toy_plan

Start = Callable[..., Server]


@pytest.fixture(scope="session", params=[Carrier.NATIVE, Carrier.GRPCIO], ids=lambda c: c.value)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of all toy pipelines, on each carrier in turn."""
    engine = Engine(toy_plan(), EngineConfig(workers=4))
    with serve([engine], free_ports(request.param)) as server:
        yield server
    engine.close()


@pytest.fixture(scope="session")
def one_server() -> Iterator[Server]:
    """A server of all toy pipelines, for what does not depend on the carrier."""
    engine = Engine(toy_plan(), EngineConfig(workers=4))
    with serve([engine], free_ports(Carrier.AUTO)) as server:
        yield server
    engine.close()


@pytest.fixture
def start() -> Iterator[Start]:
    """Start servers of one's own, which may be stopped; they have one worker."""
    engines: list[Engine] = []
    servers: list[Server] = []

    def begin(carrier: Carrier = Carrier.AUTO, *, workers: int = 1, **settings: Any) -> Server:
        engines.append(Engine(toy_plan(), EngineConfig(workers=workers)))
        servers.append(serve([engines[-1]], free_ports(carrier, **settings)))
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()
    for engine in engines:
        engine.close()


def free_ports(carrier: Carrier, **settings: Any) -> ServerConfig:
    return ServerConfig(http_port=0, grpc_port=0, metrics_port=0, carrier=carrier, **settings)


class Gate:
    """A named pipe that the pipeline `wait` reads; it goes on when `open` is called."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    def entered(self) -> None:
        """Return when the pipeline is reading."""
        self._writer = self.path.open("wb")

    def open(self, content: bytes = b"done") -> None:
        """Let the pipeline finish with this content."""
        self._writer.write(content)
        self._writer.close()

    def was_never_entered(self) -> bool:
        """Whether nobody reads it now."""
        try:
            os.close(os.open(self.path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return True
        return False

    def release(self) -> None:
        """Let go whoever still waits."""
        os.close(os.open(self.path, os.O_RDWR | os.O_NONBLOCK))


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[tuple[Gate, Gate]]:
    """Two gates; ask for them after the server, which cannot stop while one is shut."""
    made = (Gate(tmp_path / "first"), Gate(tmp_path / "second"))
    yield made
    for gate in made:
        gate.release()


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Ask again and again until it holds: for what another process or thread does in its time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
