"""Turns the blocks of a plan into bound ones, once when it is loaded."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, assert_never

from ..compiler.plan import Block as PlannedBlock
from ..compiler.plan import (
    BranchStep,
    CallStep,
    CheckStep,
    EachStep,
    EmitStep,
    LoopStep,
    SpreadStep,
    SwitchStep,
    TogetherStep,
    TransferStep,
    TryStep,
)
from ..compiler.plan import Step as PlannedStep
from .attempts import Try
from .cache import CachedCall, CacheUse
from .control import Compare, Each, Switch
from .flow import Block, Call, Step
from .iterate import Emit, Loop
from .spread import Spread
from .stage import Stage
from .together import Together

BoundSteps: TypeAlias = list[tuple[Step, tuple[int, ...]]]
"""Steps, each with the slots that are dropped after it."""

Watch: TypeAlias = Callable[[PlannedBlock, BoundSteps], BoundSteps]


def bind_block(
    block: PlannedBlock,
    stages: Sequence[Stage],
    transfer: Callable[[str], Stage],
    caches: Mapping[int, CacheUse],
    watch: Watch | None = None,
) -> Block:
    """Return the block with its stages in place of numbers; `transfer` gives that of a device,
    `caches` has those of stages by number; `watch` may put something around the steps of each."""

    def bound(inner: PlannedBlock) -> Block:
        return bind_block(inner, stages, transfer, caches, watch)

    def step(planned: PlannedStep) -> Step:
        match planned:
            case CallStep():
                stage, use = stages[planned.segment], caches.get(planned.segment)
                call = Call(stage, planned.inputs, planned.outputs, planned.place)
                return call if use is None else CachedCall(call, use)
            case TransferStep():
                stage = transfer(planned.device)
                return Call(stage, (planned.source,), (planned.target,), planned.place)
            case BranchStep():
                arms = (bound(planned.then), bound(planned.orelse))
                return Switch(planned.condition, ((True,),), arms, planned.outputs)
            case SwitchStep():
                blocks = (*(bound(case) for _, case in planned.cases), bound(planned.default))
                cases = tuple(values for values, _ in planned.cases)
                return Switch(planned.subject, cases, blocks, planned.outputs)
            case EachStep():
                return Each(
                    planned.iterables,
                    bound(planned.body),
                    planned.filtered,
                    planned.outputs,
                    planned.result_types,
                    planned.place,
                    planned.sizes,
                )
            case LoopStep():
                return Loop(
                    planned.maximum,
                    planned.carried,
                    bound(planned.body),
                    planned.stops,
                    planned.outputs,
                    planned.place,
                )
            case TryStep():
                return Try(
                    bound(planned.body),
                    bound(planned.orelse),
                    planned.within,
                    planned.outputs,
                    planned.place,
                )
            case TogetherStep():
                return Together(tuple(map(bound, planned.blocks)), planned.outputs)
            case SpreadStep():
                blocks = tuple(map(bound, planned.blocks))
                return Spread(blocks, planned.shares, planned.outputs)
            case EmitStep():
                return Emit(planned.inputs)
            case CheckStep():
                return Compare(planned.check, planned.sizes, planned.stage, planned.place)
            case _:
                assert_never(planned)

    steps: BoundSteps = [
        (step(planned), frees) for planned, frees in zip(block.steps, block.last_uses, strict=True)
    ]
    if watch is not None:
        steps = watch(block, steps)
    return Block(block.params, block.captures, block.constants, steps, block.results, block.slots)
