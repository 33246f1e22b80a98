"""What a Python stage may know of the request that it serves.

The context of a row travels as one column more, behind those of the stage's parameters: so it is
cut, taken and put together with the rows of others as they are, in queues, batches and blocks that
run at once, and no driver knows of it. Pipelines without a stage that asks for it have none.
"""

from collections.abc import Callable, Mapping
from time import monotonic
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from ..stdlib.op import Item
from .flow import Asked, Emission, Fallback, Flow, Fork, Single, Work
from .request import InSequence, Remarked
from .rows import Rows, Value
from .units import Behind, Holding

Parameters: TypeAlias = Mapping[str, bool | int | float | str]

NO_PARAMETERS: Final[Parameters] = MappingProxyType({})


class Context:
    """The request that a row belongs to: its `id`, the `parameters` and headers that it came with,
    and its `priority` (1 is the highest; 0: its pipeline has none and it gave none).

    Rows that no request has asked for, as at warm-up, have an empty one. What a stage has to say of
    the answer beside its results are `remarks`.
    """

    __slots__ = (
        "_clock",
        "_deadline",
        "_told",
        "cancelled",
        "holds",
        "id",
        "over",
        "parameters",
        "priority",
        "remarks",
        "sequence",
    )

    def __init__(
        self,
        id: str = "",
        parameters: Parameters = NO_PARAMETERS,
        priority: int = 0,
        deadline: float | None = None,
        clock: Callable[[], float] = monotonic,
        sequence: InSequence | None = None,
        holds: Behind = (),
    ) -> None:
        """`deadline` is on `clock`, in seconds; `holds` is what is held for it to be answered."""
        self.sequence, self.over, self.cancelled = sequence, False, False
        self.remarks: Parameters = NO_PARAMETERS
        self._told: list[Callable[[], object]] = []
        self.id, self.priority, self.holds = id, priority, holds
        self.parameters = MappingProxyType(dict(parameters)) if parameters else NO_PARAMETERS
        self._deadline, self._clock = deadline, clock

    @property
    def deadline(self) -> float | None:
        """When its time is up, on the engine's clock; None: no limit."""
        return self._deadline

    def remaining(self) -> float | None:
        """Return how many seconds are left at this moment, none less than 0; None: no limit."""
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - self._clock())

    def hold(self, holding: Holding) -> None:
        """Note that a run holds something, which may ask for others in its turn."""
        self.holds = (*(one for one in self.holds if not one.over), holding)

    def share(self, stage: str) -> Holding | None:
        """Let what a stage holds, which runs for the request, be held by who works on behind it;
        None where that is nothing."""
        found = [one for one in self.holds if one.claim.name == stage and not one.over]
        if not found:
            return None
        found[-1].share()
        return found[-1]

    def end(self, *, cancelled: bool) -> None:
        """Note that the request is over; who has asked is told, in this thread."""
        self.cancelled, self.over = cancelled, True
        told, self._told = self._told, []
        for tell in told:
            tell()

    def remarked(self, outputs: dict[str, Item]) -> dict[str, Item]:
        """Return an answer with what stages have said beside it since the last."""
        remarks, self.remarks = self.remarks, NO_PARAMETERS
        return Remarked(outputs, remarks) if remarks else outputs

    def tell_end(self, tell: Callable[[], object]) -> None:
        """Let `tell` be called when the request is over, at once where it is. It must not block."""
        self._told.append(tell)
        if self.over and tell in self._told:
            self._told.remove(tell)
            tell()

    def __repr__(self) -> str:
        return f"Context(id={self.id!r}, parameters={dict(self.parameters)}, {self.priority})"


Span: TypeAlias = tuple[int, int, Context]
"""The rows of a request: from which to which, and whose they are."""


def spans_of(told: Rows, count: int) -> list[Span]:
    """Return the rows of each request, of which a column of contexts tells."""
    spans: list[Span] = []
    start = 0
    contexts = [cast("Context", told.item(row)) for row in range(count)]
    for row in range(1, count + 1):
        if row == count or contexts[row] is not contexts[start]:
            spans.append((start, row, contexts[start]))
            start = row
    return spans


Told: TypeAlias = "Context | list[Context]"


def packing(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function whose last argument, a context or a list of them, reaches `function` in
    values that another process can be sent."""

    def call(*arguments: object) -> object:
        *others, last = arguments
        told = cast("Told", last)
        packed = [*map(_packed, told)] if isinstance(told, list) else _packed(told)
        return function(*others, packed)

    return call


def unpacking(function: Callable[..., object]) -> Callable[..., object]:
    """Return a function that is given what `packing` sends, and gives `function` contexts."""

    def call(*arguments: object) -> object:
        *others, last = arguments
        packed = cast("list[object] | object", last)
        told = [*map(_unpacked, packed)] if isinstance(packed, list) else _unpacked(packed)
        return function(*others, told)

    return call


def _packed(context: Context) -> tuple[object, ...]:
    left = context.remaining()
    # another process of this machine has the same clock
    due = None if left is None else monotonic() + left
    parameters = context.parameters
    return context.id, [*parameters], [*parameters.values()], context.priority, due


def _unpacked(packed: object) -> Context:
    id, names, values, priority, due = cast(
        "tuple[str, list[str], list[bool | int | float | str], int, float | None]", packed
    )
    return Context(id, dict(zip(names, values, strict=True)), priority, due)


def told_of(flow: Flow, context: Context, told: Mapping[int, int]) -> Flow:
    """Return the walk of a request whose works tell what it is (`in_context`)."""
    if not isinstance(flow, Single):
        return in_context(flow, context, told)
    if (at := told.get(flow.stage.index)) is not None:
        flow.columns = _with_column(flow, context, at)
    return flow


def in_context(flow: Flow, context: Context, told: Mapping[int, int]) -> Flow:
    """Return the walk of a request whose works tell what it is: those of the stages `told`, by
    number, each with the number of its parameters, behind which the context stands."""
    try:
        asked = next(flow)
        while True:
            try:
                results = yield _with_context(asked, context, told)
            except Exception as error:
                asked = flow.throw(error)
            else:
                silent = isinstance(asked, Emission | Fallback)
                asked = next(flow) if silent else flow.send(results)
    except StopIteration as stop:
        return stop.value


def _with_context(asked: Asked, context: Context, told: Mapping[int, int]) -> Asked:
    if isinstance(asked, Fork):
        return Fork([in_context(flow, context, told) for flow in asked.flows], asked.group)
    if not isinstance(asked, Work) or (at := told.get(asked.stage.index)) is None:
        return asked
    return Work(asked.stage, _with_column(asked, context, at), asked.group, asked.place)


def _with_column(work: Work, context: Context, at: int) -> list[Rows]:
    column = Rows.shared(cast("Value", context), work.group.count)  # seen by Python stages only
    return [*work.columns[:at], column, *work.columns[at:]]
