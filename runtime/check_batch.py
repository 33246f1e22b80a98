"""Compares what models give for rows alone with what they give for the same rows in one run.

Every model that can batch is run on rows of equal shape, and for each `pads` that it declares on
rows of different size, filled up. Rows are those that it is given when samples go
through its pipeline, else made up from its signature, the same ones every time. The order in which
floats are summed may depend on the batch: results count as equal up to the square root of their
dtype's precision, measured against 1 or the largest value of the row.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Final, TypeAlias, cast

import numpy as np

from ..compiler.plan import (
    Batching,
    ModelSegment,
    OpSegment,
    Padding,
    Pads,
    Plan,
    PythonSegment,
    Segment,
)
from ..dsl.types import DType, ListType, OptionalType, TensorType, Type
from .given_rows import Keep, observe
from .load import Stages
from .metrics import StageCell
from .rows import Rows, Value, as_array
from .stage import Stage, StageError
from .stand_ins import stand_ins

_PRECISION: Final = {DType.F16: 2**-10, DType.BF16: 2**-7, DType.F32: 2**-23, DType.F64: 2**-52}
_MOST: Final = 16  # rows of samples that are compared

Model: TypeAlias = ModelSegment | PythonSegment


@dataclass(frozen=True, slots=True)
class CheckConfig:
    """`rows` are made up of a model that no sample reaches, with `size` for sizes that are only
    named."""

    rows: int = 4
    size: int = 64


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one comparison. `declares` is "batch" or "pads L".

    `difference` is the largest between a row alone and the same row among `rows`, `first` the first
    row that differs too much, with its size. `reason` says why it does not hold, or, with
    `difference` None, why nothing was compared.
    """

    model: str
    declares: str
    rows: int
    difference: float | None = None
    first: str = ""
    reason: str = ""

    @property
    def holds(self) -> bool | None:
        """None when nothing was compared."""
        return None if self.difference is None else not self.first


