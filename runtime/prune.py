"""Cuts from a block what feeds only results that a caller does not want.

A step that feeds no result at all (a call made for its effect) stays: it is not the results that
it runs for. A comparison of sizes stays while all that it compares does.
"""

from dataclasses import replace

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
from ..compiler.plan_walk import blocks_of, inputs_of, outputs_of
from .shapes import names


def prune(block: Block, wanted: tuple[int, ...]) -> Block:
    """Return the block with results `wanted` (indices into `block.results`) and no others."""
    results = tuple(block.results[index] for index in wanted)
    useful = _needed(block, set(block.results))
    needed = set(results)
    kept: list[Step] = []
    for step in reversed(block.steps):
        if isinstance(step, CheckStep):
            if needed.issuperset(_inputs_of(step)):
                kept.append(step)
            continue
        outputs = outputs_of(step)
        if needed.isdisjoint(outputs) and not useful.isdisjoint(outputs):
            continue
        step = _narrow(step, tuple(i for i, slot in enumerate(outputs) if slot in needed))
        needed.update(_inputs_of(step))
        kept.append(step)
    steps = tuple(reversed(kept))
    return replace(
        block,
        captures=tuple((outer, inner) for outer, inner in block.captures if inner in needed),
        constants=tuple(constant for constant in block.constants if constant[0] in needed),
        steps=steps,
        results=results,
        last_uses=_last_uses(steps, set(results)),
    )


def _needed(block: Block, results: set[int]) -> set[int]:
    needed = set(results)
    for step in reversed(block.steps):
        if not needed.isdisjoint(outputs_of(step)):
            needed.update(_inputs_of(step))
    return needed


def _inputs_of(step: Step) -> set[int]:
    captured = (outer for block in blocks_of(step) for outer, _ in block.captures)
    return {*inputs_of(step), *captured}


def _narrow(step: Step, wanted: tuple[int, ...]) -> Step:
    match step:
        case CallStep() | TransferStep() | CheckStep() | LoopStep() | EmitStep():
            return step  # what a loop carries is what its next turn needs
        case TryStep():
            body, orelse = prune(step.body, wanted), prune(step.orelse, wanted)
            outputs = tuple(step.outputs[index] for index in wanted)
            return replace(step, body=body, orelse=orelse, outputs=outputs)
        case TogetherStep():
            return _narrow_together(step, wanted)
        case SpreadStep():
            blocks = tuple(prune(block, wanted) for block in step.blocks)
            outputs = tuple(step.outputs[index] for index in wanted)
            return replace(step, blocks=blocks, outputs=outputs)
        case BranchStep():
            then, orelse = prune(step.then, wanted), prune(step.orelse, wanted)
            outputs = tuple(step.outputs[index] for index in wanted)
            return replace(step, then=then, orelse=orelse, outputs=outputs)
        case SwitchStep():
            cases = tuple((values, prune(block, wanted)) for values, block in step.cases)
            outputs = tuple(step.outputs[index] for index in wanted)
            default = prune(step.default, wanted)
            return replace(step, cases=cases, default=default, outputs=outputs)
        case EachStep():
            keep = (len(step.body.results) - 1,) if step.filtered else ()
            types = tuple(step.result_types[index] for index in wanted)
            named = set(names(types))
            return replace(
                step,
                body=prune(step.body, wanted + keep),
                outputs=tuple(step.outputs[index] for index in wanted),
                result_types=types,
                sizes=tuple(size for size in step.sizes if size[0] in named),
            )


def _narrow_together(step: TogetherStep, wanted: tuple[int, ...]) -> TogetherStep:
    """Return the step without what gives unwanted results, and without blocks that do nothing."""
    blocks: list[Block] = []
    first = 0
    for block in step.blocks:
        own = range(first, first + len(block.results))
        pruned = prune(block, tuple(index - first for index in wanted if index in own))
        if pruned.steps or pruned.results:
            blocks.append(pruned)
        first = own.stop
    outputs = tuple(step.outputs[index] for index in wanted)
    return replace(step, blocks=tuple(blocks), outputs=outputs)


def _last_uses(steps: tuple[Step, ...], results: set[int]) -> tuple[tuple[int, ...], ...]:
    seen = set(results)
    uses: list[tuple[int, ...]] = []
    for step in reversed(steps):
        touched = _inputs_of(step) | set(outputs_of(step))
        uses.append(tuple(sorted(touched - seen)))
        seen |= touched
    return tuple(reversed(uses))
