"""uvicorn's HTTP/1.1 protocol with limits on what callers make it wait for and keep.

    silent ─▶ head ─▶ body ─▶ answer ─▶ silent      a phase that takes too long ends the connection

Left to itself the protocol keeps a head until it is complete, however long it gets; waits for
whoever sends slowly or does not read; and takes any number of connections. A connection is silent
until a head is complete, so that whoever sends none has to make room for those who do.

A request that has come in one piece is begun where it is read, and its answer, if that is there
then, is written in one piece: a task of its own and the messages of ASGI take as long as all that
is done for a tiny inference.
"""

import sys
from asyncio import TimerHandle, Transport
from typing import Any, cast

from httptools import HttpParserUpgrade, HttpRequestParser
from starlette.types import ASGIApp, Scope
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from .http_answer import Answer, Begin
from .protocols.limits import CallerLimits

_LONGEST_HEAD = 1 << 16
_FEW = 1 << 14  # bytes of a body of which any that have come can wait for the rest
_OF_UPGRADES = (b"upgrade", b"connection", b"http2-settings")
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class LimitedProtocol(HttpToolsProtocol):
    """Answers 400 and closes when a head has more than 64 KiB. See `limited` for the rest."""

    limits: CallerLimits
    parser: HttpRequestParser
    silent: "dict[LimitedProtocol, None]"
    """Connections without a request, in the order in which they fell silent."""

    begin: Begin | None
    """What begins requests that are all there."""

    _held: "RequestResponseCycle | None" = None  # a request that is read, and not begun
    _reading = False  # whether what has come is being parsed
    _head = 0  # bytes of a head that is not complete
    _in_body = False  # whether the head is complete and the rest is not
    _ended = False  # whether a message ended in what is being parsed
    _bare = 0  # bytes since there was any of a body: what is behind it is kept, too
    _body = 0  # bytes of a body that came since it was looked at
    _unread = 0  # bytes that wait for the caller to read, when that was looked at
    _waiting: TimerHandle | None = None  # for the rest of a request
    _writing: TimerHandle | None = None  # for the caller to read

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override] - as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            if not self.silent:
                transport.write(_FULL)
                transport.close()
                return
            next(iter(self.silent)).give_up()
        self.silent[self] = None
        self._waiting = self.loop.call_later(self.limits.idle, self.give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._held = None
        self.silent.pop(self, None)
        self._wait_no_more()
        if self._writing is not None:
            self._writing.cancel()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """End the connection at once."""
        self.silent.pop(self, None)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._reading = self.begin is not None
        self._hear(data)
        self._reading = False
        if self._held is not None:
            self._begin_held(self._held)

    def _hear(self, data: bytes) -> None:
        """Parse what has come, and see how long the rest may take."""
        self._bare += len(data)
        self._data, self._ended = data, False
        super().data_received(data)
        cycle = self.cycle  # None before the first request, which uvicorn's types do not say
        if self.transport.is_closing():
            return
        if self._in_body:
            self._body += len(data)
            if self._bare > _LONGEST_HEAD:
                self.give_up()
            elif self._waiting is None:
                self._wait_for_body()
        elif self._ended and cycle.response_complete:  # a body that was answered before it came
            self._wait_no_more()
            self.silent[self] = None
            self._waiting = self.loop.call_later(self.limits.idle, self.give_up)
        elif not cycle or cycle.response_complete or "method" not in self.scope:
            self._head += len(data)
            if self._head > _LONGEST_HEAD:
                self.send_400_response("The head of the request is too large.")
            elif self._head == len(data):  # its first bytes
                self._wait_no_more()
                self._waiting = self.loop.call_later(self.limits.head, self._too_slow)

    def _unsupported_upgrade_warning(self) -> None:
        """Hear a request again without its wish for another protocol: to the parser all that
        follows such a head is the other protocol, and to everybody else it is the body."""
        upgrade = sys.exception()
        assert isinstance(upgrade, HttpParserUpgrade)
        rest = self._data[upgrade.args[0] :]
        lines = [b"%b %b HTTP/1.1" % (self.parser.get_method(), self.url)]
        lines += [b"%b: %b" % one for one in self.headers if one[0] not in _OF_UPGRADES]
        self.parser = HttpRequestParser(self)
        self._hear(b"\r\n".join((*lines, b"", b"")) + rest)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # Any: as uvicorn
        """Hold the first request of what has come back until all of that is read."""
        if self._reading and self._held is None:
            self._held = cycle
        else:
            super()._start_asgi_task(cycle, app)

    def _begin_held(self, cycle: RequestResponseCycle) -> None:
        """Begin a request, unless the rest of its few bytes is to come."""
        scope, closing = cycle.scope, self.transport.is_closing()
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if cycle.more_body and not closing and _is_small(headers):
            return
        self._held = None
        begun: ASGIApp | Answer = self.app  # type: ignore[assignment] - uvicorn has its own types
        if not (cycle.more_body or closing or self.flow.write_paused) and self.begin is not None:
            begun = self.begin(cast("Scope", scope), headers, bytes(cycle.body))
        if isinstance(begun, Answer):
            self._write(cycle, begun)
        else:
            super()._start_asgi_task(cycle, cast("Any", begun))  # Any: as above

    def _write(self, cycle: RequestResponseCycle, answer: Answer) -> None:
        """Answer a request, and go on with what follows it."""
        status, headers, body = answer
        lines = [b"%b: %b\r\n" % one for one in (*cycle.default_headers, *headers)]
        end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        self.transport.writelines((b"".join((STATUS_LINE[status], *lines, end)), body))
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            return
        self.silent.pop(self, None)
        self._wait_no_more()
        self._head, self._bare, self._in_body = 0, 0, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._bare = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._in_body:  # nor is there a head: it is to be heard again
            return
        self._wait_no_more()
        self._in_body, self._ended = False, True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None:  # there is no other request
            self.silent[self] = None

    def timeout_keep_alive_handler(self) -> None:
        if self.transport.get_write_buffer_size():
            self.give_up()  # for to close would wait until the caller reads
        else:
            super().timeout_keep_alive_handler()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._writing is None:
            self._wait_for_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _too_slow(self) -> None:
        self._waiting = None
        self.send_400_response("The head of the request takes too long.")

    def _wait_for_body(self) -> None:
        self._body = 0
        self._waiting = self.loop.call_later(self.limits.patience, self._look_at_body)

    def _look_at_body(self) -> None:
        self._waiting = None
        if self.flow.read_paused or self._body >= self.limits.patience * self.limits.rate:
            self._wait_for_body()
        else:
            self.give_up()

    def _wait_for_reader(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._writing = self.loop.call_later(self.limits.patience, self._look_at_reader)

    def _look_at_reader(self) -> None:
        read = self._unread - self.transport.get_write_buffer_size()
        if read >= self.limits.patience * self.limits.rate:
            self._wait_for_reader()
        else:
            self.give_up()


def _is_small(headers: dict[bytes, bytes]) -> bool:
    """Whether a body is to be waited for: its few bytes are on their way, unasked."""
    length = headers.get(b"content-length", b"")
    few = length.isdigit() and len(length) < 18 and int(length) <= _FEW
    return few and b"expect" not in headers


def limited(limits: CallerLimits, begin: Begin | None = None) -> type[LimitedProtocol]:
    """Return the protocol of one port, which holds its connections to `limits`."""
    own = {"limits": limits, "silent": {}, "begin": None if begin is None else staticmethod(begin)}
    return type("LimitedProtocol", (LimitedProtocol,), own)
