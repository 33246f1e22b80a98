"""Where and how a server serves."""

import re
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from .access import DEFAULT, Policy
from .extras import Labels
from .protocols.limits import CallerLimits, Limits
from .protocols.metadata import SERVER_NAME
from .regions import RegionsConfig
from .tls import Tls


class Carrier(Enum):
    """What carries gRPC. AUTO is grpcio: the native one takes a quarter of its time, but holds (and
    inflates) a message of any size before it can be refused, and so is for callers one trusts."""

    AUTO = "auto"
    NATIVE = "pygrpc-native"
    GRPCIO = "grpcio"


@dataclass(frozen=True, slots=True)
class Process:
    """One of `count` processes that serve together, by its number from 0 (`siblings.py`). `folder`
    is theirs alone, and open to nobody else."""

    folder: Path
    number: int
    count: int

    def socket(self, number: int) -> Path:
        """Where a process answers the others."""
        return self.folder / f"{number}.socket"

    def counts(self, number: int) -> Path:
        """Where a process keeps what it has counted."""
        return self.folder / f"{number}.counts"


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Port 0 takes any free one, None serves nothing there.

    `tls` is for HTTP and gRPC, not for metrics. `grpc_io_threads` are the native carrier's.
    `grace` is how many seconds the requests in flight
    have to end when the server stops. `version` is that of engines served without a repository.
    `policy` says who may do what. `regions` is memory that is shared with clients, where the policy
    lets them; None is none. Headers whose lower-case names match `forwarded` are parameters of a
    request. `callers` caps what callers make it wait for and keep. `labels` are the names of
    classes, by model and output. `name` is what the server says
    that it is called. With `page` there is one at `/`. `hosts` are names that callers may reach it
    by, besides addresses (`http_door.py`). A `process` of several shares its ports with the others:
    they are free ones no more, but known.
    """

    host: str = "127.0.0.1"
    http_port: int | None = 8000
    grpc_port: int | None = 8001
    metrics_port: int | None = 8002
    carrier: Carrier = Carrier.AUTO
    tls: Tls | None = None
    grpc_io_threads: int = 1
    limits: Limits = field(default_factory=Limits)
    callers: CallerLimits = field(default_factory=CallerLimits)
    grace: float = 30.0
    version: int = 1
    policy: Policy = DEFAULT
    regions: RegionsConfig | None = None
    forwarded: "re.Pattern[str] | None" = None
    labels: Labels = field(default_factory=dict[str, dict[str, tuple[str, ...]]])
    name: str = SERVER_NAME
    page: bool = True
    hosts: frozenset[str] = frozenset()
    process: Process | None = None