def check_batch(
    plan: Plan,
    samples: Mapping[str, Mapping[str, object]],
    config: CheckConfig | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> tuple[Finding, ...]:
    """Return a finding for each declaration of the plan's models; the plan is to be unfused.

    `samples` are inputs of some pipelines by name. Raises LoadError when the plan does not load
    here, Fault when a sample does not run.
    """
    config = config or CheckConfig()
    plain: list[Segment] = [
        one if isinstance(one, OpSegment) else replace(one, batching=None) for one in plan.segments
    ]
    models: dict[tuple[str, str], tuple[int, Model]] = {}
    for index, one in enumerate(plain):
        if (name := _model(one)) is not None and not isinstance(one, OpSegment):
            models.setdefault((name, one.device), (index, one))
    wanted: list[tuple[int, Model, Pads | None]] = []
    for index, one in models.values():
        wanted += [(index, one, None), *((index, one, pads) for pads in one.pads)]
    runs = [*plain, *(_filling(one, pads) for _, one, pads in wanted)]
    stages = Stages(replace(plan, segments=tuple(runs)))
    try:
        given: dict[int, list[list[Value]]] = {}
        for name, inputs in samples.items():
            observe(plan, stages, name, [inputs], _keeping(given))
        found: list[Finding] = []
        for number, (index, one, pads) in enumerate(wanted):
            if progress is not None:
                progress(number, len(wanted), one.name)
            rows = given.get(index) or [
                stand_ins(one, config.size, seed) for seed in range(config.rows)
            ]
            comparing = _Comparison(one, pads, stages.all[index], stages.all[len(plain) + number])
            found.append(comparing.finding(rows[:_MOST]))
        return tuple(found)
    finally:
        stages.close()


def _model(segment: Segment) -> str | None:
    """Return what tells a model from others; None of what is none or takes one row."""
    match segment:
        case ModelSegment() if segment.stackable:
            return segment.model
        case PythonSegment() if segment.is_class and segment.batched:
            return f"{segment.source}:{segment.attribute}"
        case _:
            return None


def _filling(segment: Model, pads: Pads | None) -> Model:
    """Return the segment as a run of many rows; along `pads` of different size."""
    padding = Padding(pads.dim, None, None) if pads is not None else None
    return replace(segment, batching=Batching(_MOST, 0.0, (), padding))


def _keeping(given: dict[int, list[list[Value]]]) -> Keep:
    """Return what keeps the rows that come to each stage, by its number."""

    def keep(index: int, columns: Sequence[Rows], count: int) -> None:
        kept = given.setdefault(index, [])
        for row in range(min(count, _MOST - len(kept))):
            kept.append([column.item(row) for column in columns])

    return keep


class _Comparison:
    """Rows of one model, run alone by one stage and together by another."""

    def __init__(self, segment: Model, pads: Pads | None, alone: Stage, together: Stage) -> None:
        self._segment, self._pads = segment, pads
        self._alone, self._together = alone, together
        declares = f"pads {pads.dim}" if pads is not None else "batch"
        self._finding = partial(Finding, segment.name, declares)

    def finding(self, rows: list[list[Value]]) -> Finding:
        columns = [Rows.of(list(values)) for values in zip(*self._sized(rows), strict=True)]
        parts = self._together.split(columns, columns[0].count)
        most = max(parts, key=lambda one: sum(part.count for part in parts if part.key == one.key))
        parts = [part for part in parts if part.key == most.key]
        numbers = [row for part in parts for row in (part.rows or range(part.count))]
        sizes = [part.size for part in parts for _ in range(part.count)]
        if self._pads is not None and len(set(sizes)) < 2:
            return self._finding(len(numbers), reason="there are no rows of different size")
        if len(numbers) == 1:  # of its kind: it meets itself
            numbers, sizes = numbers * 2, sizes * 2
        return self._compared([column.take(numbers) for column in columns], sizes)

    def _compared(self, columns: Sequence[Rows], sizes: Sequence[int]) -> Finding:
        alone, refusal = dict[int, list[Rows]](), ""
        for i in range(len(sizes)):
            try:
                one = [column.part(i, i + 1) for column in columns]
                alone[i] = self._alone.run(one, 1, StageCell())
            except StageError as error:  # made up, it may have a size that the model does not take
                refusal = f"alone {error.message}"
        if not alone or (self._pads is not None and len({sizes[i] for i in alone}) < 2):
            return self._finding(len(sizes), reason=refusal)
        found = partial(self._finding, len(alone))
        some = [column.take(list(alone)) for column in columns]
        try:
            together = self._together.run_together(some, len(alone), StageCell())
        except StageError as error:
            return found(inf, "all", f"together {error.message}")
        largest, first, reason = 0.0, "", ""
        results = self._segment.signature.results
        for row, (i, own) in enumerate(alone.items()):
            for field, one, many in zip(results, own, together, strict=True):
                difference, allowed = _difference(field.type, one.item(0), many.item(row))
                largest = max(largest, difference)
                if difference > allowed and not first:
                    first = f"{row} ({self._pads.dim} = {sizes[i]})" if self._pads else str(row)
                    reason = f"`{field.name}` differs by {difference:.3g}"
        return found(largest, first, reason)

    def _sized(self, rows: list[list[Value]]) -> list[list[Value]]:
        """Return the rows, shortened along the dimension when they are all of one size."""
        pads = self._pads
        if pads is None:
            return rows
        where = [(i, axis) for i, axis in self._axes(pads) if rows[0][i] is not None]
        sizes = {as_array(row[i]).shape[axis] for row in rows for i, axis in where}
        if len(sizes) != 1:
            return rows
        count = max(len(rows), 2)
        longest = sizes.pop()
        wanted = dict.fromkeys(max(longest * (count - i) // count, 1) for i in range(count))
        shortened: list[list[Value]] = []
        for i, size in enumerate(wanted):
            row = list(rows[i % len(rows)])
            for index, axis in where:
                row[index] = as_array(row[index])[(slice(None),) * axis + (slice(size),)]
            shortened.append(row)
        return shortened

    def _axes(self, pads: Pads) -> Iterator[tuple[int, int]]:
        for index, field in enumerate(self._segment.signature.params):
            kind = _bare(field.type)
            for axis, dim in enumerate(kind.dims if isinstance(kind, TensorType) else ()):
                if dim == pads.dim:
                    yield index, axis


def _difference(kind: Type, alone: Value, together: Value) -> tuple[float, float]:
    """Return by how much two results differ at most, and by how much they may."""
    kind = _bare(kind)
    if isinstance(kind, ListType):
        items, others = (cast("Sequence[Value]", value) for value in (alone, together))
        if len(items) != len(others):
            return inf, 0.0
        found = [_difference(kind.item, *pair) for pair in zip(items, others, strict=True)]
        return max(found, key=lambda one: one[0] - one[1], default=(0.0, 0.0))
    one, other = as_array(alone), as_array(together)
    if one.shape != other.shape:
        return inf, 0.0
    dtype = cast("TensorType", kind).dtype  # a model gives nothing else
    if not dtype.is_number or not one.size:
        return float(not np.array_equal(one, other)), 0.0
    if not dtype.is_float:
        apart = one != other
        return float(
            np.abs(one[apart].astype(float) - other[apart].astype(float)).max(initial=0)
        ), 0.0
    left, right = one.astype(np.float64), other.astype(np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    apart = np.where(same, 0.0, np.abs(left - right))
    difference = float(np.nan_to_num(apart, nan=inf, posinf=inf).max())
    finite = np.abs(left[np.isfinite(left)])
    return difference, _PRECISION[dtype] ** 0.5 * max(1.0, float(finite.max(initial=0.0)))


def _bare(kind: Type) -> Type:
    return kind.item if isinstance(kind, OptionalType) else kind
