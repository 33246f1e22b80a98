"""The walk of one request through a plan: a generator that yields Work and is sent its results.

A block runs for a *group* of rows at once. An `if` splits the group and joins it again in order;
a `for` puts the items of all rows into one group and hands them back to their rows. Nothing here
runs a stage, reads a clock or takes a lock: the driver does, and sends in the columns that a
stage gave or throws in the Fault that it failed with, at the very `yield` that asked.

Blocks are bound once when a plan is loaded (`bind.py`); per request nothing is looked up by name.
"""

from collections.abc import Generator, Sequence
from typing import Protocol, TypeAlias, cast

import numpy as np

from ..compiler.plan import Check, Place
from ..dsl.types import DimVar, TensorType, Type
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array, Item, Literal
from .literals import empty_item, literal_item
from .request import Code, Fault
from .rows import Constant, Rows, Value, scatter
from .shapes import failed
from .stage import Stage


class Group:
    """The rows that a block runs for, and where each came from: for errors, and to go back.

    `parents[row]` is the row of the group around; `positions[row]` its index in the list that was
    walked, None for the rows of a branch.
    """

    __slots__ = ("count", "parent", "parents", "positions")

    def __init__(
        self,
        count: int,
        parent: "Group | None" = None,
        parents: Sequence[int] = (),
        positions: Sequence[int] | None = None,
    ) -> None:
        self.count, self.parent = count, parent
        self.parents, self.positions = parents, positions

    def path(self, row: int) -> tuple[int, ...]:
        """Return the indices that lead to a row, the outermost first."""
        around = self.parent.path(self.parents[row]) if self.parent is not None else ()
        return (*around, self.positions[row]) if self.positions is not None else around


ONE = Group(1)
"""The group of a request without `batch`."""


class Work:
    """A stage to run on every row of a group: one column per parameter."""

    __slots__ = ("columns", "group", "place", "stage")

    def __init__(self, stage: Stage, columns: list[Rows], group: Group, place: Place) -> None:
        self.stage, self.columns, self.group, self.place = stage, columns, group, place


Walk: TypeAlias = Generator[Work, list[Rows], None]
Flow: TypeAlias = Generator[Work, list[Rows], list[Rows]]

FREED = Rows(0, [], None)
"""What a slot holds before its value is made and after its last use."""


class Step(Protocol):
    """A bound step: reads and writes the slots of its block."""

    def walk(self, slots: list[Rows], group: Group) -> Walk: ...


class Call:
    """Yields one Work. Blocks look inside instead of calling `walk`, which saves a generator."""

    __slots__ = ("inputs", "outputs", "place", "stage")

    def __init__(
        self, stage: Stage, inputs: tuple[int, ...], outputs: tuple[int, ...], place: Place
    ) -> None:
        self.stage, self.inputs, self.outputs, self.place = stage, inputs, outputs, place

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        results = yield Work(self.stage, [slots[slot] for slot in self.inputs], group, self.place)
        for slot, column in zip(self.outputs, results, strict=True):
            slots[slot] = column


