"""Who may ask for what: one decision for both protocols, made on the operation that was routed to.

What is open anybody may do; the rest is done by those who show a token, or by nobody.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from hmac import compare_digest
from ipaddress import ip_address
from typing import Final, NamedTuple

from .request import Code, Fault


class Access(Enum):
    """Kinds of operations."""

    PROBE = "probe"  # whether the server lives and is ready
    READ = "read"  # what is served, and what it has done
    INFER = "infer"
    CONTROL = "control"  # load and unload
    MEMORY = "shared-memory"
    SETTINGS = "settings"  # of logging and tracing


OPEN: Final = frozenset({Access.PROBE, Access.READ, Access.INFER})
"""What is open unless somebody says otherwise: nothing that changes the server."""


class Caller(NamedTuple):
    """Who asks. `name` is that of the token shown, empty without one; it owns what it makes."""

    name: str
    may: frozenset[Access]


@dataclass(frozen=True, slots=True)
class Token:
    """What a caller shows as `Authorization: Bearer SECRET`, and what it may do with it."""

    name: str
    secret: str = field(repr=False)
    may: frozenset[Access]


@dataclass(frozen=True, slots=True)
class Policy:
    """`anyone` is what needs no token."""

    anyone: frozenset[Access] = OPEN
    tokens: tuple[Token, ...] = ()

    def serves(self, access: Access) -> bool:
        """Whether anybody at all may do this."""
        return access in self.anyone or any(access in token.may for token in self.tokens)

    def is_open(self, access: Access) -> bool:
        """Whether a caller need not be known to do this."""
        return access in self.anyone

    def require(self, access: Access, authorization: str | None) -> Caller:
        """Return who asks for an operation; raises the Fault when it is not theirs to ask.

        `authorization` is the header of that name. One that shows no known token is refused even
        where none is needed, so that a caller learns of the mistake.
        """
        caller = Caller("", self.anyone)
        if authorization and self.tokens:
            caller = self._known(authorization)
        if access in caller.may:
            return caller
        if not self.serves(access):
            raise Fault(Code.FORBIDDEN, f"{access.value} is not allowed on this server")
        if not caller.name:
            cure = "send `Authorization: Bearer TOKEN`"
            raise Fault(Code.UNAUTHENTICATED, f"{access.value} needs a token: {cure}")
        raise Fault(Code.FORBIDDEN, f"{access.value} is not allowed with this token")

    def _known(self, authorization: str) -> Caller:
        scheme, _, shown = authorization.partition(" ")
        found = None
        for token in self.tokens:  # all of them, so that time tells nothing
            if compare_digest(token.secret.encode(), shown.strip().encode()):
                found = token
        if found is None or scheme.lower() != "bearer":
            raise Fault(Code.UNAUTHENTICATED, "the token shown is none that is known here")
        return Caller(found.name, self.anyone | found.may)


DEFAULT: Final = Policy()


def policy_of(allowed: Iterable[Access], tokens: Iterable[Token]) -> Policy:
    """Return the policy that lets anybody do what is open or allowed, but for what some token is
    made for: that takes a token. Probes are open always."""
    given = tuple(tokens)
    taken = frozenset(access for token in given for access in token.may) - {Access.PROBE}
    return Policy((OPEN | frozenset(allowed)) - taken, given)


def check_exposure(policy: Policy, host: str) -> None:
    """Raise ValueError where callers from elsewhere could change the server without a token."""
    changing = sorted(access.value for access in policy.anyone - OPEN)
    if changing and not is_loopback(host):
        raise ValueError(
            f"on {host} {' and '.join(changing)} would be anybody's: that takes tokens"
        )


def is_loopback(host: str) -> bool:
    """Whether only callers on this machine reach what listens on an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_tokens(text: str) -> tuple[Token, ...]:
    """Read a file of tokens, one a line: `NAME KIND,KIND SECRET`; raises ValueError.

    Empty lines and those that begin with # are passed over. An error shows no secret. No token at
    all is an error: a file that is just being written would open the server to anybody.
    """
    tokens: list[Token] = []
    kinds = {access.value: access for access in Access}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 3:
            raise ValueError(f"line {number} is not NAME KIND,KIND SECRET")
        name, said, secret = words
        unknown = [kind for kind in said.split(",") if kind not in kinds]
        if unknown:
            raise ValueError(
                f"line {number}: {unknown[0]!a} is no kind of operation; there are "
                + ", ".join(kinds)
            )
        if len(secret) < _SHORTEST:
            raise ValueError(f"line {number}: a secret has at least {_SHORTEST} characters")
        tokens.append(Token(name, secret, frozenset(kinds[kind] for kind in said.split(","))))
    if not tokens:
        raise ValueError("there is no token in the file")
    return tuple(tokens)


_SHORTEST = 16
