"""What models are calibrated with: rows that they were given, or ranges that were found of some.

An entry is of a model's bytes, a precision and a method, so that no range outlives what it was
taken of.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ...stdlib.op import Array
from .report import Figures, Method, Precision

Row: TypeAlias = Mapping[str, Array]
"""What a model was given once, by the file's own names: a batch of one where there is an axis."""

Recorder: TypeAlias = Callable[[frozenset[str]], Mapping[str, Sequence[Row]]]
"""Runs the samples that there are through the source as written, in f32, and gives the rows that
came to each of some models, which are known by the digests of their files."""


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the greatest value that a tensor had."""

    tensor: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What was found of one model on `rows`; `stage` is for people."""

    model: str  # digest of the file
    stage: str
    precision: Precision
    method: Method
    rows: int
    ranges: tuple[Range, ...]
    figures: Figures | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was found of the models of a source."""

    models: tuple[Calibrated, ...] = ()

    def find(self, model: str, precision: Precision, method: Method) -> Calibrated | None:
        wanted = (model, precision, method)
        same = (one for one in self.models if (one.model, one.precision, one.method) == wanted)
        return next(same, None)


NOTHING = Calibration()


@dataclass(frozen=True, slots=True)
class Calibrating:
    """What a compilation may calibrate with: what was `found` before, else the rows of `record`.

    With `tolerance` it is a mistake when a result is off by more than that share of the largest.
    """

    found: Calibration = NOTHING
    record: Recorder | None = None
    tolerance: float | None = None


NO_DATA = Calibrating()
