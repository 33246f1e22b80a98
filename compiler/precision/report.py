"""What became of a model under another precision: how, how much smaller, how far off."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np

from ...stdlib.op import Array
from ..policy_text import size_text

Results: TypeAlias = Sequence[Array]
"""What a model gives for one row."""

_MOST_KEPT = 2
"""So many nodes that stayed in f32 are named one by one."""


class Precision(Enum):
    """What a schedule may ask for; without it a model runs as its file has it."""

    INT8 = "int8"
    FP16 = "fp16"
    BF16 = "bf16"


class Method(Enum):
    """How a model is rewritten; the value is what is said of it."""

    STATIC = "ranges by calibration"
    SYMMETRIC = "symmetric ranges by calibration"  # as TensorRT wants them
    DYNAMIC = "ranges taken at each run"
    HALF = "weights and inner tensors"
    WEIGHTS = "weights only, computed in f32"  # where no processor has the ops


@dataclass(frozen=True, slots=True)
class Figures:
    """How far float results are off those in f32, over all rows. `peak` is the largest of those in
    absolute value, `other` how many results that are no floats differ."""

    largest: float
    mean: float
    cosine: float
    peak: float
    other: int = 0

    @property
    def share(self) -> float:
        """The largest difference, measured against the largest result."""
        return self.largest / self.peak if self.peak else self.largest


@dataclass(frozen=True, slots=True)
class Kept:
    """Nodes that stay in f32, and why."""

    reason: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A model in another precision: its bytes `before` and `after`, compared on `rows`."""

    stage: str
    precision: Precision
    method: Method
    before: int
    after: int
    rows: int
    figures: Figures | None
    kept: tuple[Kept, ...] = ()
    note: str = ""


def compare(plain: Sequence[Results], other: Sequence[Results]) -> Figures | None:
    """Return the figures of rows in two precisions; None where there is no row to compare."""
    largest = total = product = norm = other_norm = peak = 0.0
    count = differ = 0
    for one, two in _pairs(plain, other):
        if one.dtype.kind != "f":
            differ += int(np.sum(one != two)) if one.shape == two.shape else one.size
            continue
        if one.shape != two.shape:  # what is found in a row may be of another number
            differ += max(one.size, two.size)
            continue
        left, right = one.astype(np.float64).ravel(), two.astype(np.float64).ravel()
        apart = np.where(_same(left, right), 0.0, np.abs(left - right))
        apart = np.nan_to_num(apart, nan=np.inf, posinf=np.inf)
        finite = np.isfinite(left) & np.isfinite(right)
        largest = max(largest, float(apart.max(initial=0.0)))
        total, count = total + float(apart.sum()), count + apart.size
        peak = max(peak, float(np.abs(left[np.isfinite(left)]).max(initial=0.0)))
        product += float(left[finite] @ right[finite])
        norm += float(left[finite] @ left[finite])
        other_norm += float(right[finite] @ right[finite])
    if not count and not differ:
        return None
    scale = (norm * other_norm) ** 0.5
    cosine = product / scale if scale else float(norm == other_norm)
    return Figures(largest, total / count if count else 0.0, cosine, peak, differ)


def describe(one: Rewritten) -> str:
    """Return what became of a model, as explain and `compile` say it."""
    parts = [f"{one.precision.value}: {one.method.value}", _accuracy(one)]
    parts.append(f"{size_text(one.before)} to {size_text(one.after)}")
    parts += [_kept(kept) for kept in one.kept]
    parts += [one.note] if one.note else []
    return "; ".join(parts)


def _accuracy(one: Rewritten) -> str:
    if one.figures is None:
        return "not compared: there are no rows to compare with"
    found = one.figures
    text = (
        f"off by at most {found.largest:.3g} of {found.peak:.3g}, in the mean {found.mean:.3g}, "
        f"cosine {found.cosine:.6f} on {one.rows} row{'' if one.rows == 1 else 's'}"
    )
    return text + (f", {found.other} other results differ" if found.other else "")


def _kept(kept: Kept) -> str:
    named = ", ".join(kept.nodes[:_MOST_KEPT])
    more = len(kept.nodes) - _MOST_KEPT
    return f"in f32 {named}{f' and {more} more' if more > 0 else ''} ({kept.reason})"


def _pairs(plain: Sequence[Results], other: Sequence[Results]) -> Iterable[tuple[Array, Array]]:
    for one, two in zip(plain, other, strict=True):
        yield from zip(one, two, strict=True)


def _same(left: Array, right: Array) -> Array:
    return (left == right) | (np.isnan(left) & np.isnan(right))
