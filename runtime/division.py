"""How many threads a run of each model may take, so that runs at one time do not fight for cores.

A run takes the thread that asks for it and may be helped by those of its session, of which there
is one per model however many runs it serves at once. So cores that no worker needs are divided
among the sessions that can run at one time:

    threads = 1 + (cores - runs at once) / sessions that run at once

and with every worker in a model and every session helped, there are never more threads than cores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from ..compiler.plan import ModelSegment, OpSegment, Segment


@dataclass(frozen=True, slots=True)
class Share:
    """One run may take `threads` of `cores`, of those numbered `cpus` where there are any; with
    `spin` threads that wait do so busily."""

    threads: int
    cores: int
    spin: bool = False
    cpus: tuple[int, ...] = ()

    def __str__(self) -> str:
        on = f", on {', '.join(map(str, self.cpus))}" if self.cpus else ""
        return f"threads {self.threads} of {self.cores} cores{on}"


def divide(
    segments: Sequence[Segment], cores: int, workers: int, threads: int | None = None
) -> list[Share | None]:
    """Return the share of each segment, None for those that are no models, or kernels.

    `threads` is what a run may take where its schedule does not say, None to divide the cores.
    """
    models = len({_session(one) for one in segments if _is_model(one)})
    at_once = runs_at_once(segments, workers)
    if threads is None:
        threads = 1 + max(0, cores - at_once) // max(1, min(models, at_once))
    spin = models == 1 and workers == 1  # one that spins takes a core from all others
    return [
        Share(_threads(one, threads), cores, spin, one.service.cpus) if _is_model(one) else None
        for one in segments
    ]


def runs_at_once(segments: Sequence[Segment], workers: int) -> int:
    """Return how many stages the workers can run at one time."""
    most = 0
    for segment in segments:
        bound = None if isinstance(segment, OpSegment) else segment.instances
        most += workers if bound is None else bound
    return max(1, min(workers, most)) if segments else workers


def _is_model(segment: Segment) -> TypeGuard[ModelSegment]:
    return isinstance(segment, ModelSegment) and segment.kind != "kernel"


def _threads(segment: ModelSegment, threads: int) -> int:
    if segment.service.threads is not None:
        return segment.service.threads
    cpus = len(segment.service.cpus)
    return min(threads, cpus) if cpus else threads


def _session(segment: ModelSegment) -> tuple[object, ...]:
    return segment.model, segment.device, segment.service.cpus
