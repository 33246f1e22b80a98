"""What `headrace run` puts up with: limits by name, certificates, and all settings as JSON."""

import json
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .command import UsageError

if TYPE_CHECKING:
    from ..runtime.access import Policy
    from ..runtime.engine import EngineConfig
    from ..runtime.protocols.limits import CallerLimits, Limits
    from ..runtime.server_config import ServerConfig
    from ..runtime.tls import Tls

_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_ENGINE = ("queue_size", "bytes_in_flight", "sequences")
_HIDDEN = "hidden"
Part = TypeVar("Part")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        action="append",
        default=[],
        type=_limit,
        metavar="NAME=VALUE",
        help="as in body=16MiB or head=5; --print-config shows the names and what holds",
    )
    parser.add_argument(
        "--print-config",
        action="store_true",
        help="print every setting as JSON, as it would be, and serve nothing",
    )
    for name, what in (
        ("certificate", "PEM file of the server's certificate, for gRPC and HTTP"),
        ("key", "PEM file of its key"),
        ("client-authority", "PEM file; callers must show a certificate that it signed"),
    ):
        parser.add_argument(f"--tls-{name}", metavar="FILE", type=Path, help=what)


def _limit(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    found = re.fullmatch(r"([0-9]{1,15})(?:(\.[0-9]{1,9})|(KiB|MiB|GiB))?", value, re.ASCII)
    if not found:
        raise ArgumentTypeError(f"`{text}` is no NAME=VALUE, as in body=16MiB")
    whole, part, unit = found.groups()
    amount = float(whole + part) if part else int(whole) * _UNITS[unit or ""]
    if amount <= 0:
        raise ArgumentTypeError(f"`{text}`: a limit is over 0")
    known = [*_names(), *_ENGINE]
    if name not in known:
        close = get_close_matches(name, known, 1)
        raise ArgumentTypeError(
            f"there is no limit `{name}`"
            + (f"; did you mean `{close[0]}`?" if close else f", but {', '.join(known)}")
        )
    return name, amount


def _names() -> list[str]:
    from ..runtime.protocols.limits import CallerLimits, Limits

    return [field.name for kind in (Limits, CallerLimits) for field in fields(kind)]


def limits(arguments: Namespace) -> "Limits":
    """Return the caps on one request."""
    from ..runtime.protocols.limits import Limits

    return with_limits(Limits(), arguments)


def callers(arguments: Namespace) -> "CallerLimits":
    """Return the caps on callers."""
    from ..runtime.protocols.limits import CallerLimits

    return with_limits(CallerLimits(), arguments)


def with_limits(part: Part, arguments: Namespace) -> Part:
    """Return a part of the configuration with those of its limits that are given."""
    values: Any = part  # Any: a frozen dataclass
    given: dict[str, float] = {}
    for name, amount in arguments.limit:
        if hasattr(values, name):
            if isinstance(getattr(values, name), int) and not isinstance(amount, int):
                raise UsageError(f"--limit {name} is a whole number")
            given[name] = amount
    return replace(values, **given)


def tls(arguments: Namespace) -> "Tls | None":
    """Return the certificates, tried; raises UsageError with the name of the file that is wrong."""
    from ..runtime.tls import read_tls

    if arguments.tls_key is None:
        return None
    try:
        return read_tls(
            arguments.tls_certificate, arguments.tls_key, arguments.tls_client_authority
        )
    except OSError as error:
        raise UsageError(f"`{error.filename}` cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(str(error)) from None


def as_json(config: "ServerConfig", engine: "EngineConfig", arguments: Namespace) -> str:
    """Return every setting that is in force, secrets left out."""
    from ..runtime.fronts import choose_carrier

    told = _told(config)
    told["carrier"] = choose_carrier(config).value
    told["policy"] = _policy(config.policy)
    told["engine"] = _told(engine) | {"workers": engine.worker_threads(), "clock": "monotonic"}
    told["command"] = {
        name: _told(value)
        for name, value in vars(arguments).items()
        if name not in {"limit", "print_config", "words", "place", "parent"} and _is_plain(value)
    }
    return json.dumps(told, indent=2, sort_keys=True)


def _policy(policy: "Policy") -> dict[str, str]:
    from ..runtime.access import Access

    def who(access: Access) -> str:
        if policy.is_open(access):
            return "anybody"
        named = [token.name for token in policy.tokens if access in token.may]
        return f"token {', '.join(named)}" if named else "nobody"

    return {access.value: who(access) for access in Access}


def _is_plain(value: object) -> bool:
    return not callable(value)


def _told(value: object) -> Any:  # Any: JSON
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return re.sub(r"//[^/@]*@", f"//{_HIDDEN}@", value)  # who logs in at a collector
        case Enum():
            return value.value
        case bytes():
            return f"{len(value)} bytes"
        case re.Pattern():
            return value.pattern
        case Path():
            return str(value)
        case Mapping():
            return {str(key): _told(one) for key, one in value.items()}
        case Iterable():
            return [_told(one) for one in value]
        case _ if is_dataclass(value):
            return {
                field.name: _told(getattr(value, field.name)) if field.repr else _HIDDEN
                for field in fields(value)
            }
        case _:
            return str(value)
