"""uvicorn's HTTP/1.1 protocol with a short way for inference.

    head ─▶ body ─▶ begin ─▶ answer                  is there by then, or when a future is done
                 └▶ scope, cycle, task ─▶ messages   uvicorn's way, for everything else

What uvicorn makes of each request (a scope, a cycle, a task, messages) takes longer than all that
is done for a tiny inference. So nothing is made of one until its body is there: then it is begun
where it is read, and its answer written in one piece. What turns out to be something else, or does
not come in one piece, is made then what uvicorn would have made of it at its head.
"""

import asyncio
from concurrent.futures import Future
from contextlib import suppress

from httptools import HttpRequestParser
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from .http_answer import Answer, Asked, Inference, Later
from .request import Response

_FEW = 1 << 14  # bytes of a body of which any that have come can wait for the rest
_COPIED = 1 << 16  # bytes of an answer that are copied sooner than handed over in two parts


class DefaultLines:
    """The headers that go with every answer, as they are written."""

    def __init__(self) -> None:
        self._headers: list[tuple[bytes, bytes]] = []
        self._lines = b""

    def of(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the lines of the headers, of which there is another list each second."""
        if headers is not self._headers:
            self._lines = as_lines(headers)
            self._headers = headers
        return self._lines


def as_lines(headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return headers as they are written."""
    return b"".join([b"%b: %b\r\n" % one for one in headers])


class _Short(RequestResponseCycle):
    """Stands for a request that goes the short way where uvicorn looks for its cycle: whether it
    is answered, whether the connection goes on, whether anybody is still there."""

    def __init__(self) -> None:
        self.response_complete = self.keep_alive = True
        self.disconnected = False
        self.message_event = asyncio.Event()


class ShortProtocol(HttpToolsProtocol):
    """Of what has come at once the first request alone goes the short way, so that who sends many
    does not keep the others waiting."""

    inference: Inference | None
    """What begins requests for inference; None where there are none."""

    default_lines: DefaultLines
    parser: HttpRequestParser

    _short: _Short
    _may_begin = False  # whether a request that is read next may go the short way
    _asked: Asked | None = None  # what a request asks for that waits for its body
    _held: dict[bytes, bytes]  # the headers of that
    _content = b""  # what has come of its body
    _later: Later | None = None  # what its answer waits for

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - as uvicorn has it
        super().connection_made(transport)
        self.cycle = self._short = _Short()

    def connection_lost(self, exc: Exception | None) -> None:
        self._asked = None
        later, self._later = self._later, None
        super().connection_lost(exc)
        if later is not None:
            later.outcome.cancel()

    def data_received(self, data: bytes) -> None:
        self._may_begin = self.inference is not None and not self.flow.write_paused
        super().data_received(data)
        if self._asked is not None and (self.transport.is_closing() or not _is_small(self._held)):
            self._go_on()

    def on_message_begin(self) -> None:
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        if self.transport.is_closing():  # what comes behind the last request is none
            return
        if self._may_begin and self.cycle.response_complete:
            assert self.inference is not None
            asked = self.inference.asked(self.url) if self.parser.get_method() == b"POST" else None
            if asked is not None:
                self._hold(asked)
                return
        self._enter(self.app)  # type: ignore[arg-type] - uvicorn has its own types

    def on_body(self, body: bytes) -> None:
        if self._asked is not None:
            self._content += body
        elif not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.transport.is_closing():
            return
        if self._asked is not None:
            self._begin(self._asked)
        else:
            super().on_message_complete()

    def _hold(self, asked: Asked) -> None:
        """Keep a request until its body is there."""
        headers, short = dict(self.headers), self._short
        keep_alive = self.parser.should_keep_alive()
        if keep_alive and b"connection" in headers:
            keep_alive = self.parser.get_http_version() != "1.0"
        short.response_complete, short.keep_alive = False, keep_alive
        self.cycle = short
        self._asked, self._held, self._content, self._may_begin = asked, headers, b"", False

    def _enter(self, app: ASGIApp) -> None:
        """Do what uvicorn does when a message has begun and when its head is complete."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers = self.scope["headers"] = headers
        served, self.app = self.app, app  # type: ignore[assignment] - uvicorn has its own types
        try:
            super().on_headers_complete()
        finally:
            self.app = served

    def _go_on(self, app: "ASGIApp | None" = None) -> None:
        """Let uvicorn go on with the request that is held."""
        short, self._asked = self._short, None
        short.response_complete = True
        if self.transport.is_closing():
            return
        self._enter(app or self.app)  # type: ignore[arg-type] - as above
        if not short.keep_alive:
            self.cycle.keep_alive = False
        super().on_body(self._content)

    def _begin(self, asked: Asked) -> None:
        """Begin the request that is held: all of it is there."""
        self._may_begin = False
        assert self.inference is not None
        begun = self.inference.begin(asked, self._held, self._content)
        if isinstance(begun, Answer):
            self._asked = None
            self._write(begun)
        elif isinstance(begun, Later):
            self._asked, self._later = None, begun
            begun.outcome.add_done_callback(self._tell)
        else:
            self._go_on(begun)
            super().on_message_complete()

    def _tell(self, _: Future[Response]) -> None:
        """Hear, in any thread, that what an answer waits for is done."""
        if self._later is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody is there to be answered
                self.loop.call_soon_threadsafe(self._finish)

    def _finish(self) -> None:
        later, self._later = self._later, None
        if later is not None and not self.transport.is_closing():
            self._write(later.answer())

    def send_400_response(self, msg: str) -> None:
        """Refuse what came last; behind a request that waits nothing more is heard, and its answer
        is the last: who asked would take a refusal for it."""
        if self._later is None:
            super().send_400_response(msg)
        else:
            self._short.keep_alive = False
            self.flow.pause_reading()

    def _write(self, answer: Answer) -> None:
        """Answer the request that went the short way, and go on with what follows it."""
        status, headers, body = answer
        short = self._short
        head = b"".join(
            (
                STATUS_LINE[status],
                self.default_lines.of(self.server_state.default_headers),
                as_lines(headers),
                b"\r\n" if short.keep_alive else b"connection: close\r\n\r\n",
            )
        )
        if len(body) < _COPIED:
            self.transport.write(head + body)
        else:
            self.transport.writelines((head, body))
        short.response_complete = True
        if not short.keep_alive:
            self.transport.close()
        self.on_response_complete()


def _is_small(headers: dict[bytes, bytes]) -> bool:
    """Whether a body is to be waited for: its few bytes are on their way, unasked."""
    length = headers.get(b"content-length", b"")
    few = length.isdigit() and len(length) < 18 and int(length) <= _FEW
    return few and b"expect" not in headers
