"""Certificates and keys: read from files, tried at once, and as HTTP wants them.

Clients try theirs here too.
"""

import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM texts. With `client_authority` callers must show a certificate that it signed."""

    certificate: bytes
    key: bytes = field(repr=False)
    client_authority: bytes | None = None


def read_tls(certificate: Path, key: Path, client_authority: Path | None) -> Tls:
    """Read the files; raises OSError, and ValueError with the name of the one that is wrong."""
    made = Tls(
        certificate.read_bytes(),
        key.read_bytes(),
        None if client_authority is None else client_authority.read_bytes(),
    )
    _load(_context(), certificate, key, client_authority)
    return made


def server_context(tls: Tls) -> ssl.SSLContext:
    """Return what HTTP is served with; raises ValueError where key and certificate are no pair."""
    context = _context()
    with tempfile.TemporaryDirectory(prefix="headrace-") as folder:  # the library reads files only
        paths = [Path(folder, name) for name in ("certificate", "key", "client authority")]
        for path, text in zip(paths, (tls.certificate, tls.key, tls.client_authority), strict=True):
            path.touch(0o600)
            path.write_bytes(text or b"")
        _load(context, paths[0], paths[1], None if tls.client_authority is None else paths[2])
    return context


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, certificate: Path, key: Path, authority: Path | None) -> None:
    load_pair(context, certificate, key)
    if authority is not None:
        load_authority(context, authority)
        context.verify_mode = ssl.CERT_REQUIRED


def load_pair(context: ssl.SSLContext, certificate: str | Path, key: str | Path) -> None:
    """Show a certificate from now on; raises OSError, and ValueError with the names of the files
    where they are no pair."""
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ValueError(f"`{key}` is not the key of the certificate `{certificate}`") from None
        names = f"`{certificate}`" if key == certificate else f"`{certificate}` or `{key}`"
        raise ValueError(f"{names} is no PEM: {_reason(error)}") from None


def load_authority(context: ssl.SSLContext, authority: str | Path) -> None:
    """Trust who signed; raises OSError, and ValueError with the name of the file."""
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as error:
        raise ValueError(f"`{authority}` is no PEM: {_reason(error)}") from None


def _reason(error: ssl.SSLError) -> str:
    # OpenSSL does not always say whether it is the one or the other
    told = getattr(error, "reason", None) or "it has no certificate, or no key"
    return told.lower().replace("_", " ")


def _no_password() -> str:
    raise ValueError("the key is locked with a password, which nobody is here to type")
