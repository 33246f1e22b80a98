"""One request over HTTP on a connection, and its answer: read whole, or part by part."""

import socket
from collections.abc import Mapping
from email.message import Message
from http.client import HTTPConnection, HTTPException, HTTPResponse, parse_headers
from time import monotonic

from .connections import Connections
from .wire import Cancellation, Failed, cancelled, late, lost, unreached


class Exchange:
    """One request on a connection and what is answered, in `response`."""

    response: HTTPResponse

    def __init__(
        self,
        address: str,
        connection: HTTPConnection,
        connections: Connections,
        until: float | None,
        cancellation: Cancellation | None,
    ) -> None:
        self._address, self._connection, self._connections = address, connection, connections
        self._until, self._cancellation = until, cancellation
        # kept here, for the connection lets go of it when the answer is its last
        self._socket = connection.sock
        if cancellation is not None:
            cancellation.attach(self._break)

    def send(self, verb: str, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        try:
            self._connection.request(verb, path, body, headers)
        except TimeoutError:
            raise self._over(late(self._address)) from None
        except OSError as error:
            self._answered_early(error)
            return
        try:
            self._wait_no_longer()
            self.response = self._connection.getresponse()
        except (OSError, HTTPException) as error:
            raise self._broken(error) from None

    def _answered_early(self, error: OSError) -> None:
        """Take the answer of a server that has not read the body to its end, as it does where that
        is too large; without one it has run nothing, for it has not got the request."""
        try:
            self.response = self._connection.getresponse()
        except (OSError, HTTPException):
            raise self._over(unreached(self._address, error)) from None

    def read(self) -> bytes:
        """Return the whole body."""
        try:
            self._wait_no_longer()
            return self.response.read()
        except (OSError, HTTPException) as error:
            raise self._broken(error) from None

    def part(self) -> tuple[Message, bytes] | None:
        """Return the headers and the body of the next part; None behind the last."""
        try:
            self._wait_no_longer()
            line = self.response.readline().rstrip()
            if line.startswith(b"--") and line.endswith(b"--"):
                self.response.read()
                return None
            headers = parse_headers(self.response)
            size = int(headers["Content-Length"])
            content = self.response.read(size + 2)[:-2]
        except (OSError, HTTPException) as error:
            raise self._broken(error) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._broken("the stream was cut off") from None
        if len(content) != size:
            raise self._broken("the stream was cut off")
        return headers, content

    def end(self) -> None:
        """Keep the connection if the answer was read to its end, and close it otherwise."""
        if self._cancellation is not None:
            self._cancellation.attach(_nothing)
        if self.response.isclosed() and not self._cancelled:
            self._connections.give_back(self._connection)
        else:
            self._connection.close()

    @property
    def _cancelled(self) -> bool:
        return self._cancellation is not None and self._cancellation.asked.is_set()

    def _break(self) -> None:
        """Wake whoever reads, in whatever thread; the server sees that nobody does any more."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is over already

    def _wait_no_longer(self) -> None:
        if self._until is None:
            return
        left = self._until - monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _broken(self, error: object) -> Failed:
        late_ = isinstance(error, TimeoutError)
        return self._over(late(self._address) if late_ else lost(self._address, error))

    def _over(self, failed: Failed) -> Failed:
        self._connection.close()
        return cancelled() if self._cancelled else failed


def _nothing() -> None:
    """Stand for what is over."""
