"""Where a server is, and how a client shows itself to it."""

import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ..runtime.tls import load_authority, load_pair

_PORTS: Final = {"grpc": None, "grpcs": 443, "http": 80, "https": 443}
_HOST: Final = re.compile(r"[^\s\x00-\x20\x7f]+")


@dataclass(frozen=True, slots=True)
class Tls:
    """Paths of PEM files: of whom to trust (None: whom this machine trusts), and of the client's
    own certificate and its key, where the server asks for one. Without a `key` it is in the file of
    the certificate."""

    authority: str | Path | None = None
    certificate: str | Path | None = None
    key: str | Path | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.certificate is None:
            raise ValueError(f"the key `{self.key}` came without its certificate")

    def read(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Return the contents of the authority, the key and the certificate."""
        self.context()  # grpcio ends the whole process where a key is missing
        paths = (self.authority, self.key or self.certificate, self.certificate)
        authority, key, certificate = (
            None if one is None else Path(one).read_bytes() for one in paths
        )
        return authority, key, certificate

    def context(self) -> ssl.SSLContext:
        """Return what HTTPS connections are made with; raises OSError, and ValueError with the name
        of the file that is wrong."""
        for path in (self.authority, self.certificate, self.key):
            if path is not None:
                Path(path).open("rb").close()  # its error names the file, as those of `ssl` do not
        if self.authority is None:
            context = ssl.create_default_context()
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            load_authority(context, self.authority)
        if self.certificate is not None:
            load_pair(context, self.certificate, self.key or self.certificate)
        return context


@dataclass(frozen=True, slots=True)
class Address:
    """`prefix` goes before the paths of HTTP. Without `tls` nothing is encrypted."""

    scheme: str
    host: str
    port: int
    prefix: str
    tls: Tls | None
    token: str | None

    @property
    def host_and_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

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
    if url.username is not None or url.query or url.fragment or not _HOST.fullmatch(host):
        raise ValueError(
            f"{text!r} is no address: there is a host, a port and, over HTTP, a path, and no more"
        )
    port = _PORTS[url.scheme] if port is None else port
    if not port:
        raise ValueError(f"{text!r} has no port: headrace serves gRPC on 8001, HTTP on 8000")
    if tls is not None and not secure:
        raise ValueError(f"{text!r} is without TLS; write {url.scheme}s://")
    if secure and tls is None:
        tls = Tls()
    prefix = url.path.rstrip("/")
    if prefix and url.scheme.startswith("grpc"):
        raise ValueError(f"{text!r} has a path, which gRPC has no place for")
    return Address(url.scheme, host, port, prefix, tls, token)
