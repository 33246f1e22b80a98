"""What a stage may ask of the server that runs it: other models, as any client has them, and
metrics of its own.

A nested request goes the way of those that come over the wire: it is routed by name and version,
waits in the same queues and meets the rows of others there. Its time ends with that of the request
that it is made for, whose priority and trace it has.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ..stdlib.op import Item
from .context import Context
from .custom_metrics import CustomMetrics
from .meetings import Lend, Tell
from .protocols.models import Model
from .request import Request, Response
from .streams import Stream
from .units import Behind

INHERITED = ("traceparent", "tracestate", "headrace-trace")


class Nested(Protocol):
    """Asks models by name; an empty version is whichever is served. Faults are raised at once, or
    are those of the future or stream."""

    @property
    def metrics(self) -> CustomMetrics: ...

    @property
    def now(self) -> Callable[[], float]:
        """The clock that deadlines are told on."""
        ...

    def model(self, name: str, version: str) -> Model:
        """Return how a model's values travel; raises Fault NOT_FOUND."""
        ...

    def submit(self, request: Request, version: str) -> Future[Response]: ...

    def run(self, request: Request, version: str, tell: Tell, lend: Lend | None = None) -> None:
        """Ask from a thread that does nothing else until the answer is there, and so had better
        run the request, and what waits for that. `tell` is called once with what has become of it,
        in this thread or another. Where who has asked is this thread itself, it has to go on then,
        and until then it does what it is lent for."""
        ...

    def open(
        self, request: Request, version: str, notify: Callable[[], object]
    ) -> Stream[Mapping[str, Item]]: ...

    def ready(self, name: str, version: str) -> bool: ...

    def load(self, name: str, config: str) -> "Future[None]": ...

    def unload(self, name: str) -> "Future[None]": ...


def tell_of(future: Future[Response], tell: Tell) -> None:
    """Let `tell` be called with what a future comes to."""

    def done(future: Future[Response]) -> None:
        try:
            found = future.result()
        except BaseException as error:  # a cancelled future too, as when the engine is closed
            tell(error)
        else:
            tell(found)

    future.add_done_callback(done)


class Urgency(NamedTuple):
    """What nested requests have of those that they are made for."""

    deadline: float | None = None
    priority: int = 0
    parameters: Mapping[str, bool | int | float | str] = MappingProxyType({})
    behind: Behind = ()


def urgency_of(contexts: Sequence[Context]) -> Urgency:
    """Return the latest time and the highest priority of some requests; what is traced of them,
    where it is one."""
    if len(contexts) == 1:
        (one,) = contexts
        given = one.parameters
        inherited = {name: given[name] for name in INHERITED if name in given} if given else given
        return Urgency(one.deadline, one.priority, inherited, one.holds)
    deadlines = [one.deadline for one in contexts]
    known = [one for one in deadlines if one is not None]
    deadline = max(known) if known and len(known) == len(deadlines) else None
    priority = min((one.priority for one in contexts if one.priority), default=0)
    behind = dict.fromkeys(holding for one in contexts for holding in one.holds)
    return Urgency(deadline, priority, behind=tuple(behind))
