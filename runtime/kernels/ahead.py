"""Kernels of a plan built ahead, for GPUs that need not be here: the code travels in the plan."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from ...compiler.kernel_file import Image, Kernel, read, to_bytes
from ...compiler.plan import ModelSegment, Plan, Segment
from .nvrtc import find_nvrtc


def kernels_of(plan: Plan) -> Iterator[tuple[ModelSegment, Kernel]]:
    """Yield the kernels of a plan with their segments."""
    blobs = dict(plan.blobs)
    for segment in plan.segments:
        if isinstance(segment, ModelSegment) and segment.kind == "kernel":
            yield segment, read(blobs[segment.model])


def with_code(plan: Plan, architectures: Sequence[str], cuda: int | None = None) -> Plan:
    """Return the plan with code for GPUs of these architectures, instead of what it has; raises
    LoadError where nothing here makes code for one."""
    blobs = dict(plan.blobs)
    made: dict[str, str] = {}
    for segment, kernel in kernels_of(plan):
        if segment.model in made:
            continue
        images = tuple(
            Image.of(one, find_nvrtc(one, cuda).build(kernel.text, one)) for one in architectures
        )
        content = to_bytes(replace(kernel, images=images))
        made[segment.model] = sha256(content).hexdigest()
        del blobs[segment.model]
        blobs[made[segment.model]] = content

    def moved(segment: Segment) -> Segment:
        if isinstance(segment, ModelSegment) and segment.model in made:
            return replace(segment, model=made[segment.model])
        return segment

    return replace(
        plan, segments=tuple(map(moved, plan.segments)), blobs=tuple(sorted(blobs.items()))
    )
