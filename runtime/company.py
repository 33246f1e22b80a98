"""Who may still come to a stage: rows wait for company only while there is somebody to wait for.

A request waits for a stage, or is past the stage that it has come to last. From there the plan says
which stages it may reach: those behind it on any way through branches, and in a loop those of its
next turn. The walks of a fork are counted each for itself, and what forked not at all until they
have met. Nothing is known of requests that have not arrived: when all that are here have passed a
stage, or wait for it, nobody else is expected there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import assert_never

from ..compiler.plan import (
    Block,
    BranchStep,
    CallStep,
    CheckStep,
    EachStep,
    EmitStep,
    LoopStep,
    SpreadStep,
    Step,
    SwitchStep,
    TogetherStep,
    TransferStep,
    TryStep,
)
from ..compiler.plan_walk import blocks_of, segments_of
from .forecast import START


def reaches(body: Block) -> dict[int, frozenset[int]]:
    """Return the stages that come after each stage of a pipeline, and after `START`."""
    found: dict[int, frozenset[int]] = {}
    found[START] = _walk(body, frozenset(), found)
    return found


def _walk(block: Block, after: frozenset[int], found: dict[int, frozenset[int]]) -> frozenset[int]:
    """Note what comes after each stage of a block, behind which `after` comes; return what may
    come from its beginning."""
    for step in reversed(block.steps):
        after = _step(step, after, found)
    return after


def _step(step: Step, after: frozenset[int], found: dict[int, frozenset[int]]) -> frozenset[int]:
    blocks = blocks_of(step)
    match step:
        case CallStep():
            found[step.segment] = found.get(step.segment, frozenset()) | after
            return after | {step.segment}
        case EmitStep() | TransferStep() | CheckStep():
            return after
        case LoopStep() | TryStep():
            after |= _stages(blocks)  # of another turn, or of the `else`
        case BranchStep() | SwitchStep() | EachStep() | TogetherStep() | SpreadStep():
            pass
        case _:
            assert_never(step)
    return after.union(*(_walk(block, after, found) for block in blocks))


def _stages(blocks: Iterable[Block]) -> frozenset[int]:
    return frozenset[int]().union(*(segments_of(block) for block in blocks))


class Company:
    """Counts the strands of each pipeline's requests by where they are. `reached` is of each
    pipeline what `reaches` returns, empty where nobody need be counted."""

    __slots__ = ("_coming", "_past", "_waits")

    def __init__(self, reached: Sequence[Mapping[int, frozenset[int]]]) -> None:
        self._past = [dict.fromkeys(one, 0) for one in reached]
        self._waits = [dict.fromkeys(one, 0) for one in reached]
        self._coming: dict[int, list[tuple[dict[int, int], int]]] = {}
        for past, waits, one in zip(self._past, self._waits, reached, strict=True):
            for at, stages in one.items():
                for stage in stages:
                    self._coming.setdefault(stage, []).append((past, at))
                    if stage != at:  # who waits for a stage comes to it again only after that
                        self._coming[stage].append((waits, at))

    def come(self, pipeline: int, at: int = START, count: int = 1) -> None:
        """Note that so many more are past a stage."""
        if past := self._past[pipeline]:
            past[at] += count

    def go(self, pipeline: int, at: int) -> None:
        """Note that one which was past a stage is no more."""
        if past := self._past[pipeline]:
            past[at] -= 1

    def wait(self, pipeline: int, at: int, stage: int) -> None:
        """Note that one which was past a stage waits for another."""
        if past := self._past[pipeline]:
            past[at] -= 1
            self._waits[pipeline][stage] += 1

    def pass_by(self, pipeline: int, stage: int) -> None:
        """Note that one need not wait for a stage any more."""
        if past := self._past[pipeline]:
            self._waits[pipeline][stage] -= 1
            past[stage] += 1

    def expected(self, stage: int) -> bool:
        """Whether anybody may still come to a stage who does not wait for it already."""
        return any(counts[at] > 0 for counts, at in self._coming.get(stage, ()))

    def counted(self) -> int:
        """How many are counted anywhere."""
        return sum(abs(count) for one in (*self._past, *self._waits) for count in one.values())
