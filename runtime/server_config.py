"""Where and how a server serves."""

import re
from dataclasses import dataclass, field
from enum import Enum

from .access import DEFAULT, Policy
from .extras import Labels
from .protocols.limits import Limits
from .protocols.metadata import SERVER_NAME
from .regions import RegionsConfig


class Carrier(Enum):
    """What carries gRPC. AUTO is the native one where it is installed and can do what is asked;
    `Addresses.carrier` says which it was."""

    AUTO = "auto"
    NATIVE = "pygrpc-native"
    GRPCIO = "grpcio"


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM texts. With `client_authority` callers must show a certificate that it signed."""

    certificate: bytes
    key: bytes
    client_authority: bytes | None = None


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Port 0 takes any free one, None serves nothing there.

    `grpc_io_threads` are the native carrier's. `grace` is how many seconds the requests in flight
    have to end when the server stops. `version` is that of engines served without a repository.
    `policy` says who may do what. `regions` is memory that is shared with clients, where the policy
    lets them; None is none. Headers whose lower-case names match `forwarded` are parameters of a
    request. `labels` are the names of classes, by model and output. `name` is what the server says
    that it is called.
    """

    host: str = "127.0.0.1"
    http_port: int | None = 8000
    grpc_port: int | None = 8001
    metrics_port: int | None = 8002
    carrier: Carrier = Carrier.AUTO
    grpc_tls: Tls | None = None
    grpc_io_threads: int = 1
    limits: Limits = field(default_factory=Limits)
    grace: float = 30.0
    version: int = 1
    policy: Policy = DEFAULT
    regions: RegionsConfig | None = None
    forwarded: "re.Pattern[str] | None" = None
    labels: Labels = field(default_factory=dict[str, dict[str, tuple[str, ...]]])
    name: str = SERVER_NAME
