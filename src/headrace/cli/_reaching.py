"""How commands reach a server: the token that it is shown, and whom to trust."""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from .command import UsageError

if TYPE_CHECKING:
    from ..client import Client


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--token-file", metavar="FILE", help="what a server is shown")
    parser.add_argument(
        "--tls-authority", metavar="FILE", help="PEM file of whom to trust, with grpcs and https"
    )


def refuse(arguments: Namespace) -> None:
    """Raise UsageError where no server is asked, and something is said of how."""
    if arguments.token_file is not None or arguments.tls_authority is not None:
        raise UsageError("--token-file and --tls-authority are for a server")


def reach(address: str, timeout: float | None, arguments: Namespace) -> "Client":
    """Return a client of the server at an address; raises UsageError where that is none."""
    from ..client import Client, Tls

    token = None
    try:
        tls = None if arguments.tls_authority is None else Tls(_found(arguments.tls_authority))
        if arguments.token_file is not None:
            token = _found(arguments.token_file).read_text().strip()
        return Client(address, timeout, tls=tls, token=token)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _found(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise UsageError(f"there is no file `{text}`")
    return path
