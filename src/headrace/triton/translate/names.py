"""Names: of a repository anything goes, of a source what the language can write."""

import re

from ...dsl.literals import write_string
from ...dsl.token import RESERVED_WORDS
from ...dsl.types import DType

_USED = ("reshape", "expand_dims", "cast", "zeros", "sequence", "_")
"""What translated sources call themselves, and so nothing else may be called."""


class Names:
    """Identifiers of one source, each given once; `taken` are those that nobody may have."""

    def __init__(self) -> None:
        self.taken = {*RESERVED_WORDS, *_USED, *(one.value for one in DType)}

    def fresh(self, wanted: str) -> str:
        """Return an identifier that is like a name and nobody else's."""
        clean = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "x"
        clean = clean if not clean[0].isdigit() else f"n{clean}"
        name, count = clean, 2
        while name in self.taken:
            name, count = f"{clean}_{count}", count + 1
        self.taken.add(name)
        return name


def renamed(outside: str, inside: str) -> str:
    """Return a declared name: `x`, or `"input:0" as input_0`."""
    return inside if outside == inside else f"{write_string(outside)} as {inside}"
