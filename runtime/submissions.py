"""Requests that are handed to the workers, and what their callers hold meanwhile."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from ..stdlib.op import Item
from .awaiting import leave_loop, return_to
from .calls import Calls
from .crew import Crew
from .inside import Inside
from .metrics import Metrics, Tally
from .pending import Pending
from .prepared import Prepared
from .present import nothing
from .request import EngineClosed, Fault, InSequence, Request, RequestError
from .rounds import Rounds
from .strands import opens
from .streams import Stream, require_stream
from .task import Task
from .threads import Workers

Result = TypeVar("Result")


class Submissions:
    """Those of one engine. `clock` tells deadlines."""

    def __init__(
        self,
        calls: Calls,
        metrics: Metrics,
        inside: Inside,
        clock: Callable[[], float],
        crew: Crew,
    ) -> None:
        self._calls, self._metrics, self._inside = calls, metrics, inside
        self._clock, self._crew = clock, crew

    def dispatch(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        make: Callable[[dict[str, Item]], Result],
        *,
        outputs: tuple[str, ...] | None = None,
        deadline: float | None = None,
        priority: int = 0,
        sequence: InSequence | None = None,
        request: Request | None = None,
        runs: bool = False,
        rounds: Rounds | None = None,
    ) -> Future[Result]:
        """Answer in a worker thread, and let its rows meet those of other requests; `make` turns
        the results by name into the future's result.

        Raises Fault at once when the request does not fit (INVALID) or there is no room
        (OVERLOADED); what fails later is the future's exception. Cancelling the future drops the
        work that has not begun.

        `priority` 1 is the highest; 0, not given, is the pipeline's default. Stages that ask for
        the request are told of `request`. `runs` says that this thread does nothing else until the
        answer is there: it runs what a worker would begin now. `rounds` are those in which it reads
        requests, if it does.
        """
        tally = self._inside.enter()
        try:
            workers = self._crew.started()
            pending = Pending(make, self)
            if pipeline.cheap and workers.quiet:
                # a hop to another thread would take longer than the request itself
                self._run(pending, pipeline, inputs, outputs, deadline, priority, request)
                return pending
            if pipeline.plan.stream:
                pending.gather(pipeline.names)
            try:
                self._admit(
                    workers,
                    pipeline,
                    inputs,
                    outputs,
                    pending,
                    deadline,
                    priority,
                    sequence,
                    request,
                    tally,
                    runs=runs,
                    rounds=rounds,
                )
            except Exception as error:
                self._calls.refuse(pipeline, error)
            return pending
        finally:
            self._inside.leave(tally)

    def _run(
        self,
        pending: Pending[Result],
        pipeline: Prepared,
        inputs: Mapping[str, object],
        outputs: tuple[str, ...] | None,
        deadline: float | None,
        priority: int,
        request: Request | None,
    ) -> None:
        """Answer in this thread; raises RequestError."""
        try:
            pending.give(
                self._calls.run(
                    pipeline,
                    inputs,
                    outputs,
                    deadline,
                    None,
                    request,
                    priority,
                    bounded=True,
                )
            )
        except (RequestError, EngineClosed):
            raise
        except Fault as fault:
            pending.fail(fault)

    def drop(self, task: Task) -> bool:
        """Take out a request whose caller has cancelled it; False when it is answered."""
        workers = self._crew.workers
        return workers is not None and workers.drop(task)

    def wait(self, task: Task, timeout: float | None) -> None:
        """Let the thread that waits for a request run it, if it has not begun; and if it waits in a
        stage, another have its place."""
        workers = self._crew.workers
        if workers is None:
            return
        if timeout is not None:
            workers.step_aside()
            return
        tally = self._metrics.tally()
        tally.inside += 1
        loop = leave_loop()
        try:
            workers.lend(task, tally)
        finally:
            return_to(loop)
            self._inside.leave(tally)

    def hurry(self) -> None:
        """Hear that somebody waits for an answer who does not run the request himself."""
        workers = self._crew.workers
        if workers is not None:
            workers.hurry()

    def open_stream(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        make: Callable[[dict[str, Item]], Result],
        notify: Callable[[], object],
        *,
        deadline: float | None = None,
        priority: int = 0,
        sequence: InSequence | None = None,
        request: Request | None = None,
    ) -> Stream[Result]:
        """Answer in a worker thread, one response after the other; `make` makes each of them.

        Raises at once what `dispatch` would. `notify` says that there is something to take.
        """
        tally = self._inside.enter()
        try:
            workers = self._crew.started()
            require_stream(pipeline.plan.name, pipeline.plan.stream)
            stream = Stream(make, notify, workers.drop, workers.resume)
            try:
                self._admit(
                    workers, pipeline, inputs, None, stream, deadline, priority, sequence, request
                )
            except Exception as error:
                self._calls.refuse(pipeline, error)
            if self._inside.ended:
                stream.wait_no_more()
            return stream
        finally:
            self._inside.leave(tally)

    def _admit(
        self,
        workers: Workers,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        outputs: tuple[str, ...] | None,
        answer: "Stream[Result] | Pending[Result]",
        deadline: float | None,
        priority: int,
        sequence: InSequence | None,
        request: Request | None,
        caller: Tally | None = None,
        *,
        runs: bool = False,
        rounds: Rounds | None = None,
    ) -> None:
        """Hand a request to the workers, unless it has no rows. `caller` is the tally of the thread
        that may come for the answer, or `runs` the request."""
        columns = pipeline.accept(inputs)
        block, presenters = pipeline.whole if outputs is None else pipeline.wanted(outputs)
        plan = pipeline.plan
        rows = 1 if plan.batch is None or not columns else columns[0].count
        if rows == 0:
            self._metrics.tally().pipelines[pipeline.index].count_nothing()
            answer.give(nothing(presenters))
            return
        now, flow, turn = self._clock(), pipeline.start(columns, block), None
        told = None
        if sequence is not None or pipeline.sequences is not None:
            _, turn = pipeline.ask(sequence)
            flow = pipeline.start_turn(turn, columns, block)
        if pipeline.told:
            due = pipeline.deadline(now, deadline)
            told = pipeline.context(request, priority, due, self._clock)
            flow = pipeline.tell(flow, told)
        task = Task(
            pipeline,
            flow,
            presenters,
            answer,
            deadline,
            priority,
            now,
            turn,
            pipeline.size(columns),
        )
        answer.task, task.rows, task.told = task, rows, told
        if request is not None:
            task.behind = request.behind
        if pipeline.awaits:
            task.wake = partial(workers.resume, task)
        task.ends = block.single and turn is None and not plan.stream
        task.opens = block.opens and opens(task)
        if caller is not None:
            task.came, caller.came = caller.came, 0
        try:
            workers.admit(task, caller if runs else None, rounds)
        except Fault:
            task.leave(False)
            raise
