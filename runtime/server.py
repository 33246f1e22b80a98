"""A server: a repository behind HTTP, gRPC and a port for metrics.

with serve(repository, ServerConfig()) as server:
    print(server.addresses)
    server.wait()

stop: readiness is withdrawn ─▶ what is in flight ends ─▶ the fronts close
"""

import re
import time
from collections.abc import Sequence
from importlib.metadata import version
from types import TracebackType

from .access import Access, check_exposure
from .engine import Engine
from .fronts import Addresses, Fronts
from .observe.observer import Observer
from .regions import Regions
from .repository.repository import Repository
from .server_config import ServerConfig
from .service import Service
from .siblings import Siblings
from .signals import Told


class Server:
    """Serves until `stop`. What is served is drained then, and stays the caller's to close."""

    def __init__(
        self, service: Service, fronts: Fronts, grace: float, siblings: Siblings | None = None
    ) -> None:
        self._service, self._fronts, self._grace = service, fronts, grace
        self._siblings = siblings
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
        """Return when SIGTERM or SIGINT comes. For the main thread; `stop` then drains.

        The handlers that were there before are back then: where they are those of the system, a
        second signal ends the process at once.
        """
        with Told() as told:
            told.wait()

    def stop(self) -> bool:
        """Withdraw readiness, let what is in flight end, close the ports.

        False when requests took longer than the `grace` they had; those get no answer.
        """
        if self._stopped:
            return True
        self._stopped = True
        until = time.monotonic() + self._grace
        self._service.set_ready(False)
        ended = self._service.repository.drain(self._grace)
        self._fronts.close(max(0.0, until - time.monotonic()))
        if self._service.regions is not None:
            self._service.regions.close()
        if self._siblings is not None:
            self._siblings.close()
        return ended


def serve(
    served: Repository | Sequence[Engine], config: ServerConfig, observer: Observer | None = None
) -> Server:
    """Serve a repository, or all pipelines of some engines; returns when every port is listening.
    An `observer` records some requests, and stays the caller's to close.

    Raises OSError when a port is taken, ValueError where callers from elsewhere could change the
    server without a token, and for engines NoForm when a pipeline's values cannot travel and
    ValueError when two have one of the same name.
    """
    repository = served if isinstance(served, Repository) else _of_engines(served, config.version)
    check_exposure(config.policy, config.host)
    shared = config.regions is not None and config.policy.serves(Access.MEMORY)
    regions = Regions(config.regions) if shared and config.regions is not None else None
    forwarded = _either(config.forwarded, None if observer is None else observer.headers)
    siblings = None if config.process is None else Siblings(config.process, repository)
    service = Service(
        *(repository, config.limits, config.policy, regions, config.labels, forwarded, observer),
        siblings,
    )
    service.set_ready(True)  # first: on ports that are shared there are callers at once
    fronts = Fronts(service, config, version("headrace"))
    if siblings is not None:
        siblings.answer(lambda name, number: _is_ready(service, name, number))
    return Server(service, fronts, config.grace, siblings)


def _is_ready(service: Service, name: str, number: str) -> bool:
    return service.model_ready(name, number) if name else service.ready


def _either(
    first: "re.Pattern[str] | None", second: "re.Pattern[str] | None"
) -> "re.Pattern[str] | None":
    """Return what matches what one of them does."""
    given = [one for one in (first, second) if one is not None]
    if len(given) == 2:
        return re.compile("|".join(f"(?:{one.pattern})" for one in given))
    return given[0] if given else None


def _of_engines(engines: Sequence[Engine], number: int) -> Repository:
    repository = Repository(engines[0].config)
    for index, engine in enumerate(engines):
        repository.adopt(f"plan-{index}", engine, number)
    return repository
