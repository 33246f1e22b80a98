"""HTTP: the responses of a stream, as they come."""

import asyncio
from collections.abc import Callable, Mapping

from ..stdlib.op import Item
from .protocols.models import Model
from .request import Request
from .service import Service
from .streams import Stream


class Reader:
    """`encode` makes each response's bytes. Belongs to the event loop that makes it."""

    def __init__(
        self,
        service: Service,
        model: Model,
        version: str,
        asked: Request,
        encode: Callable[[Model, Mapping[str, Item]], bytes],
    ) -> None:
        loop, self._ready = asyncio.get_running_loop(), asyncio.Event()
        self._stream: Stream[bytes] = service.open(
            model, asked, encode, lambda: loop.call_soon_threadsafe(self._ready.set), version
        )

    async def take(self) -> list[bytes]:
        """Return the responses that are there, at least one; none when there will be no more.

        Raises the Fault that ended the request.
        """
        while True:
            if found := self._stream.take():
                return found
            if self._stream.over:
                return []
            await self._ready.wait()
            self._ready.clear()

    def cancel(self) -> None:
        """Drop what is left."""
        self._stream.cancel()
