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
    Step,
    SwitchStep,
    TransferStep,
    TryStep,
)


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


def outputs_of(step: Step) -> tuple[int, ...]:
    """Return the slots that a step writes."""
    match step:
        case TransferStep():
            return (step.target,)
        case CheckStep() | EmitStep():
            return ()
        case CallStep() | BranchStep() | SwitchStep() | EachStep() | LoopStep() | TryStep():
            return step.outputs


def segments_of(block: Block) -> set[int]:
    """Return the segments that a block calls, those of its nested blocks among them."""
    found = {step.segment for step in block.steps if isinstance(step, CallStep)}
    return found.union(*(segments_of(inner) for step in block.steps for inner in blocks_of(step)))


def blocks_of(step: Step) -> list[Block]:
    """Return the blocks inside a step."""
    match step:
        case CallStep() | EmitStep() | TransferStep() | CheckStep():
            return []
        case BranchStep():
            return [step.then, step.orelse]
        case SwitchStep():
            return [*(block for _, block in step.cases), step.default]
        case EachStep() | LoopStep():
            return [step.body]
        case TryStep():
            return [step.body, step.orelse]


def _needed(block: Block, results: set[int]) -> set[int]:
    needed = set(results)
    for step in reversed(block.steps):
        if not needed.isdisjoint(outputs_of(step)):
            needed.update(_inputs_of(step))
    return needed


def _inputs_of(step: Step) -> set[int]:
    match step:
        case CallStep():
            return set(step.inputs)
        case TransferStep():
            return {step.source}
        case CheckStep():
            return {slot for _, slot, _ in step.sizes}
        case BranchStep():
            return {step.condition}.union(*map(_captured, blocks_of(step)))
        case SwitchStep():
            return {step.subject}.union(*map(_captured, blocks_of(step)))
        case EachStep():
            return set(step.iterables) | _captured(step.body)
        case LoopStep():
            return {step.maximum, *step.carried} | _captured(step.body)
        case TryStep():
            return _captured(step.body) | _captured(step.orelse)
        case EmitStep():
            return set(step.inputs)


def _captured(block: Block) -> set[int]:
    return {outer for outer, _ in block.captures}


def _narrow(step: Step, wanted: tuple[int, ...]) -> Step:
    match step:
        case CallStep() | TransferStep() | CheckStep() | LoopStep() | EmitStep():
            return step  # what a loop carries is what its next turn needs
        case TryStep():
            body, orelse = prune(step.body, wanted), prune(step.orelse, wanted)
            outputs = tuple(step.outputs[index] for index in wanted)
            return replace(step, body=body, orelse=orelse, outputs=outputs)
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
            return replace(
                step,
                body=prune(step.body, wanted + keep),
                outputs=tuple(step.outputs[index] for index in wanted),
                result_types=tuple(step.result_types[index] for index in wanted),
            )


def _last_uses(steps: tuple[Step, ...], results: set[int]) -> tuple[tuple[int, ...], ...]:
    seen = set(results)
    uses: list[tuple[int, ...]] = []
    for step in reversed(steps):
        touched = _inputs_of(step) | set(outputs_of(step))
        uses.append(tuple(sorted(touched - seen)))
        seen |= touched
    return tuple(reversed(uses))
