"""Models of Triton's Python backend that answer any number of times: two stages each.

What begins gives a handle, and what follows gives the next response for it, or says that there is
none.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
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
from .asked import Asked, Responses
from .bound import Bound
from .config import Shapes
from .iterative import Iterations
from .rotation import Rotation
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
        shapes: Shapes,
    ) -> None:
        super().__init__(segment, pool, policy, index, iterations, shapes)
        self._idle: SimpleQueue[Pump] = SimpleQueue()
        for one in threads:
            self._idle.put(one)
        self._rotation = (
            None if iterations is None else Rotation(threads[0], iterations.most, self._turn)
        )

    def _execute(self, columns: Sequence[Rows], count: int) -> list[Rows]:
        context = cast("Context", columns[-1].item(0))
        one = Asked(context, self._given(columns, 0, count))
        context.tell_end(one.responses.leave)
        if self._iterations is not None and self._rotation is not None:
            self._iterations.begin(one)
            one.holding = context.share(self.name)
            self._rotation.add(one)
        else:
            thread = self._idle.get()
            one.holding = context.share(self.name)
            thread.do(partial(self._answer, one, thread))
        return [Rows.shared(handle_of(one.responses), count)]

    def _turn(self, requests: Sequence[Asked]) -> Sequence[Asked]:
        """Let the model execute requests once; return those that it wants again, and whose callers
        have not gone."""
        iterations = self._iterations
        assert iterations is not None
        run, again = run_of(requests), list[Asked]()
        run.asked = dict(enumerate(requests))
        try:
            with self._failing(requests):
                self._run(run)
                wanted = () if run.answer is None else run.answer.again
                again = [
                    one for i, one in run.asked.items() if i in wanted and not one.context.over
                ]
                for one in again:
                    iterations.follow(one)
            return again
        finally:
            for one in requests:
                if one not in again:
                    one.leave()

    def _answer(self, one: Asked, thread: Pump) -> None:
        """Let the model execute a request until it does not want it again; so long it has what it
        holds."""
        try:
            with self._failing([one]):
                for _ in range(AGAIN):
                    run = run_of([one])
                    run.asked[0] = one
                    self._run(run)
                    if run.answer is None or not run.answer.again:
                        return
        finally:
            self._idle.put(thread)
            one.leave()

    @contextmanager
    def _failing(self, requests: Sequence[Asked]) -> Generator[None, None, None]:
        """Tell those who read the responses to requests where these fail."""
        try:
            yield
        except (StageError, StageGone) as error:
            for one in requests:
                one.responses.end(error)
        except Exception as error:  # ours: who reads is told, or would wait for ever
            _LOG.error("stage `%s`: a request cannot be begun", self.name, exc_info=error)
            for one in requests:
                one.responses.end(StageGone(Code.FAILED, f"{type(error).__name__}: {error}"))


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
