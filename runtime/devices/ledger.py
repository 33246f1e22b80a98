"""What devices count: copies, memory and waits, in all and for each stage that asked."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a device has done since it was opened; all counts, and bytes where it says so.

    `launches` are those of generated kernels. `d2d` are copies within the device and to it from
    another, `mapped` what the host has written in place, without a copy. `taken` and `returned` are
    the values that got memory, `live_bytes` what those that live have; `allocations` and `releases`
    are the blocks that the device itself was asked for and given back.
    """

    h2d: int = 0
    d2h: int = 0
    d2d: int = 0
    h2d_bytes: int = 0
    d2h_bytes: int = 0
    d2d_bytes: int = 0
    mapped: int = 0
    mapped_bytes: int = 0
    syncs: int = 0
    launches: int = 0
    taken: int = 0
    returned: int = 0
    live_bytes: int = 0
    peak_bytes: int = 0
    allocations: int = 0
    releases: int = 0
    held_bytes: int = 0

    @property
    def balanced(self) -> bool:
        """Whether all values have given back their memory."""
        return self.taken == self.returned and self.live_bytes == 0


class Books:
    """Keeps a ledger; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # values may be dropped, and counted, at any moment
        self._stages: dict[str, Counter[str]] = {}
        self._total: Counter[str] = Counter()

    def count(self, stage: str, **counts: int) -> None:
        """Add to what a stage has had done."""
        with self._lock:
            own = self._stages.get(stage)
            if own is None:
                own = self._stages[stage] = Counter()
            for one in (own, self._total):
                for name, count in counts.items():
                    one[name] += count
                one["peak_bytes"] = max(one["peak_bytes"], one["live_bytes"])

    def total(self) -> Ledger:
        with self._lock:
            return Ledger(**self._total)

    def stages(self) -> Mapping[str, Ledger]:
        """Return the ledger of each stage by its name."""
        with self._lock:
            return MappingProxyType({name: Ledger(**one) for name, one in self._stages.items()})
