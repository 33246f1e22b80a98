"""A request under way in the threaded and the simulated driver, and its works that wait."""

from collections.abc import Sequence
from typing import Protocol

from ..stdlib.op import Item
from .accept import Presenter
from .flow import Flow, Work
from .prepared import Prepared
from .request import Fault
from .rows import Rows, scatter
from .sequences import Turn
from .stage import Part


class Answer(Protocol):
    """Where the outcome of a request goes: `give` or `fail` is called, once.

    A stream calls `emit` before, for each response; False parks it until its reader resumes it.
    """

    def emit(self, outputs: dict[str, Item]) -> bool: ...

    def give(self, outputs: dict[str, Item]) -> None: ...

    def fail(self, fault: Fault) -> None: ...


class Task:
    """`deadline` is on the engine's clock. `busy` sums the seconds that its own steps took,
    `waited` those before it was started. With a `turn` in a sequence, `left` is what its flow has
    given for the states."""

    __slots__ = (
        "admitted",
        "answer",
        "busy",
        "deadline",
        "done",
        "flow",
        "left",
        "level",
        "pipeline",
        "presenters",
        "reached_queue",
        "started",
        "ticket",
        "turn",
        "waited",
    )

    def __init__(
        self,
        pipeline: Prepared,
        flow: Flow,
        presenters: Sequence[Presenter],
        answer: Answer,
        deadline: float | None,
        level: int,
        admitted: float,
        turn: Turn | None = None,
    ) -> None:
        self.pipeline, self.flow, self.presenters = pipeline, flow, presenters
        self.answer, self.deadline, self.level, self.admitted = answer, deadline, level, admitted
        self.busy = self.waited = 0.0
        self.started = self.done = self.reached_queue = False
        self.ticket: Ticket | None = None
        self.turn = turn
        self.left: list[Rows] | None = None

    def leave(self, succeeded: bool) -> None:
        """Let the next request of its sequence go, with what this one leaves if it succeeded."""
        if self.turn is not None and self.pipeline.sequences is not None:
            self.pipeline.sequences.finish(self.turn, self.left if succeeded else None)


class Ticket:
    """A work in front of a queued stage: gathers the results of its rows as batches finish."""

    __slots__ = ("_pieces", "_remaining", "parts", "task", "work")

    def __init__(self, task: Task, work: Work, parts: Sequence[Part]) -> None:
        self.task, self.work, self.parts = task, work, parts
        self._pieces: list[tuple[Sequence[int], list[Rows]]] = []
        self._remaining = sum(part.count for part in parts)

    def rows(self, part: int, start: int, stop: int) -> Sequence[int]:
        """Return the row numbers, within the work, of some rows of a part."""
        rows = self.parts[part].rows
        return range(start, stop) if rows is None else rows[start:stop]

    def columns(self, part: int, start: int, stop: int) -> list[Rows]:
        """Return the columns of some rows of a part."""
        return [column.part(start, stop) for column in self.parts[part].columns]

    def deliver(self, rows: Sequence[int], results: list[Rows]) -> bool:
        """Take the results of some rows; True when there are those of all."""
        self._pieces.append((rows, results))
        self._remaining -= len(rows)
        return self._remaining == 0

    def results(self) -> list[Rows]:
        """Return the columns of all rows, in row order."""
        count = self.work.group.count
        width = len(self._pieces[0][1])
        return [
            scatter(count, [(rows, results[i]) for rows, results in self._pieces])
            for i in range(width)
        ]
