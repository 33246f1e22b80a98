"""The seam between a client's pipelines and what carries their requests."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from ..runtime.observe.log import printable
from ..runtime.protocols.inputs import Given
from ..runtime.protocols.parameters import Parameters
from ..runtime.protocols.results import WireTensor
from ..runtime.request import Code, Fault

_LONGEST: Final = 500  # characters that are told of what a library or a server says
_MISFITS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


class Model(NamedTuple):
    """A model of a server by its name; an empty version is whichever the server gives."""

    name: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `outputs` None asks for all; `parameters` hold the protocol's own words too."""

    model: Model
    tensors: tuple[WireTensor, ...]
    outputs: tuple[str, ...] | None
    parameters: Parameters
    id: str = ""


class Failed(Exception):
    """A request that failed; with `untouched` the server has done nothing of it."""

    def __init__(self, fault: Fault, untouched: bool = False) -> None:
        self.fault, self.untouched = fault, untouched
        super().__init__(fault)


class Cancellation:
    """Lets another thread end a request. A wire says, by `attach`, how what it does is ended."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._lock = threading.Lock()
        self._stop: Callable[[], object] | None = None

    def attach(self, stop: Callable[[], object]) -> None:
        """Let `stop`, which must not raise, end what has begun; at once when that was asked for."""
        with self._lock:
            self._stop = stop
        if self.asked.is_set():
            stop()

    def cancel(self) -> None:
        """End the request, now or as soon as it begins."""
        self.asked.set()
        with self._lock:
            stop = self._stop
        if stop is not None:
            stop()


class Wire(Protocol):
    """A server's address, and connections to it. What goes wrong is raised as Failed.

    `timeout` is what a request has left, in seconds; it is told to the server too.
    """

    address: str

    def config(self, model: Model, timeout: float | None) -> Mapping[str, Any]:  # Any: JSON
        """Return a model's configuration."""
        ...

    def names(self, timeout: float | None) -> Sequence[str]:
        """Return the names of the models that can be asked."""
        ...

    def infer(
        self, asked: Asked, timeout: float | None, cancellation: Cancellation | None
    ) -> list[Given[bytes]]:
        """Return the tensors of the answer."""
        ...

    def stream(
        self, asked: Asked, timeout: float | None, cancellation: Cancellation
    ) -> Iterator[list[Given[bytes]]]:
        """Return the tensors of one response after the other."""
        ...

    def close(self) -> None: ...


@contextmanager
def reading(address: str, what: str) -> Generator[None]:
    """Read what a server has said, which may be anything: what does not fit is no bug of ours but
    its, and a Fault that says so."""
    try:
        yield
    except _MISFITS as error:
        said = f"{what} cannot be read: {type(error).__name__}: {error}"
        message = f"{address} speaks another protocol, or is broken: {said}"
        raise Fault(Code.UNSUPPORTED, message) from error


def lost(address: str, why: object) -> Failed:
    """Return the failure of a connection that broke when the request was on its way."""
    message = f"the connection to {address} was lost, and whether the request ran is not known"
    return Failed(Fault(Code.UNAVAILABLE, f"{message}: {_said(why)}"))


def unreached(address: str, why: object) -> Failed:
    """Return the failure of a request that has not left."""
    message = f"{address} cannot be reached: {_said(why)}{_cure(address, str(why))}"
    return Failed(Fault(Code.UNAVAILABLE, message), True)


def _said(why: object) -> str:
    """Return what is said of a connection; it may hold what the other side has sent."""
    return printable(str(why)[:_LONGEST])


def _cure(address: str, why: str) -> str:
    """Return what can be done about a connection that cannot be made; "" where nothing is known."""
    secure = address.startswith(("grpcs:", "https:"))
    for said, cure in _CURES_WITH_TLS if secure else _CURES_WITHOUT:
        if said in why:
            return f". {cure}"
    return ""


_CURES_WITH_TLS: Final = (
    ("certificate has expired", "Its certificate has expired"),
    ("not valid for", "Its certificate is of another name: ask it by that one"),
    ("Hostname Verification", "Its certificate is of another name: ask it by that one"),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "Nobody who is trusted has signed its certificate: name who has, with `Tls(authority)`",
    ),
    ("WRONG_VERSION_NUMBER", "It speaks no TLS there: write grpc:// or http://"),
    ("Socket closed", "It may want a certificate: show one, with `Tls(..., certificate, key)`"),
)
_CURES_WITHOUT: Final = (
    ("http1.x server", "That is a port of HTTP: take the one of gRPC, or write http://"),
    ("Socket closed", "It may speak TLS alone: write grpcs://"),
)
"""What libraries say of connections, and what it means; the first that fits counts."""


def late(address: str) -> Failed:
    """Return the failure of a request whose time is up."""
    return Failed(Fault(Code.DEADLINE, f"{address} gave no answer in time"))


def cancelled() -> Failed:
    """Return the failure of a request that its caller has ended."""
    return Failed(Fault(Code.CANCELLED, "the request was cancelled"))
