"""What the steps of a plan read, write and hold, those of inner blocks included."""

from collections.abc import Iterator
from typing import assert_never

from .plan import (
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


def blocks_of(step: Step) -> tuple[Block, ...]:
    """Return the blocks of a step, in the order written."""
    match step:
        case BranchStep():
            return (step.then, step.orelse)
        case SwitchStep():
            return (*(block for _, block in step.cases), step.default)
        case EachStep() | LoopStep():
            return (step.body,)
        case TryStep():
            return (step.body, step.orelse)
        case TogetherStep() | SpreadStep():
            return step.blocks
        case CallStep() | EmitStep() | TransferStep() | CheckStep():
            return ()
        case _:
            assert_never(step)


def inputs_of(step: Step) -> tuple[int, ...]:
    """Return the slots that a step itself reads; what its blocks capture is theirs."""
    match step:
        case CallStep() | EmitStep():
            return step.inputs
        case TransferStep():
            return (step.source,)
        case CheckStep():
            return tuple(slot for _, slot, _ in step.sizes)
        case BranchStep():
            return (step.condition,)
        case SwitchStep():
            return (step.subject,)
        case EachStep():
            return (*step.iterables, *(slot for _, slot, _ in step.sizes))
        case LoopStep():
            return (step.maximum, *step.carried)
        case TryStep() | TogetherStep() | SpreadStep():
            return ()
        case _:
            assert_never(step)


def outputs_of(step: Step) -> tuple[int, ...]:
    """Return the slots that a step writes."""
    match step:
        case TransferStep():
            return (step.target,)
        case CheckStep() | EmitStep():
            return ()
        case (
            CallStep()
            | BranchStep()
            | SwitchStep()
            | EachStep()
            | LoopStep()
            | TryStep()
            | TogetherStep()
            | SpreadStep()
        ):
            return step.outputs
        case _:
            assert_never(step)


def steps_of(block: Block) -> Iterator[Step]:
    """Yield the steps of a block, each before those of its inner blocks."""
    for step in block.steps:
        yield step
        for inner in blocks_of(step):
            yield from steps_of(inner)


def copies_of(block: Block) -> list[str]:
    """Return the device that each copy goes to."""
    return [step.device for step in steps_of(block) if isinstance(step, TransferStep)]


def crossings_of(block: Block) -> list[tuple[str, str]]:
    """Return of each copy the device that it comes from, and the one that it goes to."""
    steps = (step for step in steps_of(block) if isinstance(step, TransferStep))
    return [(step.origin, step.device) for step in steps]


def segments_of(block: Block) -> list[int]:
    """Return the numbers of the segments that are called, each once, in the order written."""
    called = (step.segment for step in steps_of(block) if isinstance(step, CallStep))
    return list(dict.fromkeys(called))
