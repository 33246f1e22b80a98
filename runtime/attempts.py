"""`try`: rows whose body fails or is late go through the other block, the others keep their result.

The rows of a group go through the body together. When it fails, each row goes through it once
more, alone, so that the rows to blame are found. What the limit stops is late for all of them, and
where there was no room, or nobody to run them, they do not come one by one.
What is a bug of ours fails the request whatever is tried.
"""

from collections.abc import Generator, Sequence
from typing import TypeAlias

from ..compiler.plan import Place
from .flow import Asked, Block, Fallback, Group, Guard, Walk
from .request import Code, Fault, OverLimit
from .rows import Rows, scatter

Tried: TypeAlias = "Generator[Asked, list[Rows], list[Rows] | Fault]"


_OF_ALL = (Code.DEADLINE, Code.OVERLOADED, Code.UNAVAILABLE)
"""What fails all rows of a group at once."""


class Try:
    """`within` is in seconds from the first work of the body, None for no limit."""

    __slots__ = ("_body", "_orelse", "_outputs", "_place", "_within")

    def __init__(
        self,
        body: Block,
        orelse: Block,
        within: float | None,
        outputs: tuple[int, ...],
        place: Place,
    ) -> None:
        self._body, self._orelse, self._within = body, orelse, within
        self._outputs, self._place = outputs, place

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        guard = Guard(self._within, group.guard)
        rows = range(group.count)
        parts: list[tuple[Sequence[int], list[Rows]]] = []
        failed: list[tuple[int, Fault]] = []
        tried = yield from self._try(slots, group, guard, None)
        if not isinstance(tried, Fault):
            parts.append((rows, tried))
        elif group.count == 1 or tried.code in _OF_ALL:
            failed += [(row, tried) for row in rows]
        else:
            for row in rows:
                alone = yield from self._try(slots, group, guard, row)
                if isinstance(alone, Fault):
                    failed.append((row, alone))
                else:
                    parts.append(([row], alone))
        if failed:
            others = [row for row, _ in failed]
            for _, fault in failed:
                yield Fallback(self._place, fault.code)
            some = Group(len(others), group, others)
            whole = len(others) == group.count
            results = yield from self._orelse.run((), slots, some, None if whole else others)
            parts.append((others, results))
        for index, slot in enumerate(self._outputs):
            slots[slot] = scatter(group.count, [(some, columns[index]) for some, columns in parts])

    def _try(self, slots: list[Rows], group: Group, guard: Guard, row: int | None) -> Tried:
        """Run the body for one row, or for all of them; return the fault of one that fails.

        Where the limit that has passed is that of a `try` around this one, it is raised for that.
        """
        rows = range(group.count) if row is None else [row]
        some = Group(len(rows), group, rows, guard=guard)
        try:
            return (yield from self._body.run((), slots, some, None if row is None else rows))
        except Fault as fault:
            around = group.guard
            limited = around is not None and around.at is not None and guard.at == around.at
            ended = isinstance(fault, OverLimit) and limited
            if ended or fault.code is Code.INTERNAL:
                raise
            return fault.with_traceback(None)  # whose frames lead to what holds it
