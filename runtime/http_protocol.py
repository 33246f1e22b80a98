"""uvicorn's HTTP/1.1 protocol with a limit on the head of a request.

The parser keeps a head, or a single header, until it is complete, however long it gets.
"""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST = 1 << 16


class LimitedProtocol(HttpToolsProtocol):
    """Answers 400 and closes when a head has more than 64 KiB."""

    _head = 0  # bytes of a head that is not complete

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.scope and "method" in self.scope:  # which it has once the head is complete
            self._head = 0
        elif not self.transport.is_closing():
            self._head += len(data)
            if self._head > _MOST:
                self.send_400_response("The head of the request is too large.")
