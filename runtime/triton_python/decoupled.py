"""Models of Triton's Python backend that answer any number of times: two stages each.

What begins gives a handle, and what follows gives the next response for it, or says that there is
none.
"""

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from ...dsl.types import TensorType
from ..answers import answers_of, blank, handle_of
from ..context import Context
from ..rows import Rows
from .asked import Asked, Responses
from .stages import AGAIN, TritonStage, remark, run_of


class OpenStage(TritonStage):
    """Begins a request; its result is a handle of the responses."""

    def _execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        context = cast("Context", columns[-1].item(0))
        one = Asked(context, self._given(columns, 0, count))
        if self._iterations is not None:
            self._iterations.begin(one)
        for _ in range(AGAIN):
            run = run_of([one])
            run.asked[0] = one
            self._run(run)
            if run.answer is None or not run.answer.again:
                break
            if self._iterations is not None:
                self._iterations.follow(one)
        context.tell_end(one.responses.leave)
        return [Rows.shared(handle_of(one.responses), count)]


class NextStage(TritonStage):
    """Waits for the next response: whether there is one, and its outputs, zeros where not."""

    def ready(self, columns: Sequence[Rows], notify: Callable[[], object]) -> bool:
        """Whether there is something to give; else `notify` is called when there is."""
        return _responses(columns).ready(notify)

    def _execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        responses, context = _responses(columns), cast("Context", columns[-1].item(0))
        answer = responses.take(context.deadline)
        fields = self._segment.signature.results
        if answer is None:
            rest = [Rows.one(blank(cast("TensorType", field.type))) for field in fields[1:]]
            return [Rows.one(np.array(False)), *rest]
        remark(context, answer.parameters)
        told = {**answer.outputs, self._segment.output_names[0]: ("BOOL", np.array(True))}
        return self._columns(told, count, [])


def _responses(columns: Sequence[Rows]) -> Responses:
    return answers_of(columns, Responses, "open")
