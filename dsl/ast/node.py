"""What every node has: a place in the source."""

from dataclasses import dataclass, field

from ..source import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Ident(Node):
    """A name at the place where it is written."""

    text: str
