"""A server, whose pipelines are called as those of an app are."""

from typing import Any, Final

from ..asked import request_timeout
from ..dsl.nearest import nearest
from ..runtime.record import Record
from ..runtime.request import Code, Fault, RequestError
from .address import Address, Tls, read_address
from .calls import attempted
from .pipeline import Link, RemotePipeline
from .retry import Budget, Counts, Retries, Timing
from .threads import Threads
from .wire import Model, Wire

_LISTED: Final = 20  # names that an error lists


class Client:
    """Calls may come from any thread. What a pipeline takes is asked of the server once.

    A context manager; `close` waits for what was submitted.
    """

    def __init__(
        self,
        address: str,
        timeout: float | None = None,
        *,
        tls: Tls | None = None,
        token: str | None = None,
        retries: Retries | None = None,
        submitted: int = 32,
        timing: Timing | None = None,
    ) -> None:
        """`address` is `grpc://` or `http://` and host:port, with TLS `grpcs://` or `https://`.

        `timeout` in seconds holds for calls that name none; `token` is shown with each. `retries`
        says what is sent again (None: as `Retries()`; `NEVER`: nothing). Of what was submitted at
        most that many are under way at a time. Nothing is connected before the first call.
        """
        where = read_address(address, tls, token)
        budget = Budget(Retries() if retries is None else retries)
        seconds = request_timeout(timeout)
        self._link = Link(_wire(where), budget, timing or Timing(), Threads(submitted), seconds)
        self._pipelines: dict[str, RemotePipeline] = {}
        self._closed = False
        self._only: str | None = None

    @property
    def address(self) -> str:
        """Where the server is."""
        return self._link.wire.address

    @property
    def counts(self) -> Counts:
        """How many requests there were, and how often one was sent again."""
        return self._link.budget.counts

    def pipelines(self) -> tuple[str, ...]:
        """Return the names of the pipelines that the server has ready."""
        link = self._link
        due = None if link.timeout is None else link.timing.now() + link.timeout
        names = attempted(link.wire.names, self.address, link.budget, link.timing, due, None)
        return tuple(names)

    def __getitem__(self, name: str) -> RemotePipeline:
        """Return a pipeline; raises Fault NOT_FOUND when the server has none of that name."""
        if self._closed:
            raise Fault(Code.UNAVAILABLE, "the client is closed")
        found = self._pipelines.get(name)
        if found is None:
            found = self._pipelines.setdefault(name, self._asked(name))
        return found

    def _asked(self, name: str) -> RemotePipeline:
        """Return a pipeline that was not asked for before; where there is none, the Fault says
        which may be meant."""
        try:
            return RemotePipeline(self._link, Model(name))
        except Fault as fault:
            if fault.code is Code.NOT_FOUND:
                fault.message += self._meant(name)
            raise

    def _meant(self, name: str) -> str:
        """Return what to say of a name that the server does not know."""
        try:
            names = self.pipelines()
        except Fault:
            return ""  # not everybody may list them, and not every server does
        if (meant := nearest(name, names)) is not None:
            return f". Did you mean `{meant}`?"
        more = ", ..." if len(names) > _LISTED else ""
        return f". It serves {', '.join(names[:_LISTED])}{more}" if names else ". It serves nothing"

    def __getattr__(self, name: str) -> RemotePipeline:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __call__(self, /, **said: Any) -> Record:  # Any: inputs and options
        """Call the only pipeline that the server has ready, as an app with a single one is."""
        if self._only is None:
            names = self.pipelines()
            if len(names) != 1:
                known = ", ".join(names) or "none"
                raise RequestError(
                    f"{self.address} has not one pipeline ready, but {known}; say which"
                )
            self._only = names[0]
        return self[self._only](**said)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.address!r})"

    def close(self) -> None:
        """Take no more requests, wait for those that were submitted, and close the connections."""
        self._closed = True
        self._link.threads.close()
        self._link.wire.close()


def _wire(address: Address) -> Wire:
    if address.scheme.startswith("grpc"):
        try:
            from .grpc import GrpcWire
        except ImportError as error:
            raise ImportError(
                f"grpc:// wants the Python package `{error.name}`: pip install 'headrace[server]', "
                "or ask over http://",
                name=error.name,
            ) from error
        return GrpcWire(address)
    from .http import HttpWire

    return HttpWire(address)
