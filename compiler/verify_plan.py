"""What every plan keeps to, so that the runtime need not look again.

Slots are in range, given a value once and before use, not used after they are freed; steps name
segments that exist with as many inputs and outputs as those have; digests name what they say.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import assert_never

from ..dsl.types import Dim, OptionalType, TensorType, Type
from .literal_codec import Malformed
from .plan import (
    ENGINES,
    Block,
    BranchStep,
    CallStep,
    CheckStep,
    EachStep,
    EmitStep,
    LoopStep,
    ModelSegment,
    OpSegment,
    PipelinePlan,
    Plan,
    PythonSegment,
    Segment,
    SpreadStep,
    Step,
    SwitchStep,
    TogetherStep,
    TransferStep,
    TryStep,
)
from .plan_walk import inputs_of, outputs_of, steps_of
from .verify_policies import (
    require,
    verify_batching,
    verify_priorities,
    verify_queueing,
    verify_resources,
    verify_sequencing,
    verify_service,
)


def verify_plan(plan: Plan) -> None:
    """Raise Malformed when the plan is not well formed."""
    require(_unique(p.name for p in plan.pipelines), "two pipelines have one name")
    require(_unique(digest for digest, _ in plan.blobs), "a blob occurs twice")
    for digest, content in plan.blobs:
        require(sha256(content).hexdigest() == digest, f"the blob {digest[:12]!r} is another")
    digests = {digest for digest, _ in plan.blobs}
    verify_resources("the plan", plan.resources)
    for segment in plan.segments:
        _verify_segment(segment, digests)
        _verify_needs(segment, dict(plan.resources))
    for pipeline in plan.pipelines:
        try:
            _verify_pipeline(pipeline, plan.segments)
        except Malformed as error:
            raise Malformed(f"pipeline {pipeline.name!r}: {error}") from error


def _unique(names: Iterable[object]) -> bool:
    listed = list(names)
    return len(set(listed)) == len(listed)


def _verify_segment(segment: Segment, digests: set[str]) -> None:
    what = f"segment {segment.name!r}"
    match segment:
        case ModelSegment():
            params, results = len(segment.signature.params), len(segment.signature.results)
            require(segment.model in digests, f"{what} has no model")
            for axes, names, count in (
                (segment.input_axes, segment.input_names, params),
                (segment.output_axes, segment.output_names, results),
            ):
                require(len(axes) == len(names) == count, f"{what} differs from its signature")
            require(segment.group >= 1, f"{what} has a group of no rows")
            require(segment.instances is None or segment.instances >= 1, f"{what} never runs")
            told = segment.told and segment.kind != "triton_python"  # whose inputs say it all
            kept = told and segment.service.cache is not None
            require(not kept, f"{what} keeps results that are of one request")
            _verify_policies(what, segment)
            _verify_pads(what, segment)
            _verify_ranges(what, segment)
        case PythonSegment():
            require(segment.source in digests, f"{what} has no source")
            require(segment.group is None or segment.group >= 1, f"{what} has a group of no rows")
            require(segment.instances is None or segment.instances >= 1, f"{what} never runs")
            kept = segment.told and segment.service.cache is not None
            require(not kept, f"{what} keeps results that are of one request")
            _verify_policies(what, segment)
            _verify_pads(what, segment)
        case OpSegment():
            pass
        case _:
            assert_never(segment)


def _verify_policies(what: str, segment: ModelSegment | PythonSegment) -> None:
    verify_batching(what, segment.batching)
    verify_queueing(what, segment.queueing, segment.service.priority)
    triton = isinstance(segment, ModelSegment) and segment.kind == "triton_python"
    require(triton or not segment.service.in_process, f"{what} is no model with a process")
    verify_service(what, segment.service, python=triton or isinstance(segment, PythonSegment))


def _verify_needs(segment: Segment, totals: dict[str, int]) -> None:
    if not isinstance(segment, OpSegment):
        for name, count in segment.service.resources:
            enough = count <= totals.get(name, count)
            require(enough, f"segment {segment.name!r} needs more {name!r} than there is")


def _verify_pads(what: str, segment: ModelSegment | PythonSegment) -> None:
    params = segment.signature.params
    axes = segment.input_axes if isinstance(segment, ModelSegment) else (0,) * len(params)
    stacks = isinstance(segment, ModelSegment) or segment.batched
    for pads in segment.pads:
        require(len(pads.fill) == len(params), f"{what} differs from its `pads`")
        has = [pads.dim in _dims(field.type) for field in params]
        filled = [fill is not None for fill in pads.fill]
        require(any(has) and has == filled, f"{what} pads what it has not")
        stacked = all(axis is not None for axis, one in zip(axes, has, strict=True) if one)
        require(stacks and stacked, f"{what} pads rows that it cannot stack")
    if segment.batching is None or segment.batching.padding is None:
        return
    padding = segment.batching.padding
    declared = any(pads.dim == padding.dim for pads in segment.pads)
    require(declared, f"{what} pads what must not be")
    require(padding.bucket is None or padding.bucket >= 1, f"{what} has buckets of no size")
    require(padding.waste is None or 0 <= padding.waste < 1, f"{what} wastes no share")


def _verify_ranges(what: str, segment: ModelSegment) -> None:
    if not segment.ranges:
        return
    require(segment.backend in ENGINES, f"{what} has sizes and no engine")
    names = tuple(one.input for one in segment.ranges)
    require(names == segment.input_names, f"{what} has sizes of other inputs")
    for one in segment.ranges:
        ranks = {len(one.least), len(one.usual), len(one.most)}
        require(len(ranks) == 1, f"{what} has sizes of several ranks")
        axes = zip(one.least, one.usual, one.most, strict=True)
        require(all(0 <= a <= b <= c for a, b, c in axes), f"{what} has sizes that do not ascend")


def _dims(type: Type) -> tuple[Dim, ...]:
    type = type.item if isinstance(type, OptionalType) else type
    return type.dims if isinstance(type, TensorType) else ()


def _verify_pipeline(pipeline: PipelinePlan, segments: tuple[Segment, ...]) -> None:
    body = pipeline.body
    require(not body.captures, "the outermost block captures")
    kept = len(pipeline.states)
    require(pipeline.idle is None or pipeline.idle > 0, "states are kept for no time")
    told = len(pipeline.controls)
    require(not kept + told or pipeline.idle is not None, "states without a sequence")
    taken = len(pipeline.parameters) + told + kept
    require(len(body.params) == taken, "parameters and slots differ")
    results = kept if pipeline.stream else len(pipeline.results) + kept
    require(len(body.results) == results, "results and slots differ")
    for step in steps_of(body):
        if isinstance(step, EmitStep):
            require(pipeline.stream, f"{step.place}: what is no stream emits")
            require(len(step.inputs) == len(pipeline.results), "what is emitted is no result")
    verify_queueing("its queue", pipeline.queueing, pipeline.priority)
    verify_priorities("it", pipeline.priority)
    verify_sequencing("it", pipeline.sequencing)
    sequenced = pipeline.sequencing is None or pipeline.idle is not None
    require(sequenced, "what is not per sequence puts sequences together")
    require(pipeline.batch is None or pipeline.batch >= 1, "a batch of no rows")
    _verify_block(body, frozenset(), segments)


def _verify_block(block: Block, outside: frozenset[int], segments: tuple[Segment, ...]) -> None:
    made: set[int] = set()

    def make(slots: Iterable[int]) -> None:
        for slot in slots:
            require(0 <= slot < block.slots, f"there is no slot {slot}")
            require(slot not in made, f"slot {slot} is given a value twice")
            made.add(slot)

    make(block.params)
    make(inner for _, inner in block.captures)
    make(slot for slot, _, _ in block.constants)
    require({outer for outer, _ in block.captures} <= outside, "a capture has no value")
    require(len(block.last_uses) == len(block.steps), "steps and last uses differ")
    require(len(block.names) in (0, block.slots), "slots and names differ")
    freed: set[int] = set()
    for step, last in zip(block.steps, block.last_uses, strict=True):
        live = frozenset(made - freed)
        given = live.issuperset(inputs_of(step))
        require(given, f"{step.place}: a step uses a slot without value")
        _verify_step(step, live, segments)
        make(outputs_of(step))
        freed.update(last)
        require(freed <= made, "a slot is freed before it has a value")
    require(set(block.results) <= made - freed, "a result has no value")


def _verify_step(step: Step, live: frozenset[int], segments: tuple[Segment, ...]) -> None:
    match step:
        case CallStep():
            require(0 <= step.segment < len(segments), f"there is no segment {step.segment}")
            _verify_call(step, segments[step.segment])
        case BranchStep():
            for arm in (step.then, step.orelse):
                _verify_arm(arm, live, len(step.outputs), segments)
        case SwitchStep():
            for arm in (*(block for _, block in step.cases), step.default):
                _verify_arm(arm, live, len(step.outputs), segments)
        case EachStep():
            require(len(step.iterables) >= 1, "a walk over no list")
            require(len(step.body.params) == len(step.iterables), "items and lists differ")
            require(len(step.result_types) == len(step.outputs), "types and outputs differ")
            kept = len(step.outputs) + step.filtered
            require(len(step.body.results) == kept, "a body gives another number of results")
            _verify_block(step.body, live, segments)
        case LoopStep():
            carried = len(step.outputs)
            require(len(step.carried) == carried, "what is carried and outputs differ")
            require(len(step.body.params) == carried, "a loop carries something else")
            kept = carried + step.stops
            require(len(step.body.results) == kept, "a loop gives another number of results")
            _verify_block(step.body, live, segments)
        case TryStep():
            require(step.within is None or step.within > 0, "a `try` has no time")
            for arm in (step.body, step.orelse):
                _verify_arm(arm, live, len(step.outputs), segments)
        case TogetherStep():
            _verify_together(step, live, segments)
        case SpreadStep():
            require(len(step.blocks) >= 2, f"{step.place}: fewer than two lanes")
            fits = len(step.shares) == len(step.blocks) and min(step.shares) >= 1
            require(fits, f"{step.place}: lanes and shares differ")
            for arm in step.blocks:
                _verify_arm(arm, live, len(step.outputs), segments)
        case TransferStep() | CheckStep() | EmitStep():
            pass
        case _:
            assert_never(step)


def _verify_together(
    step: TogetherStep, live: frozenset[int], segments: tuple[Segment, ...]
) -> None:
    require(len(step.blocks) >= 2, f"{step.place}: fewer than two blocks together")
    results = sum(len(block.results) for block in step.blocks)
    require(results == len(step.outputs), f"{step.place}: blocks give another number of results")
    for block in step.blocks:
        require(
            not any(isinstance(inner, EmitStep) for inner in steps_of(block)),
            f"{step.place}: a block that runs beside others emits",
        )
        _verify_arm(block, live, len(block.results), segments)


def _verify_call(step: CallStep, segment: Segment) -> None:
    if isinstance(segment, OpSegment):
        fits = len(step.outputs) == len(segment.results)
    else:
        signature = segment.signature
        fits = (len(step.inputs), len(step.outputs)) == (
            len(signature.params),
            len(signature.results),
        )
    require(fits, f"{step.place}: the call does not fit {segment.name!r}")


def _verify_arm(
    arm: Block, live: frozenset[int], outputs: int, segments: tuple[Segment, ...]
) -> None:
    require(not arm.params, "an arm has parameters")
    require(len(arm.results) == outputs, "an arm gives another number of results")
    _verify_block(arm, live, segments)
