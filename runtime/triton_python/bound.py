"""Workers of a model that keeps something of sequences itself: each sequence has one of them."""

from collections.abc import Sequence
from typing import cast
from zlib import crc32

from ..context import Context
from ..isolation.lease import Lease
from .asked import Run


class Bound:
    """Pools of one worker each, in the place of one of several. Requests of a run are of one."""

    def __init__(self, pools: Sequence[Lease]) -> None:
        self._pools = pools

    def __call__(self, *arguments: object) -> object:
        run = cast("Run", arguments[0])
        return self._pools[self.number(run.contexts[0])](*arguments)

    def number(self, context: Context) -> int:
        """Return which worker a request goes to: always the same of a sequence."""
        if context.sequence is None:
            return 0
        id = context.sequence.id
        return (crc32(id.encode()) if isinstance(id, str) else id) % len(self._pools)
