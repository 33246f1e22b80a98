"""A server: the pipelines of some engines behind HTTP, gRPC and a port for metrics.

with serve([engine], ServerConfig()) as server:
    print(server.addresses)
    server.wait()

stop: readiness is withdrawn ─▶ what is in flight ends ─▶ the fronts close
"""

import signal
import socket
from collections.abc import Sequence
from importlib.metadata import version
from types import FrameType, TracebackType

from .engine import Engine
from .fronts import Addresses, Fronts
from .server_config import ServerConfig
from .service import Service


class Server:
    """Serves until `stop`. The engines are drained then, and stay the caller's to close."""

    def __init__(self, service: Service, fronts: Fronts, grace: float) -> None:
        self._service, self._fronts, self._grace = service, fronts, grace
        self._stopped = False

    @property
    def addresses(self) -> Addresses:
        """Where it serves, with the ports that were free."""
        return self._fronts.addresses

    def __enter__(self) -> "Server":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def wait(self) -> None:
        """Return when SIGTERM or SIGINT comes. For the main thread; `stop` then drains."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        before = {
            number: signal.signal(number, _ignore) for number in (signal.SIGTERM, signal.SIGINT)
        }
        # The byte comes even when the signal does before `recv`: a flag and a wait would race.
        other = signal.set_wakeup_fd(theirs.fileno())
        try:
            ours.recv(1)
        finally:
            signal.set_wakeup_fd(other)
            for number, handler in before.items():
                signal.signal(number, handler)
            ours.close()
            theirs.close()

    def stop(self) -> None:
        """Withdraw readiness, let what is in flight end, close the ports."""
        if self._stopped:
            return
        self._stopped = True
        self._service.set_ready(False)
        for engine in self._service.engines:
            engine.drain(self._grace)
        self._fronts.close()


def _ignore(_: int, __: FrameType | None) -> None:
    """Be a handler, so that Python writes the signal to the wake-up socket."""


def serve(engines: Sequence[Engine], config: ServerConfig) -> Server:
    """Serve all pipelines of the engines; returns when every port is listening.

    Raises OSError when a port is taken and NoForm when a pipeline's values cannot travel.
    """
    service = Service(engines, config.version, config.limits)
    fronts = Fronts(service, config, version("headrace"))
    service.set_ready(True)
    return Server(service, fronts, config.grace)
