"""Models of Triton's Python backend that answer any number of times: two stages each.

What begins gives a handle, and what follows gives the next response for it, or says that there is
none.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Final, cast

import numpy as np

from ...compiler.plan import ModelSegment
from ...dsl.types import TensorType
from ..answers import answers_of, blank, handle_of
from ..context import Context
from ..isolation.lease import Lease
from ..pump import Pump
from ..request import Code
from ..rows import Rows
from ..stage import Policy, StageError, StageGone
from ..units import Holding
from .asked import Asked, Responses
from .bound import Bound
from .iterative import Iterations
from .stages import AGAIN, TritonStage, remark, run_of

_LOG: Final = logging.getLogger(__name__)


class OpenStage(TritonStage):
    """Begins a request; its result is a handle of the responses. The model sends them while it
    executes, for as long as it likes, so one of `threads` stays with it, of which there are as many
    as instances."""

    def __init__(
        self,
        segment: ModelSegment,
        pool: Lease | Bound | None,
        policy: Policy | None,
        index: int,
        iterations: Iterations | None,
        threads: Sequence[Pump],
    ) -> None:
        super().__init__(segment, pool, policy, index, iterations)
        self._idle: SimpleQueue[Pump] = SimpleQueue()
        for one in threads:
            self._idle.put(one)

    def _execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        context = cast("Context", columns[-1].item(0))
        one = Asked(context, self._given(columns, 0, count))
        if self._iterations is not None:
            self._iterations.begin(one)
        thread = self._idle.get()
        context.tell_end(one.responses.leave)
        holding = context.share(self.name)
        thread.do(partial(self._answer, one, thread, holding))
        return [Rows.shared(handle_of(one.responses), count)]

    def _answer(self, one: Asked, thread: Pump, holding: Holding | None) -> None:
        """Let the model execute a request until it does not want it again; so long it has what it
        holds."""
        try:
            for _ in range(AGAIN):
                run = run_of([one])
                run.asked[0] = one
                self._run(run)
                if run.answer is None or not run.answer.again:
                    return
                if self._iterations is not None:
                    self._iterations.follow(one)
        except (StageError, StageGone) as error:
            one.responses.end(error)
        except Exception as error:  # ours: who reads is told, or would wait for ever
            _LOG.error("stage `%s`: a request cannot be begun", self.name, exc_info=error)
            one.responses.end(StageGone(Code.FAILED, f"{type(error).__name__}: {error}"))
        finally:
            self._idle.put(thread)
            if holding is not None:
                holding.leave()


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
