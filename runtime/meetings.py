"""Requests that have waited while another ran, and run together in the thread that ran that: nobody
is woken for them.

It is a driver for what needs no other: requests whose walk is one call of one stage, and that have
neither a time limit nor a turn or resources to wait for.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from ..stdlib.op import Item
from .batcher import Batch, Slice
from .calls import Calls
from .flow import Work
from .inside import Inside
from .jobs import run_batch
from .line import Entry
from .metrics import Tally
from .outcomes import hand_out
from .prepared import Prepared
from .request import Fault, Request, Response
from .room import Room
from .strands import Again
from .task import Task, Ticket

Tell: TypeAlias = Callable[[Response | BaseException], object]
Lend: TypeAlias = Callable[[Callable[[], object]], bool]
"""Lets the thread that waits for an answer do something meanwhile; False where none does now."""


class Asked(NamedTuple):
    """A request for some version of a model, that waits `since` then, on the engine's clock; `tell`
    is called once, with what has become of it; `lend` is there where a thread waits for that."""

    request: Request
    version: str
    since: float
    tell: Tell
    lend: Lend | None = None


class Meetings:
    """Those of one engine."""

    def __init__(
        self, calls: Calls, inside: Inside, room: Room, clock: Callable[[], float]
    ) -> None:
        self._calls, self._inside, self._room, self._clock = calls, inside, room, clock

    def run(self, pipeline: Prepared, waiting: Sequence[Asked]) -> None:
        """Answer requests of a pipeline that `meets`, those of one shape together; raises
        EngineClosed before any has begun."""
        tally = self._inside.enter()
        try:
            alike: dict[object, list[Entry[Ticket]]] = {}
            for one in waiting:
                entry = self._entry(pipeline, one)
                if entry is not None:
                    alike.setdefault(entry.key, []).append(entry)
            for entries in alike.values():
                for batch in _batches(entries, pipeline.meets.rows):
                    self._run(batch, tally)
        finally:
            self._inside.leave(tally)

    def _entry(self, pipeline: Prepared, one: Asked) -> Entry[Ticket] | None:
        """Return the rows of a request; None where it has been answered."""
        request, held = one.request, 0
        try:
            columns = pipeline.accept(request.inputs)
            block, presenters = pipeline.wanted(request.outputs)
            rows = columns[0].count if columns else 0
            if not block.single or not 0 < rows <= pipeline.meets.rows:
                self._answer_alone(pipeline, one)
                return None
            held = self._calls.taken(pipeline, columns)
            told = pipeline.context(request, request.priority, None, self._clock)
            flow = pipeline.tell(pipeline.start(columns, block), told)
            work = next(flow)
            assert isinstance(work, Work)  # as its block is single
            (part,) = work.stage.split(work.columns, work.group.count)  # of tensors with rows
        except Exception as error:
            self._room.give(held)
            one.tell(self._calls.count_refused(pipeline, error))
            return None
        answer = _Answer(one, self._room, held)
        task = Task(pipeline, flow, presenters, answer, None, request.priority, one.since)
        task.ends = task.reached_queue = True  # nobody knows how long it alone would take
        task.rows, task.told = work.group.count, told
        entry = Entry(Ticket(task, work, ()), part.count, part.key)
        entry.arrived = one.since
        return entry

    def _answer_alone(self, pipeline: Prepared, one: Asked) -> None:
        request = one.request
        outputs = self._calls.run(
            pipeline,
            request.inputs,
            request.outputs,
            request=request,
            priority=request.priority,
            bounded=True,
        )
        one.tell(Response(request.id, outputs))

    def _run(self, batch: Batch[Ticket], tally: Tally) -> None:
        now, first = self._clock(), batch.slices[0].entry.owner
        for entry, _, _ in batch.slices:
            entry.owner.task.waited = now - entry.arrived
        given = run_batch(first.work.stage, batch, tally, now)
        now = self._clock()
        for one in given:
            assert not isinstance(one, Again)  # as what may run again does not meet here
            task, outcome = one.ticket.task, one.outcome
            assert not isinstance(outcome, list)  # as all of its rows ran
            if task.told is not None:
                task.told.end(cancelled=isinstance(outcome, Fault))
            hand_out(task, outcome, tally, now)


def _batches(entries: Sequence[Entry[Ticket]], most: int) -> Iterator[Batch[Ticket]]:
    """Return rows of one shape in batches of so many at most, in their order."""
    slices: list[Slice[Ticket]] = []
    rows = 0
    for entry in entries:
        if slices and rows + entry.count > most:
            yield Batch(tuple(slices), rows)
            slices, rows = [], 0
        slices.append(Slice(entry, 0, entry.count))
        rows += entry.count
    yield Batch(tuple(slices), rows)


class _Answer:
    """Tells who waits, and gives back the room of the inputs."""

    def __init__(self, asked: Asked, room: Room, held: int) -> None:
        self._asked, self._room, self._held = asked, room, held

    def give(self, outputs: dict[str, Item]) -> None:
        self._room.give(self._held)
        self._asked.tell(Response(self._asked.request.id, outputs))

    def fail(self, fault: Fault) -> None:
        self._room.give(self._held)
        self._asked.tell(fault)

    def emit(self, outputs: dict[str, Item]) -> bool:
        raise AssertionError(f"{outputs} of what is no stream")

    def take_back(self) -> None:
        raise AssertionError("nobody can cancel it")
