"""Steps that hold blocks: branches split a group and join it again, loops make one of lists.

`Compare` is here too: it looks at sizes, and asks for no work.
"""

from typing import TypeAlias, cast

from ..compiler.plan import Check, Place
from ..dsl.types import DimVar, TensorType, Type
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array, Item, Literal
from .flow import Block, Flow, Group, Walk
from .literals import empty_item
from .request import Code, Fault
from .rows import Rows, Value, plain, scatter
from .shapes import Bindings, failed

Sizes: TypeAlias = tuple[tuple[DimVar, int, int], ...]
"""Where names of dimensions are found: name, slot, axis."""


class Switch:
    """Sends each row through the block that `choose` names and joins the results in row order.

    `blocks[-1]` is for rows that no case holds; an `if` is a switch with one case.
    """

    __slots__ = ("_blocks", "_cases", "_outputs", "_subject")

    def __init__(
        self,
        subject: int,
        cases: tuple[tuple[Literal, ...], ...],
        blocks: tuple[Block, ...],
        outputs: tuple[int, ...],
    ) -> None:
        self._subject, self._outputs, self._blocks = subject, outputs, blocks
        self._cases = {value: index for index, case in _reversed(cases) for value in case}

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        subject = slots[self._subject]
        if group.count == 1 or subject.is_shared:
            case = self._cases.get(plain(subject.item(0)), len(self._blocks) - 1)
            results = yield from self._blocks[case].run((), slots, group, None)
        else:
            results = yield from self._split(subject, slots, group)
        for slot, column in zip(self._outputs, results, strict=True):
            slots[slot] = column

    def _split(self, subject: Rows, slots: list[Rows], group: Group) -> Flow:
        chosen: dict[int, list[int]] = {}
        cases, other = self._cases, len(self._blocks) - 1
        for row, value in enumerate(subject.plain()):
            chosen.setdefault(cases.get(value, other), []).append(row)
        if len(chosen) == 1:
            return (yield from self._blocks[next(iter(chosen))].run((), slots, group, None))
        parts: list[tuple[list[int], list[Rows]]] = []
        for index, rows in sorted(chosen.items()):
            some = Group(len(rows), group, rows)
            results = yield from self._blocks[index].run((), slots, some, rows)
            parts.append((rows, results))
        return [
            scatter(group.count, [(rows, results[i]) for rows, results in parts])
            for i in range(len(self._outputs))
        ]


def _reversed(cases: tuple[tuple[Literal, ...], ...]) -> list[tuple[int, tuple[Literal, ...]]]:
    return list(enumerate(cases))[::-1]  # the first case that holds a value wins


class Each:
    """Runs `body` once for a group made of the items of all rows' lists."""

    __slots__ = ("_body", "_filtered", "_iterables", "_outputs", "_place", "_sizes", "_types")

    def __init__(
        self,
        iterables: tuple[int, ...],
        body: Block,
        filtered: bool,
        outputs: tuple[int, ...],
        types: tuple[Type, ...],
        place: Place,
        sizes: Sizes,
    ) -> None:
        self._iterables, self._body, self._filtered = iterables, body, filtered
        self._outputs, self._types, self._place, self._sizes = outputs, types, place, sizes

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        lists = [slots[slot] for slot in self._iterables]
        lengths = [self._length(lists, group, row) for row in range(group.count)]
        parents = [row for row, length in enumerate(lengths) for _ in range(length)]
        if not parents:
            known = [sizes_of(self._sizes, slots, row) for row in range(group.count)]
            for slot, kind in zip(self._outputs, self._types, strict=True):
                slots[slot] = Rows.of([empty_item(kind, sizes) for sizes in known])
            return
        positions = [position for length in lengths for position in range(length)]
        items = Group(len(parents), group, parents, positions)
        results = yield from self._body.run(list(map(_flat, lists)), slots, items, parents)
        if self._filtered:
            kept = [row for row, keep in enumerate(results[-1].items()) if bool(keep)]
            lengths = _lengths(parents, kept, group.count)
            results = [column.take(kept) for column in results[:-1]]
        for slot, kind, column in zip(self._outputs, self._types, results, strict=True):
            slots[slot] = self._gather(column, kind, lengths, slots, group)

    def _length(self, lists: list[Rows], group: Group, row: int) -> int:
        lengths = [len(cast("list[Item]", column.item(row))) for column in lists]
        if len(set(lengths)) > 1:
            shown = " and ".join(map(str, lengths))
            raise self._fault(f"the lists walked side by side have {shown} items", group, row)
        return lengths[0]

    def _gather(
        self, column: Rows, kind: Type, lengths: list[int], slots: list[Rows], group: Group
    ) -> Rows:
        gathered: list[Value] = []
        start = 0
        for row, length in enumerate(lengths):
            part = column.part(start, start + length)
            start += length
            if not isinstance(kind, TensorType):
                gathered.append(cast("list[Item]", part.items()))
            elif length:
                try:
                    gathered.append(part.stack(to_numpy(kind.dtype)))
                except ValueError as error:
                    raise self._fault(f"expected {kind}, but {error}", group, row) from error
            else:
                gathered.append(empty_item(kind, sizes_of(self._sizes, slots, row)))
        return Rows.of(gathered)

    def _fault(self, message: str, group: Group, row: int) -> Fault:
        return Fault(Code.FAILED, message, item=group.path(row), place=self._place)


class Compare:
    """Compares, for every row, dimensions that two stages must agree on."""

    __slots__ = ("_check", "_place", "_sizes", "_stage")

    def __init__(self, check: Check, sizes: Sizes, stage: str, place: Place) -> None:
        self._check, self._sizes, self._stage, self._place = check, sizes, stage, place

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        for row in range(group.count):
            wrong = failed(self._check, sizes_of(self._sizes, slots, row))
            if wrong is not None:
                raise Fault(
                    Code.FAILED,
                    wrong,
                    stage=self._stage,
                    item=group.path(row),
                    place=self._place,
                )
        return
        yield  # a walk that asks for no work


def sizes_of(sizes: Sizes, slots: list[Rows], row: int) -> Bindings:
    """Return the named sizes as the values of a row have them."""
    return {name: cast("Array", slots[slot].item(row)).shape[axis] for name, slot, axis in sizes}


def _flat(column: Rows) -> Rows:
    """Return the items of all rows' lists as one column."""
    if column.count == 1 and not isinstance(value := column.item(0), list):
        return Rows.stacked(cast("Array", value))
    items: list[Value] = []
    for value in column.items():
        items.extend(cast("list[Item]", value))  # `+=` would add the numbers of an array
    return Rows.of(items)


def _lengths(parents: list[int], kept: list[int], count: int) -> list[int]:
    lengths = [0] * count
    for row in kept:
        lengths[parents[row]] += 1
    return lengths
