"""The inline driver: the caller's thread runs every stage as a flow asks for it."""

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from ..stdlib.op import Item
from .blame import blame, late, over_limit
from .context import Context
from .flow import FREED, Asked, Block, Emission, Flow, Fork, Group, Work
from .metrics import Tally
from .prepared import Prepared
from .present import Presenter, present
from .request import Fault, InSequence
from .rows import Rows
from .streams import gathered

Emitted: TypeAlias = Generator[dict[str, Item], None, list[Rows]]


class Inline:
    """Runs flows of one thread: its `tally`, the engine's `clock`, the request's `deadline`."""

    __slots__ = ("_clock", "_deadline", "_late", "_name", "_pipeline", "_tally")

    def __init__(
        self,
        pipeline: Prepared,
        tally: Tally,
        clock: Callable[[], float],
        deadline: float | None,
    ) -> None:
        self._pipeline, self._tally, self._clock = pipeline, tally, clock
        self._deadline, self._name = deadline, pipeline.plan.name
        self._late = False

    def finish(self, flow: Flow) -> list[Rows]:
        """Run a flow to its end; it emits nothing."""
        reached = self._next(flow)
        if isinstance(reached, Emission):
            raise AssertionError("a pipeline that is no stream has emitted")
        return reached

    def emitted(self, flow: Flow, presenters: Sequence[Presenter]) -> Emitted:
        """Run the flow of a stream; yield what it emits, and return what it gives in the end."""
        while isinstance(reached := self._next(flow), Emission):
            yield present(presenters, reached.columns)
        return reached

    def _next(self, flow: Flow) -> list[Rows] | Emission:
        """Run a flow, from its start or its last emission, to the next or to its results."""
        cells, deadline, clock = self._tally.stages, self._deadline, self._clock
        try:
            work = next(flow)
            while True:
                if not isinstance(work, Work):
                    if isinstance(work, Emission):
                        return work
                    if isinstance(work, Fork):
                        work = self._join(flow, work)
                        continue
                    cell = self._tally.pipelines[self._pipeline.index]
                    cell.fall_back(str(work.place), work.code.value)
                    work = next(flow)
                    continue
                if deadline is not None and clock() >= deadline:
                    self._late = True
                    raise late(self._name, work)
                guard, stage = work.group.guard, work.stage
                try:
                    if guard is not None and guard.over(clock()):
                        raise over_limit(self._name, work)
                    results = stage.run(work.columns, work.group.count, cells[stage.index])
                    if guard is not None and guard.over(clock()):
                        raise over_limit(self._name, work)
                except Exception as error:
                    work = flow.throw(blame(error, work, self._name))
                else:
                    work = flow.send(results)
        except StopIteration as stop:
            return stop.value

    def _join(self, flow: Flow, fork: Fork) -> Asked:
        """Run the walks of a fork one after the other, and go on with what they come to."""
        if fork.group.guard is not None:
            fork.group.guard.over(self._clock())
        try:
            results = [column for walk in fork.flows for column in self.finish(walk)]
        except Fault as fault:
            if self._late:  # which ends the request whatever is tried
                raise
            return flow.throw(fault)
        return flow.send(results)


def call_all(
    block: Block,
    arguments: list[Rows],
    group: Group,
    tally: Tally,
    clock: Callable[[], float],
    deadline: float | None,
    name: str,
) -> list[Rows]:
    """Do as `Inline.finish` would, for a block of the pipeline `name` that is nothing but calls."""
    cells, count = tally.stages, group.count
    call, columns = block.only, arguments
    try:
        if call is not None:
            if deadline is not None and clock() >= deadline:
                raise late(name, Work(call.stage, columns, group, call.place))
            return call.stage.run(columns, count, cells[call.stage.index])
        slots = block.fill(arguments, group)
        for call, frees in block.calls or ():
            stage, columns = call.stage, [*map(slots.__getitem__, call.inputs)]
            if deadline is not None and clock() >= deadline:
                raise late(name, Work(stage, columns, group, call.place))
            results = stage.run(columns, count, cells[stage.index])
            for slot, column in zip(call.outputs, results, strict=True):
                slots[slot] = column
            for slot in frees:
                slots[slot] = FREED
        return [*map(slots.__getitem__, block.results)]
    except Exception as error:
        if call is None:
            raise
        fault = blame(error, Work(call.stage, columns, group, call.place), name)
        try:
            raise fault from fault.__cause__
        finally:
            del fault  # whose traceback holds this frame


def answer_in_turn(
    pipeline: Prepared,
    sequence: InSequence | None,
    outputs: tuple[str, ...] | None,
    columns: list[Rows],
    inline: Inline,
    deadline: float | None,
    told: Context | None,
) -> dict[str, Item]:
    """Run a request of a sequence when those before it are done, and keep what it leaves."""
    if pipeline.plan.stream:
        pipeline.wanted(outputs)  # refuses some of them
        emitted = list(emit_in_turn(pipeline, sequence, columns, inline, deadline, told))
        return gathered(pipeline.names, emitted)
    sequences, turn = pipeline.ask(sequence)
    left: list[Rows] | None = None
    try:
        sequences.wait(turn, deadline)
        block, presenters = pipeline.wanted(outputs)
        results = inline.finish(pipeline.tell(pipeline.start_turn(turn, columns, block), told))
        answer = present(presenters, results[: len(presenters)])
        left = results[len(presenters) :]
        return answer
    finally:
        sequences.finish(turn, left)


def emit_in_turn(
    pipeline: Prepared,
    sequence: InSequence | None,
    columns: list[Rows],
    inline: Inline,
    deadline: float | None,
    told: Context | None,
) -> Emitted:
    """Run a stream of a sequence when those before it are done; one that nobody reads to its end
    leaves nothing."""
    sequences, turn = pipeline.ask(sequence)
    left: list[Rows] | None = None
    try:
        sequences.wait(turn, deadline)
        block, presenters = pipeline.whole
        flow = pipeline.tell(pipeline.start_turn(turn, columns, block), told)
        left = yield from inline.emitted(flow, presenters)
        return left
    finally:
        sequences.finish(turn, left)
