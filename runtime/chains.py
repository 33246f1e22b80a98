"""Where a batch may stay together: models that are called in a row, each with what the one before
it gives.

What has met at the first would meet again at the others, and a queue in front of each has every
request resumed, sorted and merged between any two, which takes longer than a small model. So where
such a queue has nothing to decide there is none: it would wait for no company, bound nothing and
share no resource, and its model takes as many rows as the first. It is so for models that are told
of their requests, as the members of an ensemble are: by that the rows of each can be told apart.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from ..compiler.plan import Block, CallStep, ModelSegment, PipelinePlan, Segment, Step
from ..compiler.plan_walk import blocks_of, inputs_of


@dataclass(frozen=True, slots=True)
class Chain:
    """Calls in a row; `inputs` are the slots that they read and do not make, `outputs` those that
    they make and that are read behind them."""

    calls: tuple[CallStep, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def chains(
    pipeline: PipelinePlan, segments: Sequence[Segment], able: Callable[[int], bool]
) -> Iterator[Chain]:
    """Yield those of a pipeline; `able` says whether the stage of a segment can be in one."""
    if pipeline.stream or pipeline.states or pipeline.sequencing is not None:
        return
    steps = pipeline.body.steps
    start = 0
    while start < len(steps):
        run = _run(steps[start:], segments, able)
        if len(run) > 1 and any(_model(segments[call.segment]).told for call in run):
            yield _chain(run, pipeline.body, steps[start + len(run) :])
        start += len(run) or 1


def chained(block: Block, found: Collection[tuple[Chain, int]]) -> Block:
    """Return the block with each chain as one call, of the stage with the number beside it."""
    steps, uses = list(block.steps), list(block.last_uses)
    for chain, stage in found:
        first, count = chain.calls[0], len(chain.calls)
        at = steps.index(first) if first in steps else 0
        if tuple(steps[at : at + count]) == chain.calls:
            whole = replace(first, segment=stage, inputs=chain.inputs, outputs=chain.outputs)
            steps[at : at + count] = [whole]
            uses[at : at + count] = [tuple(slot for use in uses[at : at + count] for slot in use)]
    return replace(block, steps=tuple(steps), last_uses=tuple(uses))


def _run(
    steps: Sequence[Step], segments: Sequence[Segment], able: Callable[[int], bool]
) -> list[CallStep]:
    """Return the calls at the beginning of some steps that a batch may go through together."""
    run: list[CallStep] = []
    for step in steps:
        if not isinstance(step, CallStep) or not _is_plain(segments[step.segment]):
            break
        if run and not _follows(step, run, segments):
            break
        if not able(step.segment):
            break
        run.append(step)
    return run


def _is_plain(segment: Segment) -> bool:
    if not isinstance(segment, ModelSegment):
        return False
    return segment.service.cache is None and not segment.service.resources


def _follows(step: CallStep, run: Sequence[CallStep], segments: Sequence[Segment]) -> bool:
    """Whether what meets at the first of a run may go on to a call as it is."""
    segment, first = _model(segments[step.segment]), _model(segments[run[0].segment])
    if set(step.inputs).isdisjoint(run[-1].outputs):
        return False  # they might run at once
    if segment.queueing is not None or segment.service.priority is not None:
        return False
    batching, most = segment.batching, first.batching
    if batching is None or most is None:  # where requests do not meet
        return batching is most and segment.group >= first.group
    if batching.wait > 0 or batching.prefer or None in segment.input_axes:
        return False
    return batching.maximum >= most.maximum


def _chain(run: Sequence[CallStep], body: Block, behind: Sequence[Step]) -> Chain:
    made = dict.fromkeys(slot for call in run for slot in call.outputs)
    inputs = dict.fromkeys(slot for call in run for slot in call.inputs if slot not in made)
    read = set(body.results)
    for step in behind:
        read.update(inputs_of(step))
        read.update(outer for block in blocks_of(step) for outer, _ in block.captures)
    return Chain(tuple(run), tuple(inputs), tuple(slot for slot in made if slot in read))


def _model(segment: Segment) -> ModelSegment:
    assert isinstance(segment, ModelSegment)  # as `_is_plain` has said
    return segment
