"""An app: what a plan is called, and its versions."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from .policy import Policy, chosen
from .state import Entry, State
from .version import Version


@dataclass(slots=True, eq=False)
class App:
    """`live` are served; `tried` tells of what is not: being loaded, failed, unloaded. `loading` is
    held while a version is, so that one follows the other."""

    name: str
    policy: Policy
    live: dict[int, Version] = field(default_factory=dict[int, Version])
    tried: dict[int, Entry] = field(default_factory=dict[int, Entry])
    shares: dict[int, float] = field(default_factory=dict[int, float])
    shadows: dict[int, float] = field(default_factory=dict[int, float])
    loading: threading.Lock = field(default_factory=threading.Lock)

    def chosen(self, numbers: "set[int]") -> frozenset[int]:
        """Return which of some versions are to be served."""
        return chosen(self.policy, numbers, {*self.shares, *self.shadows})

    def entries(self) -> Sequence[Entry]:
        live = [entry for version in self.live.values() for entry in version.entries()]
        return [*live, *self.tried.values()]

    def tell(self, number: int, state: State | None, reason: str = "", digest: str = "") -> None:
        """Note what is told of a version that is not served; None when there is nothing to tell."""
        self.tried.pop(number, None)
        if state is not None:
            self.tried[number] = Entry(self.name, self.name, number, state, reason, digest)
