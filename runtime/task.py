"""A request under way in the threaded and the simulated driver, and its works that wait.

A request is in as many places at once as it has *strands*. The first is the Task itself; where its
flow forks it waits for a Join, which gathers what the other strands, each a Branch, come to.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from ..stdlib.op import Item
from .context import Context
from .flow import Flow, Work
from .forecast import START
from .metrics import PipelineCell
from .prepared import Prepared
from .present import Presenter
from .queue_policy import level_of
from .request import Fault
from .rows import Rows, scatter
from .sequences import Turn
from .stage import Part
from .units import Behind


class Answer(Protocol):
    """Where the outcome of a request goes: `give`, `fail` or `take_back` is called, once, by who
    has taken the request out of the scheduler.

    A stream calls `emit` before, for each response; False parks it until its reader resumes it.
    """

    def emit(self, outputs: dict[str, Item]) -> bool: ...

    def take_back(self) -> None:
        """Hear that the request is out, which its caller has cancelled."""
        ...

    def give(self, outputs: dict[str, Item]) -> None: ...

    def fail(self, fault: Fault) -> None: ...


class Waiter:
    """What strands have in common. `busy` sums the seconds that its own steps took, and those of
    the strands that it has joined. It waits for a `ticket`, or for those of a `join`; once it is
    `done` nothing that it comes to is used. `at` is the stage that it has come to last."""

    __slots__ = ("at", "busy", "done", "flow", "join", "ticket")

    def __init__(self, flow: Flow, at: int = START) -> None:
        self.flow, self.busy, self.done, self.at = flow, 0.0, False, at
        self.ticket: Ticket | None = None
        self.join: Join | None = None


class Task(Waiter):
    """`deadline` is on the engine's clock; `limited` says that the caller has set one himself, and
    `begun` when a request with a deadline went on from each place. `asked` is the priority that the
    caller asked for, or the pipeline's default; `level` what comes of it in the pipeline's line.
    So many requests in a row, up to this one, the thread that asks for it `came` for and ran.
    `size` are the bytes of its inputs; `waited` the seconds before it was started; `rows` is how
    many it has. It `ends` with the first work that it asks for, whose results are its own. Where it
    `opens` the thread that brings it may go as far as its first stage, and has `opened` it then
    with this. With a `turn` in a sequence, `left` is what its flow has given for the states.
    `told` is what stages are told of it, `behind` it what is held for those that it is made for.
    A stream that is parked until a stage need not wait has `held` the work for it, and `wake` lets
    it go on."""

    __slots__ = (
        "admitted",
        "answer",
        "asked",
        "begun",
        "behind",
        "came",
        "deadline",
        "emitted",
        "emitted_at",
        "ends",
        "held",
        "left",
        "level",
        "limited",
        "opened",
        "opens",
        "pauses",
        "pipeline",
        "presenters",
        "reached_queue",
        "rows",
        "size",
        "started",
        "told",
        "turn",
        "waited",
        "wake",
    )

    def __init__(
        self,
        pipeline: Prepared,
        flow: Flow,
        presenters: Sequence[Presenter],
        answer: Answer,
        deadline: float | None,
        priority: int,
        admitted: float,
        turn: Turn | None = None,
        size: int = 0,
    ) -> None:
        """`deadline` and `priority` (0: none) are what the caller asks for; the pipeline may have
        its own."""
        super().__init__(flow)
        self.pipeline, self.presenters, self.answer = pipeline, presenters, answer
        plan = pipeline.plan
        self.limited, levels = deadline is not None, plan.priority
        if plan.deadline is not None:
            deadline = pipeline.deadline(admitted, deadline)
        self.deadline = deadline
        if levels is None:
            self.asked, self.level = priority, level_of(priority, None) if priority else 1
        else:
            self.asked = self.level = level_of(priority, levels)
        self.admitted, self.size, self.waited = admitted, size, 0.0
        self.begun: dict[int, float] | None = None if self.deadline is None else {}
        self.started = self.reached_queue = False
        self.came = 0
        self.turn, self.rows = turn, 1
        self.opens = self.ends = False
        self.emitted, self.emitted_at = 0, admitted
        self.opened: Ticket | Fault | None = None
        self.pauses = 0  # how often it has waited for its reader, less how often he has made room
        self.left: list[Rows] | None = None
        self.told: Context | None = None
        self.behind: Behind = ()
        self.held: Work | None = None
        self.wake: Callable[[], None] | None = None

    @property
    def task(self) -> "Task":
        """The request that this is a strand of: itself."""
        return self

    def hold(self) -> bool:
        """Whether something of it may run: not when its turn in a sequence is over. `release`
        follows."""
        sequences = self.pipeline.sequences
        return self.turn is None or sequences is None or sequences.hold(self.turn)

    def release(self) -> None:
        """Note that something of it has run."""
        if self.turn is not None and self.pipeline.sequences is not None:
            self.pipeline.sequences.release(self.turn)

    def emit(self, outputs: dict[str, Item], cell: PipelineCell, now: float) -> bool:
        """Send one response of a stream; False when it must wait until its reader resumes it."""
        cell.count_response(self.emitted, now - self.emitted_at)
        self.emitted, self.emitted_at = self.emitted + 1, now
        if self.told is not None:
            outputs = self.told.remarked(outputs)
        return self.answer.emit(outputs)

    def leave(self, succeeded: bool) -> None:
        """Let the next request of its sequence go, with what this one leaves if it succeeded, and
        tell stages that still work for it."""
        if self.told is not None:
            self.told.end(cancelled=not succeeded)
        if self.turn is not None and self.pipeline.sequences is not None:
            self.pipeline.sequences.finish(self.turn, self.left if succeeded else None)


class Branch(Waiter):
    """A strand that came of a fork: the walk number `index` of those that meet in a Join."""

    __slots__ = ("index", "meets", "task")

    def __init__(self, task: Task, flow: Flow, meets: "Join", index: int) -> None:
        super().__init__(flow, meets.parent.at)
        self.task, self.meets, self.index = task, meets, index


Strand: TypeAlias = Task | Branch


class Join:
    """Gathers what the walks of a fork come to, for the strand that forked."""

    __slots__ = ("_given", "_missing", "branches", "parent")

    def __init__(self, parent: Strand, flows: Sequence[Flow]) -> None:
        self.parent = parent
        self.branches = [Branch(parent.task, flow, self, i) for i, flow in enumerate(flows)]
        self._given: list[list[Rows]] = [[] for _ in flows]
        self._missing = len(flows)

    def take(self, branch: Branch, results: list[Rows]) -> bool:
        """Take the results of one walk; True when there are those of all."""
        self._given[branch.index] = results
        self._missing -= 1
        return self._missing == 0

    def results(self) -> list[Rows]:
        """Return the results of all walks, in their order."""
        return [column for results in self._given for column in results]


class Ticket:
    """A work in front of a queued stage: gathers the results of its rows as batches finish.
    They are those of a `task`. `taken` says that some of them have run, or do, and `opens` that it
    is of a request that waits to begin. In its queue it has no `parts` where the work is the only.
    """

    __slots__ = ("_pieces", "_remaining", "opens", "parts", "strand", "taken", "task", "work")

    def __init__(self, strand: Strand, work: Work, parts: Sequence[Part]) -> None:
        self.strand, self.work, self.parts = strand, work, parts
        self.task: Task = strand.task
        self.taken = self.opens = False
        self._pieces: list[tuple[Sequence[int], list[Rows]]] | None = None  # most need none
        self._remaining = work.group.count

    def rows(self, part: int, start: int, stop: int) -> Sequence[int]:
        """Return the row numbers, within the work, of some rows of a part."""
        rows = self.parts[part].rows if self.parts else None
        return range(start, stop) if rows is None else rows[start:stop]

    def columns(self, part: int, start: int, stop: int) -> Sequence[Rows]:
        """Return the columns of some rows of a part."""
        work, parts = self.work, self.parts
        columns, count = work.columns, work.group.count
        if parts:
            columns, count = parts[part].columns, parts[part].count
        if start == 0 and stop == count:
            return columns
        return [column.part(start, stop) for column in columns]

    def renew(self, number: int, start: int, stop: int, part: Part) -> int:
        """Let rows of a part, which are to run again, be a part for themselves; return its
        number."""
        part.rows = tuple(self.rows(number, start, stop))
        whole = Part(None, None, self.work.columns, self.work.group.count)
        parts = [*self.parts] or [whole]
        if stop - start == parts[number].count:
            parts[number] = part
        else:
            number = len(parts)
            parts.append(part)
        self.parts = parts
        return number

    def deliver(self, rows: Sequence[int], results: list[Rows]) -> bool:
        """Take the results of some rows; True when there are those of all."""
        if self._pieces is None:
            self._pieces = []
        self._pieces.append((rows, results))
        self._remaining -= len(rows)
        return self._remaining == 0

    def results(self) -> list[Rows]:
        """Return the columns of all rows, in row order."""
        pieces = self._pieces or []
        if len(pieces) == 1:
            return pieces[0][1]
        count = self.work.group.count
        width = len(pieces[0][1])
        return [
            scatter(count, [(rows, results[i]) for rows, results in pieces]) for i in range(width)
        ]
