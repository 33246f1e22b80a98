"""The ports of a server and what serves them.

One thread runs the event loop of HTTP, metrics and grpcio; the native gRPC carrier has its own.
"""

import asyncio
import socket
import ssl
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import uvicorn
import uvloop
from starlette.types import ASGIApp

from .exposition import metrics_app
from .grpc.aio import AioCarrier
from .grpc.call import Methods
from .grpc.health import HEALTH, health_methods
from .grpc.methods import SERVICE as INFERENCE
from .grpc.methods import inference_methods
from .grpc.reflection import reflection_methods
from .http import HttpFront
from .http_answer import Inference
from .http_door import Door
from .http_protocol import limited
from .page.files import page_routes
from .ports import address, bound, listening
from .protocols.limits import CallerLimits
from .protocols.operations import all_operations
from .rounds import Rounds
from .server_config import Carrier, ServerConfig
from .service import Service
from .tls import server_context

_LAST_ANSWERS = 5.0
"""Seconds that answers have to leave when nothing is under way any more: a caller that does not
read holds up the end no longer."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """host:port of what is served, None where nothing is. `carrier` is what carries gRPC."""

    http: str | None
    grpc: str | None
    metrics: str | None
    carrier: Carrier


class Fronts:
    """Serves from construction until `close`."""

    def __init__(self, service: Service, config: ServerConfig, server_version: str) -> None:
        """Raises OSError when a port is taken."""
        self._config, self._until = config, 0.0
        self._rounds = service.rounds
        operations = all_operations(server_version, config.name)
        self._methods = (
            inference_methods(service, operations)
            | health_methods(service)
            | reflection_methods((INFERENCE, HEALTH), service.policy)
        )
        page = page_routes() if config.page else ()
        front = HttpFront(service, operations, page)
        self._http = Door(front, config.host, config.hosts)
        self._inference = self._http.opening(front)
        self._metrics = Door(metrics_app(service), config.host, config.hosts)
        started: Future[Addresses] = Future()
        self._loop = uvloop.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="headrace-fronts", daemon=True
        )
        self._thread.start()
        self.addresses = started.result()

    def close(self, grace: float) -> None:
        """Close all ports once the answers that are being sent are sent, `grace` s at the most."""
        self._until = self._loop.time() + min(grace, _LAST_ANSWERS)
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _left(self) -> float:
        """Return how many seconds are left to close."""
        return max(0.0, self._until - self._loop.time())

    def _run(self, started: Future[Addresses]) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._serve(started))
            except BaseException as error:
                if started.done():
                    raise
                started.set_exception(error)

    async def _serve(self, started: Future[Addresses]) -> None:
        config = self._config
        self._rounds.attend(self._loop.call_soon)
        carrier = choose_carrier(config)
        tls = None if config.tls is None else server_context(config.tls)
        servers: list[uvicorn.Server] = []
        shared = config.process is not None
        async with AsyncExitStack() as opened:

            async def open_http(
                app: ASGIApp,
                port: int | None,
                tls: ssl.SSLContext | None = None,
                inference: Inference | None = None,
            ) -> str | None:
                if port is None:
                    return None
                servers.append(_uvicorn(app, config.callers, tls, inference))
                own = listening(config.host, port, config.callers, shared=shared)
                await opened.enter_async_context(_running(servers[-1], opened.enter_context(own)))
                return address(config.host, own.getsockname()[1])

            # Closed in reverse order, gRPC last: it waits until its last answers have left.
            grpc = None
            if config.grpc_port is not None:
                grpc = await opened.enter_async_context(
                    _grpc(config, carrier, self._methods, self._left, self._rounds)
                )
            http = await open_http(self._http, config.http_port, tls, self._inference)
            metrics = await open_http(self._metrics, config.metrics_port)
            started.set_result(Addresses(http, grpc, metrics, carrier))
            await self._stop.wait()
            for server in servers:  # each takes a moment, so that they take it together
                server.config.timeout_graceful_shutdown = ceil(self._left())
                server.should_exit = True


def choose_carrier(config: ServerConfig) -> Carrier:
    """Return what carries gRPC; ValueError when it cannot do what is asked."""
    if config.carrier is not Carrier.NATIVE:
        return Carrier.GRPCIO
    if config.tls is not None:
        raise ValueError(f"{Carrier.NATIVE.value} has no TLS; take {Carrier.GRPCIO.value}")
    if config.process is not None:
        # `settling.py` asks at its own port what it has sent, and could not tell who answers
        raise ValueError(f"{Carrier.NATIVE.value} shares no port; take {Carrier.GRPCIO.value}")
    return Carrier.NATIVE


def _uvicorn(
    app: ASGIApp, callers: CallerLimits, tls: ssl.SSLContext | None, inference: Inference | None
) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=limited(callers, inference),
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # what a caller got wrong is no news: it would fill the log
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=ceil(callers.idle),
            ssl_context_factory=None if tls is None else lambda _, __: tls,
        )
    )


@asynccontextmanager
async def _running(server: uvicorn.Server, own: socket.socket) -> AsyncGenerator[None, None]:
    serving = asyncio.create_task(server.serve(sockets=[own]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving
        for connection in tuple(server.server_state.connections):  # their time is over
            connection.transport.abort()


@asynccontextmanager
async def _grpc(
    config: ServerConfig,
    carrier: Carrier,
    methods: Methods,
    left: Callable[[], float],
    rounds: Rounds,
) -> AsyncGenerator[str, None]:
    if config.process is None:  # grpcio says why it cannot to stderr alone
        bound(config.host, config.grpc_port or 0).close()  # a shared one would get connections
    asked = address(config.host, config.grpc_port or 0)
    if carrier is Carrier.GRPCIO:
        async with _aio(asked, methods, config, left) as port:
            yield address(config.host, port)
        return
    from .grpc.native import NativeCarrier  # installed only where there are wheels for it
    from .grpc.settling import settle

    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
        fallback = str(Path(folder, "grpc"))
        behind = AioCarrier(f"unix:{fallback}", methods, config)
        await behind.start()
        with ExitStack() as opened:
            try:
                native = NativeCarrier(asked, methods, fallback, config, rounds)
                opened.callback(native.close)  # last: the answers of streams go through it
                yield address(config.host, native.port)
            finally:
                await behind.stop(left())
            await settle(config.host, native.port, config.grpc_io_threads, left())


@asynccontextmanager
async def _aio(
    asked: str, methods: Methods, config: ServerConfig, left: Callable[[], float]
) -> AsyncGenerator[int, None]:
    server = AioCarrier(asked, methods, config)
    await server.start()
    try:
        yield server.port
    finally:
        await server.stop(left())
