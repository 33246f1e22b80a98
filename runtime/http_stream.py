"""HTTP: the responses of a stream, as they come.

    Reader.take ─▶ all that there are, in one piece ─▶ the next, until the stream is over

What goes wrong before the first is a status, what goes wrong later a response that tells of it. One
task answers, and another waits for the caller to go away.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from starlette.types import Message, Receive, Scope, Send

from ..stdlib.op import Item
from .http_body import GoneError, disconnected
from .http_encode import failed
from .protocols.models import Model
from .request import Fault, Request
from .service import Service, explain
from .streams import Stream


class Framing(NamedTuple):
    """How responses stand behind each other: each `before` and `after` something, at last `end`.
    `encode` makes a response's bytes, in the threads of engines, `fail` those that tell of a
    fault."""

    headers: list[tuple[bytes, bytes]]
    encode: Callable[[Model, Mapping[str, Item]], bytes]
    fail: Callable[[Fault], bytes]
    before: bytes
    after: bytes
    end: bytes

    def join(self, responses: list[bytes]) -> bytes:
        between = self.after + self.before
        return b"".join((self.before, between.join(responses), self.after))


class Reader:
    """Of one stream and its caller. Belongs to the event loop that makes it."""

    def __init__(
        self,
        service: Service,
        model: Model,
        version: str,
        asked: Request,
        encode: Callable[[Model, Mapping[str, Item]], bytes],
        receive: Receive,
    ) -> None:
        loop, self._ready = asyncio.get_running_loop(), asyncio.Event()
        self._stream: Stream[bytes] = service.open(
            model, asked, encode, lambda: loop.call_soon_threadsafe(self._ready.set), version
        )
        self._gone = asyncio.ensure_future(disconnected(receive))
        self._gone.add_done_callback(lambda _: self._ready.set())

    async def take(self) -> list[bytes]:
        """Return the responses that are there, at least one; none when there will be no more.

        Raises the Fault that ended the request, GoneError when its caller has gone away.
        """
        while True:
            if self._gone.done():
                raise GoneError
            if found := self._stream.take():
                return found
            if self._stream.over:
                return []
            await self._ready.wait()
            self._ready.clear()

    def close(self) -> None:
        """Drop what is left, and wait for the caller no more."""
        self._gone.cancel()
        self._stream.cancel()


async def send_stream(
    service: Service,
    model: Model,
    version: str,
    asked: Request,
    framing: Framing,
    _: Scope,
    receive: Receive,
    send: Send,
) -> None:
    """Answer with the responses of a stream."""
    try:
        reader = Reader(service, model, version, asked, framing.encode, receive)
    except Exception as error:
        await failed(error, asked.id).send(send)
        return
    try:
        await _send_all(reader, framing, asked.id, send)
    except GoneError:
        pass
    finally:
        reader.close()


async def _send_all(reader: Reader, framing: Framing, request_id: str, send: Send) -> None:
    try:
        found = await reader.take()
    except Fault as fault:
        await failed(fault, request_id).send(send)
        return
    start: Message = {"type": "http.response.start", "status": 200, "headers": framing.headers}
    await send(start)
    try:
        while found:
            await send(_part(framing.join(found)))
            found = await reader.take()
    except Fault as fault:
        await send(_part(framing.join([framing.fail(explain(fault, request_id))])))
    await send({"type": "http.response.body", "body": framing.end})


def _part(body: bytes) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": True}
