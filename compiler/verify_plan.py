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
    Batching,
    Block,
    BranchStep,
    CallStep,
    CheckStep,
    EachStep,
    EmitStep,
    LoopStep,
    OnnxSegment,
    OpSegment,
    PipelinePlan,
    Plan,
    PythonSegment,
    Queueing,
    Segment,
    Step,
    SwitchStep,
    TransferStep,
    TryStep,
)
from .plan_walk import inputs_of, outputs_of, steps_of


def verify_plan(plan: Plan) -> None:
    """Raise Malformed when the plan is not well formed."""
    _require(_unique(p.name for p in plan.pipelines), "two pipelines have one name")
    _require(_unique(digest for digest, _ in plan.blobs), "a blob occurs twice")
    for digest, content in plan.blobs:
        _require(sha256(content).hexdigest() == digest, f"the blob {digest[:12]!r} is another")
    digests = {digest for digest, _ in plan.blobs}
    for segment in plan.segments:
        _verify_segment(segment, digests)
    for pipeline in plan.pipelines:
        try:
            _verify_pipeline(pipeline, plan.segments)
        except Malformed as error:
            raise Malformed(f"pipeline {pipeline.name!r}: {error}") from error


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Malformed(otherwise)


def _unique(names: Iterable[object]) -> bool:
    listed = list(names)
    return len(set(listed)) == len(listed)


def _verify_segment(segment: Segment, digests: set[str]) -> None:
    what = f"segment {segment.name!r}"
    match segment:
        case OnnxSegment():
            params, results = len(segment.signature.params), len(segment.signature.results)
            _require(segment.model in digests, f"{what} has no model")
            for axes, names, count in (
                (segment.input_axes, segment.input_names, params),
                (segment.output_axes, segment.output_names, results),
            ):
                _require(len(axes) == len(names) == count, f"{what} differs from its signature")
            _require(segment.group >= 1, f"{what} has a group of no rows")
            _require(segment.instances is None or segment.instances >= 1, f"{what} never runs")
            _verify_policies(what, segment.batching, segment.queueing)
            _verify_pads(what, segment)
        case PythonSegment():
            _require(segment.source in digests, f"{what} has no source")
            _require(segment.group is None or segment.group >= 1, f"{what} has a group of no rows")
            _require(segment.instances is None or segment.instances >= 1, f"{what} never runs")
            _verify_policies(what, segment.batching, segment.queueing)
            unpadded = segment.batching is None or segment.batching.padding is None
            _require(unpadded, f"{what} pads what runs in Python")
        case OpSegment():
            pass
        case _:
            assert_never(segment)


def _verify_pads(what: str, segment: OnnxSegment) -> None:
    for pads in segment.pads:
        _require(len(pads.fill) == len(segment.input_axes), f"{what} differs from its `pads`")
        has = [pads.dim in _dims(field.type) for field in segment.signature.params]
        filled = [fill is not None for fill in pads.fill]
        _require(any(has) and has == filled, f"{what} pads what it has not")
        _require(
            all(axis is not None for axis, one in zip(segment.input_axes, has, strict=True) if one),
            f"{what} pads rows that it cannot stack",
        )
    if segment.batching is None or segment.batching.padding is None:
        return
    padding = segment.batching.padding
    declared = any(pads.dim == padding.dim for pads in segment.pads)
    _require(declared and segment.device != "sim", f"{what} pads what must not be")
    _require(padding.bucket is None or padding.bucket >= 1, f"{what} has buckets of no size")
    _require(padding.waste is None or 0 <= padding.waste < 1, f"{what} wastes no share")


def _dims(type: Type) -> tuple[Dim, ...]:
    type = type.item if isinstance(type, OptionalType) else type
    return type.dims if isinstance(type, TensorType) else ()


def _verify_policies(what: str, batching: Batching | None, queueing: Queueing | None) -> None:
    if batching is not None:
        _require(batching.maximum >= 1 and batching.wait >= 0, f"{what} has a batch of no rows")
        _require(
            all(1 <= size <= batching.maximum for size in batching.prefer),
            f"{what} prefers batches that cannot be",
        )
    if queueing is not None:
        _require(queueing.size >= 1, f"{what} has a queue of no places")
        _require(queueing.on_timeout in ("reject", "delay"), f"{what} has no such `on_timeout`")


