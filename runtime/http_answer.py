"""HTTP: an answer that is whole, and what begins a request that is."""

from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from starlette.types import ASGIApp, Message, Send

from .protocols.raw import Buffer
from .request import Response


class Answer(NamedTuple):
    """A status, headers with `content-length` among them, and a body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    async def send(self, send: Send) -> None:
        """Send it as ASGI has it."""
        start: Message = {
            "type": "http.response.start",
            "status": self.status,
            "headers": self.headers,
        }
        await send(start)
        await send({"type": "http.response.body", "body": self.body})


class Later(NamedTuple):
    """What an answer waits for, and what makes it once that is done; neither raises."""

    outcome: Future[Response]
    answer: Callable[[], Answer]


class Way(Enum):
    """In which form inference is asked for, and answered: its path ends so."""

    INFER = "infer"
    GENERATE = "generate"
    EVENTS = "generate_stream"


Begun: TypeAlias = Answer | Later | ASGIApp
"""The answer, what it waits for, or what is to answer, which may receive the body once more."""

Begin: TypeAlias = Callable[[Buffer], Begun]
"""Begins requests of one head, of which all of the body is there."""


class Inference(Protocol):
    """Hears of requests for inference. The names of headers are in lower case."""

    def hear(self, target: bytes, headers: dict[bytes, bytes]) -> Begin | None:
        """Return what begins a POST with this head, once and as often as the same is sent again;
        None where that is no inference. Raises HttpParserInvalidURLError where it is no target."""
        ...
