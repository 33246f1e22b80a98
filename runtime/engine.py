"""The engine: a plan, loaded, that answers requests; where front ends and the core meet.

`call` runs a request in the caller's thread without a queue or a lock. `submit` hands it to the
worker threads of `threads.py`, which are started at the first use.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import NoReturn, TypeVar

from ..compiler.plan import Plan
from ..stdlib.op import Item
from .blame import blame, late, own_fault
from .flow import FREED, Block, Flow, Group, Work
from .load import Progress, Stages
from .metrics import Metrics, Snapshot, Tally
from .pending import Pending
from .prepared import Prepared, nothing, present
from .request import Code, Fault, Request, RequestError, Response
from .rows import Rows
from .scheduler import Scheduler
from .task import Task
from .threads import Workers

Result = TypeVar("Result")

CHEAP_SECONDS = 200e-6
"""Below this a hop to another thread costs about as much as the request."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """`workers` threads run what is submitted (None: one a core); `intra_op_threads` are those of
    one model run (None: the cores divided by the workers). `queue_size` bounds the requests of
    one pipeline that wait to start, where its schedule says nothing. `clock` is monotonic, in
    seconds; deadlines are told on it."""

    workers: int | None = None
    intra_op_threads: int | None = None
    queue_size: int = 1024
    clock: Callable[[], float] = time.monotonic

    def resolved(self) -> tuple[int, int]:
        """Return the numbers of workers and of threads for a model."""
        cores = len(os.sched_getaffinity(0))
        workers = self.workers if self.workers is not None else cores
        return workers, self.intra_op_threads or max(1, cores // workers)


class Engine:
    """Loads what a plan needs; `close` gives it back. Calls may come from any thread."""

    def __init__(
        self,
        plan: Plan,
        config: EngineConfig | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        self.plan = plan
        self.config = config or EngineConfig()
        workers, threads = self.config.resolved()
        self._clock = self.config.clock
        self._stages = Stages(plan, threads, alone=workers == 1, progress=progress)
        self._pipelines = {
            pipeline.name: Prepared(pipeline, i, self._stages.all, self._stages.transfer)
            for i, pipeline in enumerate(plan.pipelines)
        }
        self._metrics = Metrics(
            [pipeline.name for pipeline in plan.pipelines],
            [stage.name for stage in self._stages.all],
        )
        self._closed = False
        self._starting = threading.Lock()
        self._workers: Workers | None = None

    def call(self, request: Request) -> Response:
        """Answer in this thread; raises Fault."""
        pipeline = self.pipeline(request.pipeline)
        outputs = self.run(pipeline, request.inputs, request.outputs, request.deadline)
        return Response(request.id, outputs)

    def pipeline(self, name: str) -> Prepared:
        """Return a pipeline ready to run; raises Fault NOT_FOUND."""
        found = self._pipelines.get(name)
        if found is None:
            known = ", ".join(f"`{one}`" for one in self._pipelines)
            raise Fault(Code.NOT_FOUND, f"there is no pipeline `{name}`; this plan has {known}")
        return found

    def run(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        outputs: tuple[str, ...] | None = None,
        deadline: float | None = None,
    ) -> dict[str, Item]:
        """Answer in this thread with the results by name; raises Fault."""
        if self._closed:
            raise Fault(Code.UNAVAILABLE, "the engine takes no more requests")
        tally = self._metrics.tally()
        start = perf_counter()
        try:
            columns = pipeline.accept(inputs)
            block, presenters = pipeline.wanted(outputs)
            if pipeline.plan.batch is not None and columns and columns[0].count == 0:
                return nothing(presenters)
            if pipeline.plan.deadline is not None:
                deadline = pipeline.deadline(self._clock(), deadline)
            group = pipeline.group(columns)
            if block.calls is not None:
                results = self._call_all(
                    pipeline, block, block.fill(columns, group), group, tally, deadline
                )
            else:
                flow = block.start(columns, group)
                results = self._drive(pipeline, flow, tally, deadline)
            answer = present(presenters, results)
        except Exception as error:
            self._refuse(pipeline, error)
        seconds = perf_counter() - start
        cell = tally.pipelines[pipeline.index]
        cell.successes += 1
        cell.duration += seconds
        pipeline.measured(seconds)
        return answer

    def _drive(
        self, pipeline: Prepared, flow: Flow, tally: Tally, deadline: float | None
    ) -> list[Rows]:
        cells = tally.stages
        try:
            work = next(flow)
            while True:
                if deadline is not None and self._clock() >= deadline:
                    raise late(pipeline.plan.name, work)
                stage = work.stage
                try:
                    results = stage.run(work.columns, work.group.count, cells[stage.index])
                except Exception as error:
                    work = flow.throw(blame(error, work, pipeline.plan.name))
                else:
                    work = flow.send(results)
        except StopIteration as stop:
            return stop.value

    def _call_all(
        self,
        pipeline: Prepared,
        block: Block,
        slots: list[Rows],
        group: Group,
        tally: Tally,
        deadline: float | None,
    ) -> list[Rows]:
        """Do as `_drive` would, for a block that is nothing but calls."""
        for call, frees in block.calls or ():
            columns = [slots[slot] for slot in call.inputs]
            if deadline is not None and self._clock() >= deadline:
                raise late(pipeline.plan.name, Work(call.stage, columns, group, call.place))
            stage = call.stage
            try:
                results = stage.run(columns, group.count, tally.stages[stage.index])
            except Exception as error:
                work = Work(stage, columns, group, call.place)
                fault = blame(error, work, pipeline.plan.name)
                raise fault from fault.__cause__
            for slot, column in zip(call.outputs, results, strict=True):
                slots[slot] = column
            for slot in frees:
                slots[slot] = FREED
        return [slots[slot] for slot in block.results]

    def cheap(self, name: str) -> bool:
        """Whether a request takes so little time that the receiving thread had better run it."""
        return _is_cheap(self.pipeline(name))

    def submit(self, request: Request) -> Future[Response]:
        """Answer in a worker thread, and let its rows meet those of other requests.

        Raises Fault at once when the request does not fit (INVALID, NOT_FOUND) or there is no
        room (OVERLOADED); what fails later is the future's exception. Cancelling the future drops
        the work that has not begun.
        """
        return self.dispatch(
            self.pipeline(request.pipeline),
            request.inputs,
            partial(Response, request.id),
            outputs=request.outputs,
            deadline=request.deadline,
            priority=request.priority,
        )

    def dispatch(
        self,
        pipeline: Prepared,
        inputs: Mapping[str, object],
        make: Callable[[dict[str, Item]], Result],
        *,
        outputs: tuple[str, ...] | None = None,
        deadline: float | None = None,
        priority: int = 0,
    ) -> Future[Result]:
        """As `submit`; `make` turns the results by name into the future's result.

        `priority` 1 is the highest and what 0, not given, means.
        """
        workers = self._workers_started()
        pending = Pending(make, workers.drop)
        if _is_cheap(pipeline) and workers.quiet:
            # a hop to another thread would take longer than the request itself
            try:
                pending.give(self.run(pipeline, inputs, outputs, deadline))
            except RequestError:
                raise
            except Fault as fault:
                pending.fail(fault)
            return pending
        try:
            columns = pipeline.accept(inputs)
            block, presenters = pipeline.wanted(outputs)
            if pipeline.plan.batch is not None and columns and columns[0].count == 0:
                pending.give(nothing(presenters))
                return pending
            now = self._clock()
            task = Task(
                pipeline,
                pipeline.start(columns, block),
                presenters,
                pending,
                pipeline.deadline(now, deadline),
                priority or 1,
                now,
            )
            pending.task = task
            workers.admit(task)
        except Exception as error:
            self._refuse(pipeline, error)
        return pending

    def drain(self, timeout: float | None = None) -> bool:
        """Take no new requests and wait for those under way; False when `timeout` s are over."""
        self._closed = True
        return self._workers is None or self._workers.drain(timeout)

    @property
    def metrics(self) -> Snapshot:
        """What has happened so far."""
        return self._metrics.snapshot(() if self._workers is None else self._workers.pending())

    def close(self) -> None:
        """Fail what waits and give back what the plan needed; `drain` first to finish it."""
        self._closed = True
        with self._starting:
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.close()
        self._stages.close()

    def _workers_started(self) -> Workers:
        if self._closed:
            raise Fault(Code.UNAVAILABLE, "the engine takes no more requests")
        workers = self._workers
        if workers is None:
            with self._starting:
                if self._workers is None:
                    pipelines = list(self._pipelines.values())
                    scheduler = Scheduler(pipelines, self._stages.all, self.config.queue_size)
                    count, _ = self.config.resolved()
                    self._workers = Workers(scheduler, self._metrics, self._clock, count)
                workers = self._workers
        return workers

    def _refuse(self, pipeline: Prepared, error: Exception) -> NoReturn:
        fault = own_fault(error, pipeline.plan.name)
        self._metrics.tally().pipelines[pipeline.index].fail(fault.code.value)
        if fault is error:
            raise fault
        raise fault from error


def _is_cheap(pipeline: Prepared) -> bool:
    average = pipeline.average
    return average is not None and average < CHEAP_SECONDS and not pipeline.queued
