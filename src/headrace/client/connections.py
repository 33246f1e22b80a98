"""Connections over HTTP that are kept from one request to the next.

A server may close one that is idle, at the moment in which a request is put on it; whether it has
seen the request is then not known. So none is used that is closed already, or has been idle for
nearly as long as servers commonly allow.
"""

import select
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from http.client import HTTPConnection, HTTPSConnection

from .address import Address

_IDLE = 3.0
"""Seconds; uvicorn, like others, closes after 5."""


class Connections:
    """Takes the connection that was used last, or makes one."""

    def __init__(self, address: Address, now: Callable[[], float] = time.monotonic) -> None:
        self._address, self._now = address, now
        self._tls: ssl.SSLContext | None = None if address.tls is None else address.tls.context()
        self._lock = threading.Lock()
        self._idle: deque[tuple[float, HTTPConnection]] = deque()
        self._closed = False

    def take(self, timeout: float | None) -> HTTPConnection:
        """Return a connection; raises OSError where none can be made."""
        oldest = self._now() - _IDLE
        while (kept := self._take_idle()) is not None:
            since, connection = kept
            if since >= oldest and not _is_over(connection):
                connection.timeout = timeout
                connection.sock.settimeout(timeout)
                return connection
            connection.close()
        connection = self._made(timeout)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        return connection

    def give_back(self, connection: HTTPConnection) -> None:
        """Keep a connection on which nothing is under way."""
        with self._lock:
            if not self._closed and connection.sock is not None:
                self._idle.append((self._now(), connection))
                return
        connection.close()

    def close(self) -> None:
        """Close those that are kept, and from now on each that is given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, deque()
        for _, connection in idle:
            connection.close()

    def _take_idle(self) -> tuple[float, HTTPConnection] | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _made(self, timeout: float | None) -> HTTPConnection:
        host, port = self._address.host, self._address.port
        if self._tls is None:
            return HTTPConnection(host, port, timeout=timeout)
        return HTTPSConnection(host, port, timeout=timeout, context=self._tls)


def _is_over(connection: HTTPConnection) -> bool:
    """Whether the other side has closed it, or says what nobody has asked for."""
    poll = select.poll()  # not select, which takes no descriptor above 1023
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
