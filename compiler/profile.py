"""What models took on a machine: by which the compiler decides where rows had better meet.

`runtime/measure.py` makes one, `profile_file.py` writes and reads it. A model is known by the
digest of its bytes as they run, fused, so that no figure outlives what it was taken of.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """Where figures were taken. `threads` is how many one run of a model may use."""

    processor: str
    cores: int
    runtime: str  # "onnxruntime 1.23.2"
    threads: int


@dataclass(frozen=True, slots=True)
class Timing:
    """The median time of an execution of `rows` rows."""

    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelTimes:
    """The times of a model on a device, by rising rows, the first of one row.

    `inputs` are the shapes of one row that they were taken with; `stopped` says why there are no
    times of more rows.
    """

    model: str  # digest
    stage: str  # that runs it, for people
    device: str
    inputs: tuple[str, ...]
    timings: tuple[Timing, ...]
    stopped: str | None = None

    @property
    def alone(self) -> float:
        """Seconds of a row that runs by itself."""
        return self.timings[0].seconds

    @property
    def best(self) -> Timing | None:
        """The batch that gains most, although it may lose; None when no batch was measured."""
        return max(self.timings[1:], key=self.gain, default=None)

    def gain(self, timing: Timing) -> float:
        """Return how many times as fast rows are in a batch: above 1 it pays."""
        return self.alone * timing.rows / timing.seconds


@dataclass(frozen=True, slots=True)
class StageTime:
    """What a stage took in one request on the samples, all its rows together."""

    pipeline: str
    stage: str
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Profile:
    """Figures of one machine. `stages` is empty when nothing but models was measured."""

    machine: Machine
    models: tuple[ModelTimes, ...]
    stages: tuple[StageTime, ...] = ()

    def model(self, digest: str, device: str) -> ModelTimes | None:
        """Return the times of a model on a device."""
        found = (one for one in self.models if (one.model, one.device) == (digest, device))
        return next(found, None)

    def of(self, pipeline: str) -> tuple[StageTime, ...]:
        """Return what the stages of a pipeline took, in the order in which they first ran."""
        return tuple(one for one in self.stages if one.pipeline == pipeline)


def seconds_text(seconds: float) -> str:
    """Return a time with three digits, as `1.93 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def gain_text(times: ModelTimes) -> str:
    """Return what batching was found to gain, as `measured 0.97x at 8`."""
    best = times.best
    if best is None:
        return f"measured alone only: {times.stopped}" if times.stopped else "measured alone only"
    return f"measured {times.gain(best):.2f}x at {best.rows}"
