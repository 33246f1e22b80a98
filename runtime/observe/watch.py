"""A pipeline bound anew for one request that is recorded.

The plan's steps are the same, each with something around it that writes down what it is asked and
what comes of it; drivers, queues and stages do not know. So a request that is not recorded runs
without a branch or a call for this, and one that is pays for its binding too (some 5 µs a step).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

from ...compiler.plan import Block as PlannedBlock
from ...compiler.plan import CallStep, EmitStep, PipelinePlan, Place, TransferStep, TryStep
from ...compiler.plan import Step as PlannedStep
from ...compiler.plan_walk import blocks_of, outputs_of, steps_of
from ..bind import bind_block
from ..cache import CachedCall
from ..flow import Block, Call, Flow, Group, Step, Walk, Work
from ..metrics import StageCell
from ..prepared import Prepared
from ..request import Code, Fault
from ..rows import Rows
from ..seats import SeatedStage
from ..sequences import Turn
from ..stage import Part, Stage
from .recording import Recording, Span, Stopwatch
from .trace import Trace

Bound: TypeAlias = list[tuple[Step, tuple[int, ...]]]
"""Steps, each with the slots that are dropped after it."""

Named: TypeAlias = tuple[tuple[int, str], ...]
"""Slots and what the source calls their values."""


class Watched(Prepared):
    """A pipeline for one request, whose outcome it is told of like any other."""

    def __init__(self, prepared: Prepared, recording: Recording) -> None:
        vars(self).update(vars(prepared))
        self._recording = recording
        self._subsets = {}
        self.whole = self._bound(self.plan.body), prepared.whole[1]

    def _bound(self, body: PlannedBlock) -> Block:
        watch = _Watch(self.plan, body, self._recording)
        return self.counting(bind_block(body, self._stages, self._transfer, self._caches, watch))

    def start(self, columns: list[Rows], block: Block) -> Flow:
        return self._lined_up(super().start(columns, block))

    def start_turn(self, turn: Turn, columns: list[Rows], block: Block) -> Flow:
        return self._lined_up(super().start_turn(turn, columns, block))

    def _lined_up(self, flow: Flow) -> Flow:
        self._recording.line_up()
        return _begun(flow, self._recording)

    def measured(self, seconds: float | None) -> None:
        """Note that it was answered. How long that took is no measure of others."""
        del seconds
        self._recording.end()

    def started(self, seconds: float) -> None:
        """Take it into no mean."""

    def failed(self, fault: Fault | None) -> None:
        recording = self._recording
        recording.end(fault or Fault(Code.CANCELLED, "the request was cancelled"))
        if fault is not None:
            fault.trace = Trace(recording)


def _begun(flow: Flow, recording: Recording) -> Flow:
    recording.start()
    return (yield from flow)


class _Watch:
    """Puts something around each step of a block, and in front of those of inner ones."""

    def __init__(self, pipeline: PipelinePlan, body: PlannedBlock, recording: Recording) -> None:
        self._pipeline, self._recording = pipeline, recording
        self._holders: dict[int, PlannedStep] = {
            id(inner): step for step in steps_of(body) for inner in blocks_of(step)
        }

    def __call__(self, block: PlannedBlock, steps: Bound) -> Bound:
        holder = self._holders.get(id(block))
        place = self._pipeline.place if holder is None else holder.place
        falls = isinstance(holder, TryStep) and block is holder.orelse
        around: Bound = [
            (_Enter(_named(block, block.params), place, self._recording, falls=falls), ())
        ]
        for planned, (step, frees) in zip(block.steps, steps, strict=True):
            around.append((self._around(planned, step, block), frees))
        return around

    def _around(self, planned: PlannedStep, step: Step, block: PlannedBlock) -> Step:
        named = _named(block, outputs_of(planned))
        if isinstance(planned, CallStep | TransferStep) and isinstance(step, Call | CachedCall):
            copies = isinstance(planned, TransferStep)
            call = step if isinstance(step, Call) else step.call
            name = call.stage.name
            return _Called(step, name, named, planned.place, self._recording, copies=copies)
        if isinstance(planned, EmitStep):
            return _Emitting(step, self._recording)
        return _Done(step, named, planned.place, self._recording) if named else step


def _named(block: PlannedBlock, slots: Sequence[int]) -> Named:
    return tuple((slot, block.names[slot]) for slot in slots) if block.names else ()


class _Enter:
    """Comes first in a block: keeps what it was given."""

    __slots__ = ("_falls", "_named", "_place", "_recording")

    def __init__(self, named: Named, place: Place, recording: Recording, *, falls: bool) -> None:
        self._named, self._place, self._recording = named, place, recording
        self._falls = falls

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        if self._falls:
            self._recording.fall(self._place, group.count)
        for slot, name in self._named:
            self._recording.keep(name, self._place, slots[slot], group)
        return
        yield  # a walk that asks for no work


class _Done:
    """Keeps what a step has made."""

    __slots__ = ("_named", "_place", "_recording", "_step")

    def __init__(self, step: Step, named: Named, place: Place, recording: Recording) -> None:
        self._step, self._named, self._place = step, named, place
        self._recording = recording

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        yield from self._step.walk(slots, group)
        for slot, name in self._named:
            self._recording.keep(name, self._place, slots[slot], group)


class _Emitting:
    __slots__ = ("_recording", "_step")

    def __init__(self, step: Step, recording: Recording) -> None:
        self._step, self._recording = step, recording

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        self._recording.emit()
        yield from self._step.walk(slots, group)


class _Called:
    """A call of a stage, as a span; `copies` says that it is a copy to another device's memory."""

    __slots__ = ("_copies", "_name", "_named", "_place", "_recording", "_step")

    def __init__(
        self,
        step: Call | CachedCall,
        name: str,
        named: Named,
        place: Place,
        recording: Recording,
        *,
        copies: bool,
    ) -> None:
        self._step, self._name, self._named, self._place = step, name, named, place
        self._recording, self._copies = recording, copies

    def walk(self, slots: list[Rows], group: Group) -> Walk:
        recording = self._recording
        span = recording.ask(self._name, self._place, group.count)
        walk = self._step.walk(slots, group)
        work = next(walk, None)  # there is none where all results are kept
        ran = 0
        if isinstance(work, Work):
            ran = work.group.count
            stage = _watched(work.stage, span, recording)
            try:
                results = yield Work(stage, work.columns, work.group, work.place)
            except Fault as fault:
                recording.answer(span, fault)
                raise
            if self._copies:
                span.copied = sum(column.size() for column in work.columns)
            with suppress(StopIteration):
                walk.send(results)
        if isinstance(self._step, CachedCall):
            span.hits = group.count - ran
        recording.answer(span)
        for slot, name in self._named:
            recording.keep(name, self._place, slots[slot], group)