def _verify_pipeline(pipeline: PipelinePlan, segments: tuple[Segment, ...]) -> None:
    body = pipeline.body
    _require(not body.captures, "the outermost block captures")
    kept = len(pipeline.states)
    _require(pipeline.idle is None or pipeline.idle > 0, "states are kept for no time")
    _require(not kept or pipeline.idle is not None, "states without a sequence")
    _require(len(body.params) == len(pipeline.parameters) + kept, "parameters and slots differ")
    results = kept if pipeline.stream else len(pipeline.results) + kept
    _require(len(body.results) == results, "results and slots differ")
    for step in steps_of(body):
        if isinstance(step, EmitStep):
            _require(pipeline.stream, f"{step.place}: what is no stream emits")
            _require(len(step.inputs) == len(pipeline.results), "what is emitted is no result")
    _require(pipeline.batch is None or pipeline.batch >= 1, "a batch of no rows")
    _verify_block(body, frozenset(), segments)


def _verify_block(block: Block, outside: frozenset[int], segments: tuple[Segment, ...]) -> None:
    made: set[int] = set()

    def make(slots: Iterable[int]) -> None:
        for slot in slots:
            _require(0 <= slot < block.slots, f"there is no slot {slot}")
            _require(slot not in made, f"slot {slot} is given a value twice")
            made.add(slot)

    make(block.params)
    make(inner for _, inner in block.captures)
    make(slot for slot, _, _ in block.constants)
    _require({outer for outer, _ in block.captures} <= outside, "a capture has no value")
    _require(len(block.last_uses) == len(block.steps), "steps and last uses differ")
    freed: set[int] = set()
    for step, last in zip(block.steps, block.last_uses, strict=True):
        live = frozenset(made - freed)
        given = live.issuperset(inputs_of(step))
        _require(given, f"{step.place}: a step uses a slot without value")
        _verify_step(step, live, segments)
        make(outputs_of(step))
        freed.update(last)
        _require(freed <= made, "a slot is freed before it has a value")
    _require(set(block.results) <= made - freed, "a result has no value")


def _verify_step(step: Step, live: frozenset[int], segments: tuple[Segment, ...]) -> None:
    match step:
        case CallStep():
            _require(0 <= step.segment < len(segments), f"there is no segment {step.segment}")
            _verify_call(step, segments[step.segment])
        case BranchStep():
            for arm in (step.then, step.orelse):
                _verify_arm(arm, live, len(step.outputs), segments)
        case SwitchStep():
            for arm in (*(block for _, block in step.cases), step.default):
                _verify_arm(arm, live, len(step.outputs), segments)
        case EachStep():
            _require(len(step.iterables) >= 1, "a walk over no list")
            _require(len(step.body.params) == len(step.iterables), "items and lists differ")
            _require(len(step.result_types) == len(step.outputs), "types and outputs differ")
            kept = len(step.outputs) + step.filtered
            _require(len(step.body.results) == kept, "a body gives another number of results")
            _verify_block(step.body, live, segments)
        case LoopStep():
            carried = len(step.outputs)
            _require(len(step.carried) == carried, "what is carried and outputs differ")
            _require(len(step.body.params) == carried, "a loop carries something else")
            kept = carried + step.stops
            _require(len(step.body.results) == kept, "a loop gives another number of results")
            _verify_block(step.body, live, segments)
        case TryStep():
            _require(step.within is None or step.within > 0, "a `try` has no time")
            for arm in (step.body, step.orelse):
                _verify_arm(arm, live, len(step.outputs), segments)
        case TransferStep() | CheckStep() | EmitStep():
            pass
        case _:
            assert_never(step)


def _verify_call(step: CallStep, segment: Segment) -> None:
    if isinstance(segment, OpSegment):
        fits = len(step.outputs) == len(segment.results)
    else:
        signature = segment.signature
        fits = (len(step.inputs), len(step.outputs)) == (
            len(signature.params),
            len(signature.results),
        )
    _require(fits, f"{step.place}: the call does not fit {segment.name!r}")


def _verify_arm(
    arm: Block, live: frozenset[int], outputs: int, segments: tuple[Segment, ...]
) -> None:
    _require(not arm.params, "an arm has parameters")
    _require(len(arm.results) == outputs, "an arm gives another number of results")
    _verify_block(arm, live, segments)
