"""The ports of a server, which several processes may share.

Processes that share a port listen on sockets of their own (SO_REUSEPORT), among which the kernel
deals out new connections by their addresses: about evenly, and to none that has ended. One socket
that all of them listen on was the other choice. A connection that waits there is taken by whoever
looks first, and an event loop takes all that wait, so that a burst of them stays with one process.
What it has for it is that connections which wait to be taken outlive a process that ends. Here they
are reset with it, as they are with a single process; they wait for no longer than an event loop
takes for one turn.
"""

import socket
from math import ceil

from .protocols.limits import CallerLimits

_BACKLOG = 1024


def bound(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a socket that listens; raises OSError with the port in its text."""
    try:
        return socket.create_server(
            (host, port), family=_family(host), backlog=_BACKLOG, reuse_port=shared
        )
    except OSError as error:
        raise _told(port, error) from error


def reserved(host: str, port: int) -> socket.socket:
    """Return a socket that holds a port for processes that are going to share it, and is given no
    connection; raises OSError with the port in its text.

    It is bound as one that does not share, so that another server's port is found taken.
    """
    holding = socket.socket(_family(host))
    try:
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holding.bind((host, port))
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except OSError as error:
        holding.close()
        raise _told(port, error) from error
    return holding


def listening(
    host: str, port: int, callers: CallerLimits, *, shared: bool = False
) -> socket.socket:
    """Return a socket whose connections end when their caller does not read."""
    found = bound(host, port, shared=shared)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, ceil(callers.patience * 2000))
    return found


def address(host: str, port: int) -> str:
    """Return host:port as URLs have it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _told(port: int, error: OSError) -> OSError:
    reason = (error.strerror or str(error)).partition(" (while")[0]  # the rest is said already
    return OSError(error.errno, f"port {port}: {reason}")
