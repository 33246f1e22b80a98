"""HTTP/1.1 with limits on what callers make it wait for and keep.

    silent ─▶ head ─▶ body ─▶ answer ─▶ silent      a phase that takes too long ends the connection

Left to itself uvicorn's protocol keeps a head until it is complete, however long it gets; waits for
whoever sends slowly or does not read; and takes any number of connections. A connection is silent
until a head is complete, so that whoever sends none has to make room for those who do.
"""

import sys
from asyncio import TimerHandle, Transport

from httptools import HttpParserUpgrade, HttpRequestParser

from .http_answer import Inference
from .http_short import DefaultLines, ShortProtocol
from .protocols.limits import CallerLimits

_LONGEST_HEAD = 1 << 16
_OF_UPGRADES = (b"upgrade", b"connection", b"http2-settings")
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class LimitedProtocol(ShortProtocol):
    """Answers 400 and closes when a head has more than 64 KiB. See `limited` for the rest."""

    limits: CallerLimits
    silent: "dict[LimitedProtocol, None]"
    """Connections without a request, in the order in which they fell silent."""

    _data = b""  # what is being parsed
    _heading = False  # whether a message has begun whose head is not complete
    _head = 0  # bytes of a head that is not complete
    _in_body = False  # whether the head is complete and the rest is not
    _ended = False  # whether a message ended in what is being parsed
    _bare = 0  # bytes since there was any of a body: what is behind it is kept, too
    _body = 0  # bytes of a body that came since it was looked at
    _unread = 0  # bytes that wait for the caller to read, when that was looked at
    _since = 0.0  # when it fell silent
    _idle: TimerHandle | None = None  # for the end of a silence
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
        self._fall_silent()
        self._idle = self.loop.call_later(self.limits.idle, self._look_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self.silent.pop(self, None)
        for timer in (self._idle, self._waiting, self._writing):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def give_up(self) -> None:
        """End the connection at once."""
        self.silent.pop(self, None)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse what has come, and see how long the rest may take."""
        if not self._head and self.is_known(data):
            self.silent.pop(self, None)
            self.hear_again(data)
            return
        self._bare += len(data)
        self._data, self._ended = data, False
        super().data_received(data)
        self._data = b""
        if self._in_body:
            self._hear_body(len(data))
        elif self._heading or not (self._ended or self._is_busy):
            self._hear_head(len(data))

    @property
    def _is_busy(self) -> bool:
        """Whether there is a request that is not answered."""
        return not self.cycle.response_complete

    def _hear_body(self, size: int) -> None:
        self._body += size
        if self._bare > _LONGEST_HEAD:
            self.give_up()
        elif self._waiting is None and not self.transport.is_closing():
            self._wait_for_body()

    def _hear_head(self, size: int) -> None:
        if self.transport.is_closing():
            return
        self._head += size
        if self._head > _LONGEST_HEAD:
            self.send_400_response("The head of the request is too large.")
        elif self._head == size:  # its first bytes
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
        self.data_received(b"\r\n".join((*lines, b"", b"")) + rest)

    def on_message_begin(self) -> None:
        self._heading = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            return
        self.silent.pop(self, None)
        self._wait_no_more()
        self._head, self._bare, self._heading, self._in_body = 0, 0, False, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._bare = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._in_body:  # nor is there a head: it is to be heard again
            return
        self._wait_no_more()
        self._in_body, self._ended = False, True
        if not self._is_busy:  # a body that was answered before it came
            self._fall_silent()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Do as uvicorn does, but for the timer: one that is looked at when it is due is made
        once, and not for each request."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._fall_silent()

    def _fall_silent(self) -> None:
        self.silent.pop(self, None)
        self.silent[self] = None
        self._since = self.loop.time()

    def _look_if_idle(self) -> None:
        left = self.limits.idle
        if self in self.silent and not self._head and not self._in_body:
            left += self._since - self.loop.time()
        if left > 0:
            self._idle = self.loop.call_later(left, self._look_if_idle)
        elif self.transport.get_write_buffer_size():
            self.give_up()  # for to close would wait until the caller reads
        else:
            self.transport.close()

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


def limited(limits: CallerLimits, inference: Inference | None = None) -> type[LimitedProtocol]:
    """Return the protocol of one port, which holds its connections to `limits`."""
    own = {"limits": limits, "silent": {}, "inference": inference, "default_lines": DefaultLines()}
    return type("LimitedProtocol", (LimitedProtocol,), own)
