"""Who gets which part of the traffic: decisions by a request's key, the same one every time.

The key is a sequence's id, or a request's. It is hashed to a *position* from 0 to 1, which falls
into the part of one version; so all requests of a sequence, and a request that is sent again, meet
the same version, on every server alike. Requests without an id are dealt out evenly in turn.
"""

from collections.abc import Mapping
from zlib import crc32

_GOLDEN = 0.6180339887498949  # its multiples spread most evenly over 0 to 1
_ROUNDING = 1e-9

ROUTE, SHADOW = "route", "shadow"
"""What is decided: who answers, and who gets a copy. One does not depend on the other."""


def position(key: int | str, what: str) -> float:
    """Return where a key stands, from 0 to below 1."""
    return crc32(f"{what}\0{key}".encode("utf-8", "surrogatepass")) / 2**32


def dealt(turn: int) -> float:
    """Return where the request number `turn` of those without a key stands."""
    return turn * _GOLDEN % 1.0


def check_shares(shares: Mapping[int, float]) -> None:
    """Raise ValueError unless these are parts of one whole."""
    for version, share in shares.items():
        if not 0.0 <= share <= 1.0:
            raise ValueError(f"the share of version {version} is {share}, not 0 to 1")
    total = sum(shares.values())
    if total > 1.0 + _ROUNDING:
        raise ValueError(f"the shares add up to {total:g}, more than the whole traffic")


def bounds(shares: Mapping[int, float], main: int) -> tuple[tuple[float, int], ...]:
    """Return up to which position each version answers, in order; `main` has what is left."""
    upto, found = 0.0, list[tuple[float, int]]()
    for version, share in sorted(shares.items()):
        if version != main and share > 0.0:
            upto += share
            found.append((upto, version))
    return tuple(found)


def main_of(live: frozenset[int], shares: Mapping[int, float]) -> int | None:
    """Return the version that answers what no share gives to another: the newest that has none,
    or where all have one the newest of all."""
    return max(live - shares.keys(), default=max(live, default=None))
