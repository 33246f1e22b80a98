"""What is different between two plans: the figures that changed, then the text that did.

```
pipeline ocr
    segments  8 to 7 (detect is gone; read is gone; detect+read is new)
    copies    1 in, 1 out to none
    peak      cpu 41.2 MiB to 38 MiB
    batch     read: batch off to batch up to 8, no wait
--- a.plan
+++ b.plan
@@ -3,4 +3,3 @@
...
```
"""

from collections.abc import Iterable, Sequence
from difflib import unified_diff

from .explain import explain
from .plan import ModelSegment, OpSegment, PipelinePlan, Plan, Segment
from .plan_text import copies_text, peak_text
from .plan_walk import crossings_of, segments_of
from .policy_text import describe_batching, describe_segment

INDENT = "    "


def explain_diff(name: str, plan: Plan, other_name: str, other: Plan) -> str:
    """Return a summary for each pipeline that changed, and a unified diff of both explanations."""
    parts: list[str] = []
    before = {pipeline.name: pipeline for pipeline in plan.pipelines}
    after = {pipeline.name: pipeline for pipeline in other.pipelines}
    for one in dict.fromkeys((*before, *after)):
        if one not in after:
            parts.append(f"pipeline {one} is gone\n")
        elif one not in before:
            parts.append(f"pipeline {one} is new\n")
        else:
            lines = _summary(plan, before[one], other, after[one])
            parts += (
                [f"pipeline {one}\n", *(f"{INDENT}{line}\n" for line in lines)] if lines else []
            )
    text, other_text = (explain(which).splitlines(keepends=True) for which in (plan, other))
    parts += unified_diff(text, other_text, name, other_name)
    return "".join(parts) or "both plans do the same\n"


def _summary(
    plan: Plan, pipeline: PipelinePlan, other: Plan, other_pipeline: PipelinePlan
) -> list[str]:
    """Return a line for each kind of thing that changed."""
    before, after = _segments(plan, pipeline), _segments(other, other_pipeline)
    lines: list[str] = []
    if list(before) != list(after):
        changes = [f"{name} is gone" for name in before if name not in after]
        changes += [f"{name} is new" for name in after if name not in before]
        what = "; ".join(changes) or "in another order"
        lines.append(f"segments  {len(before)} to {len(after)} ({what})")
    copies, other_copies = (_copies(one) for one in (pipeline, other_pipeline))
    lines += [f"copies    {copies} to {other_copies}"] if copies != other_copies else []
    lines += _peaks(plan, other, pipeline.name)
    for stage in before:
        if stage in after:
            lines += [
                f"{label:9} {stage}: {old} to {new}"
                for (label, old), (_, new) in zip(
                    _facts(before[stage]), _facts(after[stage]), strict=False
                )
                if old != new
            ]
    return lines


def _segments(plan: Plan, pipeline: PipelinePlan) -> dict[str, Segment]:
    """Return the segments of a pipeline that explain counts, by name, in order."""
    called = (plan.segments[number] for number in segments_of(pipeline.body))
    return {one.name: one for one in called if not isinstance(one, OpSegment)}


def _facts(segment: Segment) -> Sequence[tuple[str, str]]:
    """Return what a reader of a diff asks of a segment, in one order."""
    if isinstance(segment, OpSegment):
        return ()
    batching = describe_batching(segment.batching) if segment.batching is not None else ""
    served = ("served", " · ".join(describe_segment(segment)) or "by default")
    if not isinstance(segment, ModelSegment):
        return (("batch", batching or "batch off"), served)
    if not batching:
        batching = f"rows of a request up to {segment.group}" if segment.group > 1 else "batch off"
    return (
        ("batch", batching),
        ("backend", segment.backend),
        ("device", segment.device),
        served,
        ("model", segment.model[:12]),
    )


def _peaks(plan: Plan, other: Plan, pipeline: str) -> Iterable[str]:
    before, after = (
        {one.device: peak_text(one, alone=True) for one in which.memory if one.pipeline == pipeline}
        for which in (plan, other)
    )
    for device in sorted({*before, *after}):
        old, new = before.get(device, "nothing"), after.get(device, "nothing")
        if old != new:
            yield f"peak      {device} {old} to {new}"


def _copies(pipeline: PipelinePlan) -> str:
    copies = crossings_of(pipeline.body)
    return copies_text(copies).removeprefix("copies ") if copies else "none"
