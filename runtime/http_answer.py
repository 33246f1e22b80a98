"""HTTP: an answer that is whole, and what begins a request that is."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from starlette.types import ASGIApp, Message, Scope, Send

from .protocols.raw import Buffer


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


Begin: TypeAlias = Callable[[Scope, dict[bytes, bytes], Buffer], Answer | ASGIApp]
"""Begins a request, of which all of the body is there: returns the answer, or what is to answer,
which may receive the body once more. The headers are those of the scope."""
