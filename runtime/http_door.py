"""HTTP: what no page of another site can have a browser do here.

A browser runs what any site sends it, on machines that reach what that site does not: this one.

* A name of that site may be made to lead here (DNS rebinding): to the browser the site and this
  server are one then. On the loopback interface, and wherever names are given, a caller must have
  come by a name that nobody else can give: an address, a name without a dot, or one that was given.
* A page may send what it cannot read the answer of, a form or JSON as plain text. What is not GET
  or HEAD must come from a page of this server, or from no page at all. Browsers say where from
  (`Sec-Fetch-Site`, `Origin`), and no script can change what they say; other clients send neither.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from .access import is_loopback
from .http_answer import Answer, Begin, Inference
from .http_status import STATUS, error_body
from .protocols.names import shown
from .request import Code

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN = frozenset({b"same-origin", b"none"})  # `none` is what a person typed


class Door:
    """Lets in to an application who has come by no trick."""

    def __init__(self, app: ASGIApp, listening: str, names: Iterable[str] = ()) -> None:
        """`listening` is the address that is bound, `names` what else callers may call it."""
        self._app, self._names = app, frozenset(map(_plain, names))
        self._guarded = is_loopback(listening) or bool(self._names)
        self._known = lru_cache(256)(self._is_known)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http":
            why = self.refuses(scope["method"], dict(scope["headers"]))
            if why is not None:
                return _refusal(why).send(send)
        return self._app(scope, receive, send)

    def opening(self, inference: Inference) -> Inference:
        """Return what hears of the requests that are let in."""
        return _Opening(self.refuses, inference)

    def refuses(self, method: str, headers: dict[bytes, bytes]) -> str | None:
        """Return why a request is not let in, None where it is."""
        host = headers.get(b"host")
        if self._guarded and host is not None and not self._known(host):
            name = shown(_name(host.decode("latin-1")))
            return f"this server does not go by the name {name}; see --host-name"
        if method not in _SAFE and _from_elsewhere(headers, host):
            return "what a page of another site has a browser send is refused"
        return None

    def _is_known(self, host: bytes) -> bool:
        name = _plain(_name(host.decode("latin-1")))
        return "." not in name or name in self._names or _is_address(name) or _is_local(name)


class _Opening:
    """Hears of what is let in."""

    def __init__(
        self, refuses: Callable[[str, dict[bytes, bytes]], str | None], inference: Inference
    ) -> None:
        self._refuses, self._hear = refuses, inference.hear

    def hear(self, target: bytes, headers: dict[bytes, bytes]) -> Begin | None:
        begin = self._hear(target, headers)
        why = None if begin is None else self._refuses("POST", headers)
        return begin if why is None else lambda _: _refusal(why)


def _name(host: str) -> str:
    """Return a Host header without its port, an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _plain(name: str) -> str:
    return name.rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_local(name: str) -> bool:
    """Whether browsers look a name up nowhere, because it is this machine's by its end."""
    return name.endswith(".localhost")


def _from_elsewhere(headers: dict[bytes, bytes], host: bytes | None) -> bool:
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site not in _OWN
    origin = headers.get(b"origin")  # older browsers, and pages that came over plain HTTP
    if origin is None:
        return False
    try:
        return urlsplit(origin.decode("latin-1")).netloc.lower().encode("latin-1") != host
    except ValueError:
        return True


def _refusal(why: str) -> Answer:
    body = error_body(why)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return Answer(STATUS[Code.FORBIDDEN], headers, body)
