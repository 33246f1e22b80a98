"""A stage that is a stdlib op, run row by row through its reference implementation."""

from collections.abc import Sequence
from time import perf_counter
from typing import cast

from ..compiler.plan import OpSegment
from ..stdlib.op import Item, Op
from .metrics import StageCell
from .rows import Constant, Rows, Value
from .stage import Part, StageError


class OpStage:
    """Literals of the plan reach the op as they are written, so that it can give them a dtype."""

    policy = None

    def __init__(self, segment: OpSegment, op: Op, index: int) -> None:
        self.name, self.index = segment.name, index
        self._reference = op.reference
        self._width = len(segment.results)

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        start = perf_counter()
        if self._width == 1:
            results = [Rows.of([self._call(columns, row) for row in range(count)])]
        else:
            rows = [cast("tuple[Item, ...]", self._call(columns, row)) for row in range(count)]
            results = [Rows.of(list[Value](items)) for items in zip(*rows, strict=True)]
        cell.record(count, perf_counter() - start)
        return results

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        return self.run(columns, count, cell)

    def split(self, columns: Sequence[Rows], count: int) -> list[Part]:
        return [Part(None, None, tuple(columns), count)]

    def _call(self, columns: Sequence[Rows], row: int) -> Item:
        arguments = [
            column.literal if isinstance(column, Constant) else column.item(row)
            for column in columns
        ]
        try:
            # an op with several results gives a tuple of items, which `run` takes apart
            return cast("Item", self._reference(*arguments))
        except Exception as error:
            raise StageError(f"{type(error).__name__}: {error}", row) from error
