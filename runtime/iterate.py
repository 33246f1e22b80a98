"""`loop` and `emit`: turns that carry values, and responses sent before the end.

The rows of a group take their turns together; a row whose turns are over leaves the group, and
the others go on without it.
"""

from collections.abc import Sequence
from typing import SupportsInt, cast

from ..compiler.plan import Place
from .flow import Block, Emission, Group, Walk
from .request import Code, Fault
from .rows import Rows, scatter


class Loop:
    """Runs `body` for the rows that have turns left, with what it carries."""

    __slots__ = ("_body", "_carried", "_maximum", "_outputs", "_place", "_stops")

    def __init__(
        self,
        maximum: int,
        carried: tuple[int, ...],
        body: Block,
        stops: bool,
        outputs: tuple[int, ...],
        place: Place,
    ) -> None:
        self._maximum, self._carried, self._body = maximum, carried, body
        self._stops, self._outputs, self._place = stops, outputs, place

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        most = [int(cast("SupportsInt", one)) for one in slots[self._maximum].items()]  # an i64
        for row, turns in enumerate(most):
            if turns < 0:
                raise self._fault(f"`max` of the loop is {turns}", group, row)
        carried = [slots[slot] for slot in self._carried]
        rows: list[int] = list(range(group.count))  # those that have turns left
        done: list[tuple[Sequence[int], list[Rows]]] = []
        turn = 0
        while True:
            staying = [i for i, row in enumerate(rows) if most[row] > turn]
            if turn and self._stops:
                stop = carried.pop().items()
                staying = [i for i in staying if not bool(stop[i])]
            if len(staying) < len(rows):
                leaving = sorted({*range(len(rows))}.difference(staying))
                done.append(([rows[i] for i in leaving], [c.take(leaving) for c in carried]))
                carried = [column.take(staying) for column in carried]
                rows = [rows[i] for i in staying]
            if not rows:
                break
            some = None if len(rows) == group.count else rows
            inner = Group(len(rows), group, rows, [turn] * len(rows))
            carried = yield from self._body.run(carried, slots, inner, some)
            turn += 1
        for index, slot in enumerate(self._outputs):
            slots[slot] = scatter(group.count, [(some, columns[index]) for some, columns in done])

    def _fault(self, message: str, group: Group, row: int) -> Fault:
        return Fault(Code.FAILED, message, item=group.path(row), place=self._place)


class Emit:
    """Yields what is sent; the driver goes on when there is room for it."""

    __slots__ = ("_inputs",)

    def __init__(self, inputs: tuple[int, ...]) -> None:
        self._inputs = inputs

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        del group  # one row, as the compiler sees to
        yield Emission([slots[slot] for slot in self._inputs])