class WatchedStage:
    """A stage as one span asks for it; queues know the stage itself, by the same number."""

    def __init__(self, stage: Stage, span: Span, recording: Recording) -> None:
        self.name, self.index, self.policy = stage.name, stage.index, stage.policy
        self.span, self.recording = span, recording
        self._stage = stage

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        return self._timed(self._stage.run, columns, count, cell)

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        return self._timed(self._stage.run_together, columns, count, cell)

    def split(self, columns: Sequence[Rows], count: int) -> list[Part]:
        return self._stage.split(columns, count)

    def _timed(
        self,
        run: Callable[[Sequence[Rows], int, StageCell], list[Rows]],
        columns: Sequence[Rows],
        count: int,
        cell: StageCell,
    ) -> list[Rows]:
        recording = self.recording
        watch = Stopwatch(self.name, cell, recording.clock)
        try:
            results = run(columns, count, cell)
        except Exception:
            recording.ran(self.span, watch.stop(count, failed=True), count)
            raise
        recording.ran(self.span, watch.stop(count), count)
        return results


class _WatchedSeats(WatchedStage, SeatedStage):
    """Such a stage that gives rows their places; whoever asks for it looks at its class."""


def _watched(stage: Stage, span: Span, recording: Recording) -> WatchedStage:
    kind = _WatchedSeats if isinstance(stage, SeatedStage) else WatchedStage
    return kind(stage, span, recording)
