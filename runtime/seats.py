"""Batches in which a sequence has a row of its own: the strategy *direct*.

A model that keeps something itself, row by row, must find a sequence in the same row at every run.
So a stage with a queue always runs as many rows as there are places, and the row of a place whose
sequence has sent nothing is blank: zeros, of which `sequence.ready` is `false`. The place of a row
travels as one column more, behind those of the stage, which nothing but a SeatedStage sees. Rows of
a `for` have no place and run as anywhere else.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from .context import Context
from .devices.device import View
from .flow import Asked, Emission, Fallback, Flow, Fork, Work
from .metrics import StageCell
from .rows import Constant, Rows, Value
from .stage import Part, Stage, StageError


class Seat(NamedTuple):
    """A place by its number, as a value of a column that no stage of a plan has."""

    number: int


class SeatedStage:
    """A stage of a pipeline with so many `places`. `common` are the numbers of the inputs without
    a batch axis, which all rows of a batch have in common, blank ones too."""

    def __init__(self, stage: Stage, places: int, common: Collection[int] = ()) -> None:
        self.name, self.index, self.policy = stage.name, stage.index, stage.policy
        self._stage, self._places, self._common = stage, places, common

    def run(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        if not _seated(columns):
            return self._stage.run(columns, count, cell)
        return self.run_together(columns, count, cell)

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        if not _seated(columns):
            return self._stage.run_together(columns, count, cell)
        numbers = [cast("Seat", seat).number for seat in columns[-1].items()]
        rounds = [self._round(columns[:-1], numbers, rows, cell) for rows in _rounds(numbers)]
        if len(rounds) == 1:
            return rounds[0][1]
        order = np.argsort([row for rows, _ in rounds for row in rows])
        results = zip(*(results for _, results in rounds), strict=True)
        return [
            Rows.of([item for one in pieces for item in one.items()]).take(order.tolist())
            for pieces in results
        ]

    def split(self, columns: Sequence[Rows], count: int) -> list[Part]:
        if not _seated(columns):
            return self._stage.split(columns, count)
        (part,) = self._stage.split(columns[:-1], count)
        # a row without a place, as of a `for`, meets others of its kind
        return [replace(part, key=(Seat, part.key), columns=(*part.columns, columns[-1]))]

    def _round(
        self, columns: Sequence[Rows], numbers: Sequence[int], rows: Sequence[int], cell: StageCell
    ) -> tuple[Sequence[int], list[Rows]]:
        """Run rows of which no two are of one place."""
        own = [numbers[row] for row in rows]
        spread = [
            column.take([rows[0]] * self._places)
            if number in self._common
            else _spread(column.take(rows), own, self._places)
            for number, column in enumerate(columns)
        ]
        try:
            results = self._stage.run_together(spread, self._places, cell)
        except StageError as error:
            if error.row is None:
                raise
            row = rows[own.index(error.row)] if error.row in own else None
            raise StageError(error.message, row) from error
        cell.rows -= self._places - len(own)  # blank ones are nobody's
        return rows, [column.take(own) for column in results]


def seated(flow: Flow, seat: Seat) -> Flow:
    """Return the walk of a request whose works of one row have a place in a batch."""
    try:
        asked = next(flow)
        while True:
            try:
                results = yield _with_seat(asked, seat)
            except Exception as error:
                asked = flow.throw(error)
            else:
                silent = isinstance(asked, Emission | Fallback)
                asked = next(flow) if silent else flow.send(results)
    except StopIteration as stop:
        return stop.value


def _with_seat(asked: Asked, seat: Seat) -> Asked:
    if isinstance(asked, Fork):
        return Fork([seated(flow, seat) for flow in asked.flows], asked.group)
    if not isinstance(asked, Work) or not isinstance(asked.stage, SeatedStage):
        return asked
    group = asked.group
    while group.parent is not None and group.positions is None:
        group = group.parent
    if group.positions is not None:
        return asked
    place = Rows.one(cast("Value", seat))
    return Work(asked.stage, [*asked.columns, place], asked.group, asked.place)


def _seated(columns: Sequence[Rows]) -> bool:
    return bool(columns) and isinstance(columns[-1].item(0), Seat)


def _rounds(numbers: Sequence[int]) -> list[list[int]]:
    """Divide rows so that no two of one place are together: one place may be asked for twice where
    a pipeline calls a model in parts that run at the same time."""
    rounds: list[dict[int, int]] = []
    for row, number in enumerate(numbers):
        free = next((one for one in rounds if number not in one), None)
        if free is None:
            rounds.append({number: row})
        else:
            free[number] = row
    return [list(one.values()) for one in rounds]


def _spread(column: Rows, numbers: Sequence[int], places: int) -> Rows:
    """Return a column with each row at its number, and blank rows between."""
    if isinstance(column, Constant) or list(numbers) == list(range(places)):
        return column if column.count == places else column.take([0] * places)
    items = [_blank(column.item(0))] * places
    for number, item in zip(numbers, column.items(), strict=True):
        items[number] = item
    return Rows.of(items)


def _blank(item: Value) -> Value:
    if isinstance(cast("object", item), Context):
        return cast("Value", Context())
    match item:
        case View():
            device, stream = item.buffer.device, item.ready.stream
            return device.zeros(item.shape, item.dtype, item.stage, stream)
        case np.ndarray():
            return np.full_like(item, "" if item.dtype.hasobject else 0)
        case np.generic():
            return cast("Value", np.zeros((), item.dtype)[()])
        case str() | bytes() | list():
            return type(item)()
        case None:
            return None
