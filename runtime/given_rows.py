"""What comes to the stages of a plan when samples go through its pipelines, in this thread."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Final, TypeAlias, cast

import numpy as np

from ..compiler.plan import ModelSegment, Plan
from ..dsl.types import OptionalType, TensorType
from ..stdlib.dtypes import to_numpy
from ..stdlib.op import Array
from .context import Context
from .flow import Flow
from .in_sequence import first_of, initial_states, walk_in_sequence
from .inline import Inline
from .load import Stages
from .metrics import StageCell, Tally
from .prepared import Prepared
from .present import Presenter
from .rows import Rows, as_array
from .stage import Stage

Keep: TypeAlias = Callable[[int, Sequence[Rows], int], None]
"""Called with the number of a stage, the columns that it is given, and how many rows they have."""

Samples: TypeAlias = Mapping[str, Iterable[Sequence[Mapping[str, object]]]]
"""For pipelines by name: inputs of requests that follow each other, as one sequence where the
pipeline keeps state."""

_MOST_ROWS: Final = 128
_MOST_BYTES: Final = 256 << 20


def observe(
    plan: Plan,
    stages: Stages,
    name: str,
    requests: Sequence[Mapping[str, object]],
    keep: Keep,
) -> None:
    """Run requests of a pipeline one after the other; what its stages are given goes to `keep`.

    They have no deadline. Raises Fault where one does not run.
    """
    pipeline = plan.pipeline(name)
    observed = [cast("Stage", _Observed(stage, keep)) for stage in stages.all]
    prepared = Prepared(pipeline, 0, observed, stages.transfer, told=stages.told)
    block, presenters = prepared.wanted(None)
    states, first = initial_states(pipeline), first_of(pipeline)
    for number, inputs in enumerate(requests):
        columns = prepared.accept(inputs)
        if pipeline.idle is None:
            flow = prepared.start(columns, block)
        else:
            sequence, kept = replace(first, start=number == 0), (states, None)
            group = prepared.group(columns)
            flow = walk_in_sequence(
                pipeline, block, columns, sequence, lambda kept=kept: kept, stages.transfer, group
            )
        flow = prepared.tell(flow, Context() if prepared.told else None)
        inline = Inline(prepared, Tally(1, len(observed)), perf_counter, None)
        if pipeline.stream:
            results = _ended(inline, flow, presenters)
        else:
            results = inline.finish(flow)
        left = results[len(results) - len(pipeline.states) :]
        states = [cast("Array", column.item(0)) for column in left]  # on the host, as all is here


def model_rows(
    plan: Plan, samples: Samples, wanted: frozenset[str]
) -> dict[str, list[dict[str, Array]]]:
    """Return what some models, known by their digests, were given by samples: for each execution of
    a row the arrays by the file's own names, a batch of one where it has an axis.

    Of many rows some are kept, evenly. Raises Fault where a sample does not run.
    """
    kept = {digest: _Thinned() for digest in sorted(wanted)}
    stages = Stages(plan)

    def keep(index: int, columns: Sequence[Rows], count: int) -> None:
        segment = plan.segments[index] if index < len(plan.segments) else None
        if isinstance(segment, ModelSegment) and segment.model in kept:
            for row in range(count):
                kept[segment.model].add(_feeds(segment, columns, row))

    try:
        for name, sequences in samples.items():
            for requests in sequences:
                observe(plan, stages, name, requests, keep)
    finally:
        stages.close()
    return {digest: one.rows for digest, one in kept.items() if one.rows}


@dataclass(slots=True)
class _Thinned:
    """The first rows, or when these are too many every second, fourth, ... of all."""

    rows: list[dict[str, Array]] = field(default_factory=list[dict[str, Array]])
    _stride: int = 1
    _seen: int = 0
    _bytes: int = 0

    def add(self, row: dict[str, Array]) -> None:
        if self._seen % self._stride == 0:
            self.rows.append(row)
            self._bytes += _size(row)
        self._seen += 1
        while len(self.rows) > _MOST_ROWS or (self._bytes > _MOST_BYTES and len(self.rows) > 1):
            self.rows = self.rows[::2]
            self._stride *= 2
            self._bytes = sum(map(_size, self.rows))


class _Observed:
    """A stage that tells what it is given."""

    def __init__(self, stage: Stage, keep: Keep) -> None:
        self.name, self.index, self.policy = stage.name, stage.index, stage.policy
        self.run_together, self.split = stage.run_together, stage.split
        self._stage, self._keep = stage, keep

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        self._keep(self.index, columns, count)
        return self._stage.run(columns, count, cell)


def _ended(inline: Inline, flow: Flow, presenters: Sequence[Presenter]) -> list[Rows]:
    """Run the flow of a stream to its end; what it emits is nobody's."""
    emitted = inline.emitted(flow, presenters)
    while True:
        try:
            next(emitted)
        except StopIteration as stop:
            return stop.value


def _feeds(segment: ModelSegment, columns: Sequence[Rows], row: int) -> dict[str, Array]:
    found: dict[str, Array] = {}
    fields = zip(segment.input_names, segment.signature.params, segment.input_axes, strict=True)
    for (name, param, axis), column in zip(fields, columns, strict=False):
        value = column.item(row)
        kind = param.type.item if isinstance(param.type, OptionalType) else param.type
        if value is None or not isinstance(kind, TensorType):
            continue
        array = np.array(as_array(value, to_numpy(kind.dtype)))
        found[name] = array if axis is None else np.expand_dims(array, axis)
    return found


def _size(row: Mapping[str, Array]) -> int:
    return sum(array.nbytes for array in row.values())
