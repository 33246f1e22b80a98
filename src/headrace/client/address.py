"""Where a server is, and how a client shows itself to it."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"grpc": None, "grpcs": None, "http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files: of whom to trust (None: whom this machine trusts), and of the client's
    own certificate and its key, where the server asks for one."""

    authority: str | Path | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None

    def read(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Return the contents of the authority, the key and the certificate."""
        paths = (self.authority, self.key, self.certificate)
        authority, key, certificate = (
            None if one is None else Path(one).read_bytes() for one in paths
        )
        return authority, key, certificate

    def context(self) -> ssl.SSLContext:
        """Return what HTTPS connections are made with."""
        context = ssl.create_default_context(cafile=self.authority)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


@dataclass(frozen=True, slots=True)
class Address:
    """`prefix` goes before the paths of HTTP. Without `tls` nothing is encrypted."""

    scheme: str
    host: str
    port: int | None
    prefix: str
    tls: Tls | None
    token: str | None

    @property
    def host_and_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host_and_port}{self.prefix}"


def read_address(text: str, tls: Tls | None, token: str | None) -> Address:
    """Read `grpc://host:port` and its likes; ValueError when it is none."""
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError as error:
        raise ValueError(f"{text!r} is no address: {error}") from None
    if url.scheme not in _PORTS or not host:
        raise ValueError(
            f"{text!r} is no address: write grpc://host:port or http://host:port, or grpcs:// and "
            "https:// for TLS"
        )
    secure = url.scheme.endswith("s")
    if tls is not None and not secure:
        raise ValueError(f"{text!r} is without TLS; write {url.scheme}s://")
    if secure and tls is None:
        tls = Tls()
    prefix = url.path.rstrip("/")
    if prefix and url.scheme.startswith("grpc"):
        raise ValueError(f"{text!r} has a path, which gRPC has no place for")
    return Address(url.scheme, host, port or _PORTS[url.scheme], prefix, tls, token)