class Block:
    """Steps over slots, each with the slots that are dropped after it.

    `calls` holds the steps when all are calls: a driver that runs every stage at once may then go
    through them itself, from `fill` to `results`, and save the generator.
    """

    __slots__ = ("_captures", "_constants", "_params", "_steps", "_template", "calls", "results")

    def __init__(
        self,
        params: tuple[int, ...],
        captures: tuple[tuple[int, int], ...],
        constants: tuple[tuple[int, Literal, Type], ...],
        steps: Sequence[tuple[Step, tuple[int, ...]]],
        results: tuple[int, ...],
        slots: int,
    ) -> None:
        self._params, self._captures, self.results = params, captures, results
        self._steps = tuple(steps)
        calls = [(step, frees) for step, frees in self._steps if isinstance(step, Call)]
        self.calls = tuple(calls) if len(calls) == len(self._steps) else None
        self._template = [FREED] * slots
        for slot, literal, kind in constants:
            self._template[slot] = Constant(literal_item(literal, kind), literal, 1)
        self._constants = tuple(slot for slot, _, _ in constants)

    def start(self, arguments: Sequence[Rows], group: Group) -> Flow:
        """Return the walk over an outermost block."""
        return self.run(arguments, (), group, None)

    def fill(self, arguments: Sequence[Rows], group: Group) -> list[Rows]:
        """Return the slots at the start: arguments and constants."""
        slots = self._template.copy()
        if group.count != 1:
            for slot in self._constants:
                slots[slot] = slots[slot].take(range(group.count))
        for slot, column in zip(self._params, arguments, strict=True):
            slots[slot] = column
        return slots

    def run(
        self,
        arguments: Sequence[Rows],
        outer: Sequence[Rows],
        group: Group,
        rows: Sequence[int] | None,
    ) -> Flow:
        """Run the steps for a group whose rows are `rows` of the group around (None: all)."""
        slots = self.fill(arguments, group)
        for outside, inside in self._captures:
            column = outer[outside]
            slots[inside] = column if rows is None else column.take(rows)
        for step, frees in self._steps:
            if step.__class__ is Call:
                call = cast("Call", step)
                results = yield Work(
                    call.stage, [slots[slot] for slot in call.inputs], group, call.place
                )
                for slot, column in zip(call.outputs, results, strict=True):
                    slots[slot] = column
            else:
                yield from step.walk(slots, group)
            for slot in frees:
                slots[slot] = FREED
        return [slots[slot] for slot in self.results]


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
            block = self._blocks[self._choose(subject.item(0))]
            results = yield from block.run((), slots, group, None)
        else:
            results = yield from self._split(subject, slots, group)
        for slot, column in zip(self._outputs, results, strict=True):
            slots[slot] = column

    def _split(self, subject: Rows, slots: list[Rows], group: Group) -> Flow:
        chosen: dict[int, list[int]] = {}
        for row, value in enumerate(subject.items()):
            chosen.setdefault(self._choose(value), []).append(row)
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

    def _choose(self, value: Value) -> int:
        plain = value if isinstance(value, str | bytes) else np.asarray(value).item()
        return self._cases.get(plain, len(self._blocks) - 1)


def _reversed(cases: tuple[tuple[Literal, ...], ...]) -> list[tuple[int, tuple[Literal, ...]]]:
    return list(enumerate(cases))[::-1]  # the first case that holds a value wins


class Each:
    """Runs `body` once for a group made of the items of all rows' lists."""

    __slots__ = ("_body", "_filtered", "_iterables", "_outputs", "_place", "_types")

    def __init__(
        self,
        iterables: tuple[int, ...],
        body: Block,
        filtered: bool,
        outputs: tuple[int, ...],
        types: tuple[Type, ...],
        place: Place,
    ) -> None:
        self._iterables, self._body, self._filtered = iterables, body, filtered
        self._outputs, self._types, self._place = outputs, types, place

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        lists = [slots[slot] for slot in self._iterables]
        lengths = [self._length(lists, group, row) for row in range(group.count)]
        parents = [row for row, length in enumerate(lengths) for _ in range(length)]
        if not parents:
            for slot, kind in zip(self._outputs, self._types, strict=True):
                slots[slot] = Rows.of([empty_item(kind) for _ in lengths])
            return
        positions = [position for length in lengths for position in range(length)]
        items = Group(len(parents), group, parents, positions)
        results = yield from self._body.run(list(map(_flat, lists)), slots, items, parents)
        if self._filtered:
            kept = [row for row, keep in enumerate(results[-1].items()) if bool(keep)]
            lengths = _lengths(parents, kept, group.count)
            results = [column.take(kept) for column in results[:-1]]
        for slot, kind, column in zip(self._outputs, self._types, results, strict=True):
            slots[slot] = self._gather(column, kind, lengths, group)

    def _length(self, lists: list[Rows], group: Group, row: int) -> int:
        lengths = [len(cast("list[Item]", column.item(row))) for column in lists]
        if len(set(lengths)) > 1:
            shown = " and ".join(map(str, lengths))
            raise self._fault(f"the lists walked side by side have {shown} items", group, row)
        return lengths[0]

    def _gather(self, column: Rows, kind: Type, lengths: list[int], group: Group) -> Rows:
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
                gathered.append(empty_item(kind))
        return Rows.of(gathered)

    def _fault(self, message: str, group: Group, row: int) -> Fault:
        return Fault(Code.FAILED, message, item=group.path(row), place=self._place)


class Compare:
    """Compares, for every row, dimensions that two stages must agree on."""

    __slots__ = ("_check", "_place", "_sizes", "_stage")

    def __init__(
        self, check: Check, sizes: tuple[tuple[DimVar, int, int], ...], stage: str, place: Place
    ) -> None:
        self._check, self._sizes, self._stage, self._place = check, sizes, stage, place

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        for row in range(group.count):
            bindings = {
                name: cast("Array", slots[slot].item(row)).shape[axis]
                for name, slot, axis in self._sizes
            }
            wrong = failed(self._check, bindings)
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
