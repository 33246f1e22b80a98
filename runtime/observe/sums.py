"""What the times of a request add up to.

    total = line + queue + compute - at once + between

`line` is before its walk began; `compute` the time in which runs held its rows, `queue` the rest of
the time from asking for a stage to having its results, both summed over all spans; `at_once` is
what spans overlap, because branches ran at the same time; `between` is the rest: headrace's own
steps, reading what came in, and waiting for a worker before and after.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from .recording import Recording, Span


@dataclass(frozen=True, slots=True)
class Sums:
    """In seconds."""

    total: float
    line: float
    queue: float
    compute: float
    at_once: float
    between: float


def until(span: Span, recording: Recording) -> float:
    """Return when a span was over: with its request, where it never got an answer."""
    if span.answered is not None:
        return span.answered
    return recording.ended if recording.ended is not None else recording.clock()


def compute_of(span: Span, end: float) -> float:
    """Return for how long runs held rows of a span."""
    return covered((part.run.start, min(part.run.stop, end)) for part in span.parts)


def sum_up(recording: Recording) -> Sums:
    """Return the sums of a request, up to now if it is not over."""
    end = recording.ended if recording.ended is not None else recording.clock()
    total = end - recording.begun
    begin = recording.begun
    if recording.lined:
        begin = recording.started if recording.started is not None else end
    line = begin - recording.begun
    spans = [(span, min(until(span, recording), end)) for span in recording.spans]
    compute = sum(compute_of(span, stop) for span, stop in spans)
    asked = sum(stop - span.asked for span, stop in spans)
    union = covered((span.asked, stop) for span, stop in spans)
    return Sums(total, line, asked - compute, compute, asked - union, total - line - union)


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Return for how long at least one of the intervals lasted."""
    length, reached = 0.0, float("-inf")
    for start, stop in sorted(intervals):
        length += max(0.0, stop - max(start, reached))
        reached = max(reached, stop)
    return length
