"""uvicorn's HTTP/1.1 protocol with a short way for inference.

    head ─▶ body ─▶ begin ─▶ answer                  is there by then, or when a future is done
                 └▶ scope, cycle, task ─▶ messages   uvicorn's way, for everything else

What uvicorn makes of each request (a scope, a cycle, a task, messages) takes longer than all that
is done for a tiny inference. So nothing is made of one until its body is there: then it is begun
where it is read, and its answer written in one piece. What turns out to be something else, or does
not come in one piece, is made then what uvicorn would have made of it at its head.

A caller sends the same head again and again, but for the body behind it. So a connection keeps the
last that was parsed: a request that begins with it, byte for byte, and comes in one piece is not
parsed anew.
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

from .http_answer import Answer, Begin, Inference, Later
from .request import Response

_FEW = 1 << 14  # bytes of a body of which any that have come can wait for the rest
_COPIED = 1 << 16  # bytes of an answer that are copied sooner than handed over in two parts
_KEPT = 1 << 10  # bytes of a head that is kept
_END = b"\r\n\r\n"  # of a head


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
    """What hears of requests for inference; None where there are none."""

    default_lines: DefaultLines
    parser: HttpRequestParser

    _short: _Short
    _may_begin = False  # whether a request that is read next may go the short way
    _begin: Begin | None = None  # what begins a request that waits for its body
    _held: dict[bytes, bytes]  # the headers of that
    _content = b""  # what has come of its body
    _later: Later | None = None  # what its answer waits for
    _begun: Begin | None = None  # what has begun a request in what is being parsed
    _rests = True  # whether the parser is between two messages
    _known: tuple[bytes, int, Begin] | None = None
    """The last head that was parsed, how many bytes it has with its body, and what begins it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] - as uvicorn has it
        super().connection_made(transport)
        self.cycle = self._short = _Short()

    def connection_lost(self, exc: Exception | None) -> None:
        self._begin = self._known = None
        later, self._later = self._later, None
        super().connection_lost(exc)
        if later is not None:
            later.outcome.cancel()

    def data_received(self, data: bytes) -> None:
        rested, self._begun = self._rests, None
        self._may_begin = self.inference is not None and not self.flow.write_paused
        super().data_received(data)
        if self._begin is not None:
            if self.transport.is_closing() or not _is_small(self._held):
                self._go_on()
        elif self._begun is not None and rested and self._rests:
            self._keep(data, self._begun)

    def _keep(self, data: bytes, begin: Begin) -> None:
        """Keep the head of what has come if that was one request and the connection goes on."""
        size = data.find(_END, 0, _KEPT) + len(_END)
        if size + len(self._content) == len(data) and self._short.keep_alive:
            self._known = data[:size], len(data), begin

    def is_known(self, data: bytes) -> bool:
        """Whether what has come is a request with the head that was parsed last."""
        known = self._known
        return (
            known is not None
            and len(data) == known[1]
            and data.startswith(known[0])
            and self._rests
            and self.cycle.response_complete
            and not self.flow.write_paused
        )

    def hear_again(self, data: bytes) -> None:
        """Begin a request that `is_known`."""
        assert self._known is not None
        head, _, begin = self._known
        self.cycle = self._short
        self._short.response_complete, self._short.keep_alive = False, True
        self._content = data[len(head) :]
        self._start(begin)

    def on_message_begin(self) -> None:
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self._rests, self._known = False, None

    def on_headers_complete(self) -> None:
        if self.transport.is_closing():  # what comes behind the last request is none
            return
        if self._may_begin and self.cycle.response_complete:
            assert self.inference is not None
            if self.parser.get_method() == b"POST":
                headers = dict(self.headers)
                begin = self.inference.hear(self.url, headers)
                if begin is not None:
                    self._hold(begin, headers)
                    return
        self._enter(self.app)  # type: ignore[arg-type] - uvicorn has its own types

    def on_body(self, body: bytes) -> None:
        if self._begin is not None:
            self._content += body
        elif not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._rests = True
        if self.transport.is_closing():
            return
        if self._begin is not None:
            self._may_begin, self._begun = False, self._begin
            self._start(self._begin)
        else:
            super().on_message_complete()

    def _hold(self, begin: Begin, headers: dict[bytes, bytes]) -> None:
        """Keep a request until its body is there."""
        short = self._short
        keep_alive = self.parser.should_keep_alive()
        if keep_alive and b"connection" in headers:
            keep_alive = self.parser.get_http_version() != "1.0"
        short.response_complete, short.keep_alive = False, keep_alive
        self.cycle = short
        self._begin, self._held, self._content, self._may_begin = begin, headers, b"", False

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
        short, self._begin = self._short, None
        short.response_complete = True
        if self.transport.is_closing():
            return
        self._enter(app or self.app)  # type: ignore[arg-type] - as above
        if not short.keep_alive:
            self.cycle.keep_alive = False
        super().on_body(self._content)

    def _start(self, begin: Begin) -> None:
        """Begin a request: all of it is there."""
        begun = begin(self._content)
        if isinstance(begun, Answer):
            self._begin = None
            self._write(begun)
        elif isinstance(begun, Later):
            self._begin, self._later = None, begun
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
        head = (
            STATUS_LINE[status],
            self.default_lines.of(self.server_state.default_headers),
            as_lines(headers),
            b"\r\n" if short.keep_alive else b"connection: close\r\n\r\n",
        )
        if len(body) < _COPIED:
            self.transport.write(b"".join((*head, body)))
        else:
            self.transport.writelines((b"".join(head), body))
        short.response_complete = True
        if not short.keep_alive:
            self.transport.close()
        self.on_response_complete()


def _is_small(headers: dict[bytes, bytes]) -> bool:
    """Whether a body is to be waited for: its few bytes are on their way, unasked."""
    length = headers.get(b"content-length", b"")
    few = length.isdigit() and len(length) < 18 and int(length) <= _FEW
    return few and b"expect" not in headers
