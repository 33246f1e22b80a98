"""A model that schedules requests anew (`iterative_sequence`), behind a queue.

`execute` is called once for a batch. What it wants again goes back into the queue, ahead of what
has not begun, told of how far it has come; so it meets others there, new ones too.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

from ..context import Context
from ..metrics import StageCell
from ..request import InSequence
from ..rows import Rows, Value
from ..stage import timed_run
from .asked import Asked
from .iterative import following
from .stages import TritonStage, outcomes_of, run_of


class Going(NamedTuple):
    """In place of the context of a request: that, and where in its sequence it is."""

    context: Context
    sequence: InSequence


class IteratingStage(TritonStage):
    """One whose rows may run again."""

    def run_together(self, columns: Sequence[Rows], count: int, cell: StageCell) -> list[Rows]:
        return timed_run(_Once(self), columns, count, cell)

    def execute_once(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        """Let the model execute requests; raises RowsFailed with what it wants again."""
        iterations = self._iterations
        assert iterations is not None
        spans = told_of(columns[-1], count)
        requests: list[Asked] = []
        for start, stop, context, sequence in spans:
            one = Asked(context, self._given(columns, start, stop))
            iterations.begin(one, sequence)
            requests.append(one)
        outcomes = outcomes_of(self._run(run_of(requests)))
        again: dict[int, Value] = {}
        for (start, stop, context, _), one, outcome in zip(spans, requests, outcomes, strict=True):
            if outcome is None:
                going = cast("Value", Going(context, following(one)))
                again |= dict.fromkeys(range(start, stop), going)
        return self._apart(columns, [span[:3] for span in spans], outcomes, again)


class _Once:
    """Executes once what its stage would go on with."""

    def __init__(self, stage: IteratingStage) -> None:
        self._stage = stage

    def execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        return self._stage.execute_once(columns, count)


def told_of(told: Rows, count: int) -> list[tuple[int, int, Context, InSequence | None]]:
    """Return the rows of each request, whose they are, and in which sequence if it has begun."""
    values = [cast("Context | Going", told.item(row)) for row in range(count)]
    starts = [row for row in range(count) if row == 0 or values[row] is not values[row - 1]]
    spans: list[tuple[int, int, Context, InSequence | None]] = []
    for start, stop in zip(starts, [*starts[1:], count], strict=True):
        one = values[start]
        if isinstance(one, Going):
            spans.append((start, stop, one.context, one.sequence))
        else:
            spans.append((start, stop, one, None))
    return spans
