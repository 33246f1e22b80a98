"""A way to a server that can be cut: a port whose connections are handed on, as bytes."""

import socket
import threading
from contextlib import suppress


class Relay:
    """Its port is taken at once; nobody is let in before `open`."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._entrance = socket.socket()
        self._entrance.bind(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def address(self) -> str:
        return "{}:{}".format(*self._entrance.getsockname())

    @property
    def connections(self) -> int:
        """How many there have been."""
        return len(self._ends) // 2

    def open(self) -> None:
        self._entrance.listen()
        self._start(self._accept)

    def cut(self) -> None:
        """End all connections at once, and let nobody in any more."""
        with suppress(OSError):
            self._entrance.shutdown(socket.SHUT_RDWR)
        self._entrance.close()
        with self._lock:
            for one in self._ends:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        for thread in self._threads:
            thread.join()
        for one in self._ends:
            one.close()

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments)  # type: ignore[arg-type] a method
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._entrance.accept()
                far = socket.create_connection(self._target)
                for one in (near, far):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._ends += [near, far]
                self._start(self._hand_on, near, far)
                self._start(self._hand_on, far, near)

    def _hand_on(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while some := source.recv(1 << 16):
                to.sendall(some)
        for one in (source, to):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
