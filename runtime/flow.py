"""The walk of one request through a plan: a generator that yields Work and is sent its results.

A block runs for a *group* of rows at once. An `if` splits the group and joins it again in order;
a `for` puts the items of all rows into one group and hands them back to their rows. Nothing here
runs a stage, reads a clock or takes a lock: the driver does, and sends in the columns that a
stage gave or throws in the Fault that it failed with, at the very `yield` that asked. A flow also
yields a Fork, walks of which it wants the results as it does those of a stage; and what it emits
and what is to be counted, after which the driver goes on with `next`.

Blocks are bound once when a plan is loaded (`bind.py`); per request nothing is looked up by name.
"""

from collections.abc import Generator, Sequence
from typing import Any, Protocol, TypeAlias, cast

from ..compiler.plan import Place
from ..dsl.types import Type
from ..stdlib.op import Literal
from .literals import literal_item
from .request import Code
from .rows import Constant, Rows
from .stage import Stage


class Group:
    """The rows that a block runs for, and where each came from: for errors, and to go back.

    `parents[row]` is the row of the group around; `positions[row]` its index in the list that was
    walked, None for the rows of a branch.
    """

    __slots__ = ("count", "guard", "parent", "parents", "positions")

    def __init__(
        self,
        count: int,
        parent: "Group | None" = None,
        parents: Sequence[int] = (),
        positions: Sequence[int] | None = None,
        guard: "Guard | None" = None,
    ) -> None:
        self.count, self.parent = count, parent
        self.parents, self.positions = parents, positions
        self.guard = guard if guard is not None or parent is None else parent.guard

    def path(self, row: int) -> tuple[int, ...]:
        """Return the indices that lead to a row, the outermost first."""
        around = self.parent.path(self.parents[row]) if self.parent is not None else ()
        return (*around, self.positions[row]) if self.positions is not None else around


class Guard:
    """The body of a `try`, and until when its work is of use: `at` on the driver's clock.

    It begins with the first work under it, or where that forks, so that it never begins twice; a
    `try` around it may end it sooner.
    """

    __slots__ = ("_around", "_begun", "_seconds", "at")

    def __init__(self, seconds: float | None, around: "Guard | None") -> None:
        self._seconds, self._around = seconds, around
        self._begun, self.at = False, None if around is None else around.at

    def over(self, now: float) -> bool:
        """Tell whether its time is up, which begins now if it has not."""
        if not self._begun:
            self._begin(now)
        return self.at is not None and now >= self.at

    def _begin(self, now: float) -> None:
        self._begun = True
        limits = [] if self._seconds is None else [now + self._seconds]
        if self._around is not None:
            self._around.over(now)
            limits += [] if self._around.at is None else [self._around.at]
        self.at = min(limits, default=None)


ONE = Group(1)
"""The group of a request without `batch`."""


class Work:
    """A stage to run on every row of a group: one column per parameter."""

    __slots__ = ("columns", "group", "place", "stage")

    def __init__(self, stage: Stage, columns: list[Rows], group: Group, place: Place) -> None:
        self.stage, self.columns, self.group, self.place = stage, columns, group, place


class Emission:
    """One response of a stream: a column of one row for each result."""

    __slots__ = ("columns",)

    def __init__(self, columns: list[Rows]) -> None:
        self.columns = columns


class Fork:
    """Walks that do not need each other: sent in are the results of all of them, in their order.

    Each may ask for anything but to emit. A fault of one is thrown in, and ends the others.
    """

    __slots__ = ("flows", "group")

    def __init__(self, flows: "Sequence[Flow]", group: Group) -> None:
        self.flows, self.group = flows, group


class Fallback:
    """Says that the body of the `try` at `place` has failed for a row, to be counted."""

    __slots__ = ("code", "place")

    def __init__(self, place: Place, code: Code) -> None:
        self.place, self.code = place, code


Asked: TypeAlias = "Work | Emission | Fallback | Fork"
Walk: TypeAlias = Generator[Asked, list[Rows], None]
Flow: TypeAlias = Generator[Asked, list[Rows], list[Rows]]

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


class Single(Work, Generator[Asked, "list[Rows]", "list[Rows]"]):
    """The walk over a block that is one call, whose results are its own: the work itself, which
    yields itself as a generator would, in a third of the time."""

    __slots__ = ("_asked",)

    def __init__(self, call: Call, columns: list[Rows], group: Group) -> None:
        # as Work does, without asking it
        self.stage, self.columns, self.group, self.place = call.stage, columns, group, call.place
        self._asked = False

    def __next__(self) -> Asked:
        if self._asked:
            raise AssertionError("a stage's results are to be sent")
        self._asked = True
        return self

    def send(self, value: "list[Rows] | None", /) -> Asked:
        if value is None:
            return self.__next__()
        raise StopIteration(value)

    def throw(self, kind: Any, *_: Any) -> Asked:  # Any: as Python has it; here it is a fault
        try:
            raise kind
        finally:
            del kind  # whose traceback holds this frame


class Block:
    """Steps over slots, each with the slots that are dropped after it.

    `calls` holds the steps when all are calls: a driver that runs every stage at once may then go
    through them itself, from `fill` to `results`, and save the generator. `only` is the call that
    is all there is: its arguments are the block's, its results too; `single` says that at least
    its results are, whatever it is given. It `opens` where a stage is called first, before
    anything else is done, for which requests wait without a bound of its own.
    """

    __slots__ = (
        "_captures",
        "_constants",
        "_first",
        "_given",
        "_params",
        "_steps",
        "_template",
        "calls",
        "only",
        "opens",
        "results",
        "single",
    )

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
        self.only: Call | None = None
        self._first: Call | None = None
        self.opens = self.single = False
        if self._steps and isinstance(first := self._steps[0][0], Call):
            policy = first.stage.policy
            self.opens = policy is not None and policy.queueing is None
        if self.calls is not None and len(calls) == 1:
            call, _ = calls[0]
            self.single = call.outputs == results
            self._first = call if self.single else None
            if call.inputs == params and self.single:
                self.only = call
        self._template = [FREED] * slots
        for slot, literal, kind in constants:
            self._template[slot] = Constant(literal_item(literal, kind), literal, 1)
        self._constants = tuple(slot for slot, _, _ in constants)
        self._given = self._arguments()

    def _arguments(self) -> tuple[tuple[int, Rows], ...]:
        """Return what the first call of a single one is given: numbers of parameters, and literals
        where there is no number (-1)."""
        at = {slot: index for index, slot in enumerate(self._params)}
        inputs = () if self._first is None else self._first.inputs
        return tuple((at.get(slot, -1), self._template[slot]) for slot in inputs)

    def start(self, arguments: list[Rows], group: Group) -> Flow:
        """Return the walk over an outermost block."""
        if self._first is None:
            return self.run(arguments, (), group, None)
        if self._first.inputs == self._params:
            return Single(self._first, arguments, group)
        if group.count == 1:
            given = [literal if at < 0 else arguments[at] for at, literal in self._given]
        else:
            slots = self.fill(arguments, group)
            given = [slots[slot] for slot in self._first.inputs]
        return Single(self._first, given, group)

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
                call = cast("Call", step)  # quicker than isinstance
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
