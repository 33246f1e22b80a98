"""What a request may use besides its model: memory that is shared, and the names of classes."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from .regions import Lent
from .request import Code, Fault

Labels: TypeAlias = Mapping[str, Mapping[str, Sequence[str]]]
"""The names of classes, by model and output."""


class Extras(NamedTuple):
    """`memory` is None where the caller may not use any."""

    memory: Lent | None = None
    labels: Labels = MappingProxyType({})

    def lent(self) -> Lent:
        """Return the memory; raises the Fault where there is none for the caller."""
        if self.memory is None:
            raise Fault(
                Code.UNSUPPORTED,
                "parameter `shared_memory_region` needs the extension system_shared_memory, which "
                "is not served",
            )
        return self.memory


NO_EXTRAS: Final = Extras()
