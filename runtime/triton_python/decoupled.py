"""Models of Triton's Python backend that answer any number of times: two stages each.

What begins gives a handle, and what follows gives the next response for it, or says that there is
none.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ...dsl.types import DType, TensorType
from ...stdlib.dtypes import to_numpy
from ...stdlib.op import Array
from ..context import Context
from ..rows import Rows, Value
from ..stage import StageError
from .asked import Asked, Responses
from .stages import AGAIN, TritonStage, remark, run_of


class Handle(np.ndarray[Any, Any]):
    """A number that stands for the responses of a request; they go with the last who has it."""

    responses: Responses


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
        handle = np.array(0, np.int64).view(Handle)
        handle.responses = one.responses
        context.tell_end(one.responses.leave)
        return [Rows.shared(cast("Value", handle), count)]


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
            rest = [Rows.one(_blank(cast("TensorType", field.type))) for field in fields[1:]]
            return [Rows.one(np.array(False)), *rest]
        remark(context, answer.parameters)
        told = {**answer.outputs, self._segment.output_names[0]: ("BOOL", np.array(True))}
        return self._columns(told, count, [])


def _responses(columns: Sequence[Rows]) -> Responses:
    handle = columns[0].item(0)
    if not isinstance(handle, Handle):
        raise StageError("what it is given was not made by the `open` of its model")
    return handle.responses


def _blank(kind: TensorType) -> Array:
    shape = tuple(dim if isinstance(dim, int) else 0 for dim in kind.dims)
    if kind.dtype in (DType.STRING, DType.BYTES):
        return np.full(shape, "" if kind.dtype is DType.STRING else b"", object)
    return np.zeros(shape, to_numpy(kind.dtype))
